package participant

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/config"
	"mlkeeper.dev/internal/acm/dmaap"
	"mlkeeper.dev/internal/acm/kafka"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/digest"
)

// runner is a participant inside a manager. It starts when the manager leads.
type runner struct {
	mgr     manager.Manager
	options Options
	log     logr.Logger
	read    func(installation string) (config.Settings, error)
	running atomic.Pointer[Participant]
	// waiting is what the leader cannot start without; nil once it has started.
	waiting atomic.Pointer[error]
}

// Options are what an application.yaml does not say.
type Options struct {
	// Version is told to the runtime.
	Version string
	// Elements are the CompositionElements that the controller of package kserve keeps.
	Elements Elements
	// Namespace is the operator's, which has the Secrets with what may hold credentials. Key waits for the key that their names are made
	// with; it is false when the context is done before.
	Namespace string
	Key       func(context.Context) (digest.Key, bool)
	// Alone says that the manager is nothing but the participant, so that it is ready when the participant is.
	Alone bool
	// Missing says what the cluster lacks for orders to be carried out; nil for nothing. Readiness tells it.
	Missing func() error
	// Transport changes the way to the broker, for tests that let it fail; nil for none.
	Transport func(acm.Transport) acm.Transport
}

// Add makes a manager the participant that an application.yaml describes.
func Add(mgr manager.Manager, text []byte, options Options) error {
	ServeMetrics()
	r := &runner{mgr: mgr, options: options, log: mgr.GetLogger().WithName("participant")}
	r.read = func(installation string) (config.Settings, error) {
		return config.Read(text, config.Options{Installation: installation, Version: options.Version})
	}
	settings, err := r.read("")
	if err != nil {
		return err
	}
	if settings.HTTP.Port != 0 {
		if err := mgr.Add(Endpoints{HTTP: settings.HTTP, Healthy: r.healthy, Metrics: ctrlmetrics.Registry}); err != nil {
			return err
		}
	}
	if options.Alone {
		if err := mgr.AddReadyzCheck("participant", func(*http.Request) error { return r.healthy() }); err != nil {
			return err
		}
	}
	return mgr.Add(r)
}

// healthy is that of the participant and of the cluster; a standby, which runs no participant, needs the cluster only.
func (r *runner) healthy() error {
	if r.options.Missing != nil {
		if err := r.options.Missing(); err != nil {
			return err
		}
	}
	if err := r.waiting.Load(); err != nil {
		return *err
	}
	if p := r.running.Load(); p != nil {
		return p.Healthy()
	}
	return nil
}

// askForInstallation is when the API server is asked again after a failure.
var askForInstallation = backoff.Unwatched

// installation is what tells this cluster from others: the UID of the namespace kube-system. It is asked for until there is an answer.
func (r *runner) installation(ctx context.Context) (string, error) {
	system := &corev1.Namespace{}
	for retry := (backoff.Retry{}); ; {
		err := r.mgr.GetAPIReader().Get(ctx, client.ObjectKey{Name: "kube-system"}, system)
		if err == nil {
			r.waiting.Store(nil)
			return string(system.UID), nil
		}
		err = fmt.Errorf("tell this installation from others: %w", err)
		r.waiting.Store(&err)
		now := time.Now()
		pause := retry.Failed(askForInstallation, "", now).Sub(now)
		r.log.Error(err, "the participant does not start yet", "again", pause)
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Start runs the participant until the context is done.
func (r *runner) Start(ctx context.Context) error {
	installation, err := r.installation(ctx)
	if err != nil {
		return nil // The context is done, which is no failure.
	}
	key, ok := r.options.Key(ctx)
	if !ok {
		return nil
	}
	settings, err := r.read(installation)
	if err != nil {
		return err
	}
	if settings.DMaaP != nil {
		r.log.Info("DMaaP is legacy: the Message Router may lose a record when the participant ends, and carries no runtime after Montreal; use Kafka where the runtime has it")
	}
	transport, err := connect(settings, r.log)
	if err != nil {
		return err
	}
	if r.options.Transport != nil {
		transport = r.options.Transport(transport)
	}
	p := New(Settings{
		Identity: settings.Identity, Interval: settings.Interval, Log: r.log, Events: r.mgr.GetEventRecorder("mlkeeper"), Broker: brokerOf(settings),
	}, transport,
		Store{
			Client: r.mgr.GetClient(), Reader: r.mgr.GetAPIReader(), Elements: r.options.Elements,
			Participant: settings.Identity.ParticipantID, Namespace: r.options.Namespace, Key: key,
		})
	r.options.Elements.Follow(p.Saw)
	r.running.Store(p)
	return p.Start(ctx)
}

func connect(settings config.Settings, log logr.Logger) (acm.Transport, error) {
	if settings.Kafka != nil {
		return kafka.New(*settings.Kafka, log)
	}
	return dmaap.New(*settings.DMaaP)
}

func brokerOf(settings config.Settings) acm.Broker {
	if settings.Kafka != nil {
		return settings.Kafka.Broker()
	}
	return settings.DMaaP.Broker()
}

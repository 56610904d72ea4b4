package participant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/keymutex"

	"mlkeeper.dev/internal/acm"
)

// Settings are what a participant is told.
type Settings struct {
	Identity acm.Identity
	// Interval is the time between heartbeats; zero means DefaultInterval.
	Interval time.Duration
	Clock    clock.WithTicker
	Log      logr.Logger
	// Events tells of orders that have ended or are dropped; nil for nobody.
	Events events.EventRecorder
	// Broker is what the log says of the broker.
	Broker acm.Broker
}

// DefaultInterval is the time between heartbeats of the original (reportingTimeIntervalMs).
const DefaultInterval = 2 * time.Minute

const (
	// minRetry and maxRetry bound the wait before something that failed is tried again.
	minRetry, maxRetry = 500 * time.Millisecond, 30 * time.Second
	// maxReceive bounds the wait before records are asked for again: transports have patience of their own.
	maxReceive = 4 * time.Second
	// minAnnounce and maxAnnounce bound the wait before a registration or heartbeat in place of one that the broker has not taken.
	minAnnounce, maxAnnounce = time.Second, 5 * time.Second
	// maxRegister bounds the wait before another registration in place of one that the runtime has not answered.
	maxRegister = time.Minute
	// farewell bounds the time for taking leave of the runtime.
	farewell = 3 * time.Second
)

// Participant is one participant of an ACM runtime.
type Participant struct {
	settings  Settings
	transport acm.Transport
	store     Store
	outbox    *outbox

	// mu guards state, which is what the cluster holds with what is being written to it.
	mu    sync.Mutex
	state *acm.State
	// failures are the steps that do not succeed; mu guards them too.
	failures map[*failure]bool
	// untidy are the entries that a crash or an earlier release has left otherwise than they would be written; mu guards them too.
	untidy map[entry]bool
	// writing has each entry written by one at a time.
	writing keymutex.KeyMutex
	// started is when the participant has registered first.
	started time.Time
	// woken has a value when orders are held that were not before.
	woken chan struct{}
}

// New makes a participant. It does nothing until it is started.
func New(settings Settings, transport acm.Transport, store Store) *Participant {
	if settings.Interval == 0 {
		settings.Interval = DefaultInterval
	}
	if settings.Clock == nil {
		settings.Clock = clock.RealClock{}
	}
	store.known = &knownSecrets{by: map[string]map[string]secretState{}}
	p := &Participant{
		settings: settings, transport: transport, store: store, state: acm.NewState(), woken: make(chan struct{}, 1),
		failures: map[*failure]bool{}, writing: keymutex.NewHashed(0),
	}
	p.outbox = newOutbox(p)
	return p
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: one replica consumes, under one replica id.
func (p *Participant) NeedLeaderElection() bool { return true }

// Start runs the participant until its context is done, and takes leave of the runtime then.
func (p *Participant) Start(ctx context.Context) error {
	defer p.transport.Close()
	if err := p.insist(ctx, p.load); err != nil {
		return nil // The context is done, which is no failure.
	}
	defer forgetGauges()
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return p.report(running) })
	group.Go(func() error { return p.outbox.run(running) })
	group.Go(func() error { return p.announce(running) })
	group.Go(func() error { return p.ask(running) })
	group.Go(func() error { return p.receive(running) })
	group.Go(func() error { return p.insist(running, p.tidy) })
	err := group.Wait()
	p.deregister(context.WithoutCancel(ctx))
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// load takes in what the cluster remembers. An object that cannot be read is left out, and told of.
func (p *Participant) load(ctx context.Context) error {
	loaded, err := p.store.Load(ctx)
	if err != nil {
		return err
	}
	for _, one := range loaded.Unreadable {
		objectsUnreadable.WithLabelValues(one.Object.GetKind()).Inc()
		p.settings.Log.Error(one.Err, "an object cannot be read and is left out", "kind", one.Object.GetKind(), "name", one.Object.GetName())
		p.event(one.Object, "Unreadable", "the participant cannot read it and goes on without it: "+one.Err.Error())
	}
	p.mu.Lock()
	p.state, p.untidy, p.started = loaded.State, loaded.Untidy, p.now()
	p.mu.Unlock()
	me, broker := p.settings.Identity, p.settings.Broker
	p.settings.Log.Info("the participant has started", "participantId", me.ParticipantID, "replicaId", me.ReplicaID, "version", me.Version,
		"broker", broker.Kind, "servers", broker.Servers, "reads", broker.Reads(), "writes", broker.PublishTopic,
		"elements", len(loaded.State.Elements), "pendingOrders", len(loaded.State.Held), "unreadable", len(loaded.Unreadable))
	return nil
}

// event tells of an object for which something goes wrong.
func (p *Participant) event(about runtime.Object, reason, message string) {
	p.eventOf(about, corev1.EventTypeWarning, reason, message)
}

func (p *Participant) eventOf(about runtime.Object, kind, reason, message string) {
	if p.settings.Events != nil {
		p.settings.Events.Eventf(about, nil, kind, reason, "Receive", "%s", message)
	}
}

// failure is a step that does not succeed.
type failure struct {
	since time.Time
	why   error
}

// patience is how long a step may fail until health tells.
const patience = 10 * time.Second

// failed keeps why a step has not succeeded, ended forgets it.
func (p *Participant) failed(one *failure, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.why = why
	p.failures[one] = true
	stepsFailing.Set(float64(len(p.failures)))
}

func (p *Participant) ended(one *failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failures, one)
	stepsFailing.Set(float64(len(p.failures)))
}

// Healthy says whether the broker answers, what it brings is safe and the runtime knows the participant; nil if so.
func (p *Participant) Healthy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for one := range p.failures {
		if p.now().Sub(one.since) >= patience {
			return fmt.Errorf("orders wait since %s, what they need cannot be stored or told: %w", one.since.UTC().Format(time.RFC3339), one.why)
		}
	}
	if err := p.transport.Healthy(); err != nil {
		return fmt.Errorf("the broker: %w", err)
	}
	if !p.state.Registered {
		return fmt.Errorf("the ACM runtime has not acknowledged the registration. Read are %s, written is %s: check that the runtime is running, that "+
			"these are its topics (since Oslo it acknowledges on the second one), and that no other participant has the element types",
			strings.Join(p.settings.Broker.Reads(), ", "), p.settings.Broker.PublishTopic)
	}
	for _, id := range slices.Sorted(maps.Keys(p.state.Unsynchronized)) {
		return fmt.Errorf("orders wait for a synchronization of composition %s, and the runtime's has no effect: %s", id, p.state.Unsynchronized[id])
	}
	return nil
}

// announce registers until the runtime answers, and sends heartbeats from then on. Messages that were sent before anybody
// listened are lost, so that one registration is not enough; and a heartbeat that the broker has not taken is sent again soon, since
// runtimes give up a replica of which they have not heard for 150 s (maxStatusWaitMs, SupervisionParticipantScanner).
func (p *Participant) announce(ctx context.Context) error {
	pause := minAnnounce
	for before := false; ; {
		registered, wait := p.registered(), p.settings.Interval
		if registered && !before {
			pause = minAnnounce
		}
		before = registered
		err := p.recovered(ctx, "heartbeat", func(ctx context.Context) error {
			message := p.settings.Identity.Register(newID(), p.now())
			if registered {
				message = p.settings.Identity.Status(newID(), p.now(), "", nil)
			}
			return p.publish(ctx, message)
		})
		switch {
		case registered && err == nil:
			pause = minAnnounce
		case err == nil:
			wait, pause = min(pause, wait), min(2*pause, maxRegister)
		default:
			pause = min(pause, maxAnnounce)
			wait, pause = min(pause, wait), min(2*pause, maxAnnounce)
		}
		if err := p.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func (p *Participant) registered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Registered
}

// deregister takes leave of the runtime, once: the runtime notices by itself who is gone.
func (p *Participant) deregister(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	_ = p.recovered(ctx, "heartbeat", func(ctx context.Context) error {
		return p.publish(ctx, p.settings.Identity.Deregister(newID(), p.now()))
	})
}

// publish sends messages, and keeps the books.
func (p *Participant) publish(ctx context.Context, messages ...acm.Outgoing) error {
	if len(messages) == 0 {
		return nil
	}
	err := p.transport.Publish(ctx, messages...)
	if err != nil && ctx.Err() == nil {
		publishFailures.Inc()
		p.settings.Log.Error(err, "messages were not published", "type", messages[0].Type, "messages", len(messages))
	}
	if err == nil {
		for _, m := range messages {
			messagesPublished.WithLabelValues(string(m.Type)).Inc()
		}
	}
	return err
}

func (p *Participant) now() time.Time { return p.settings.Clock.Now() }

// sleep waits, or returns the error of the context.
func (p *Participant) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.settings.Clock.After(d):
		return nil
	}
}

func newID() string { return string(uuid.NewUUID()) }

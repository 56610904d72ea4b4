package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"mlkeeper.dev/devcluster/internal/catalog"
	"mlkeeper.dev/devcluster/internal/component"
	"mlkeeper.dev/devcluster/internal/version"
)

const (
	kubernetesVersion = version.Kubernetes
	// pollEvery is short: the boot is a chain of such waits.
	pollEvery = 20 * time.Millisecond
	// tailLines is how much of a log goes into an error.
	tailLines = 25
)

// boot starts everything and returns when the cluster can run a Deployment.
func (s *Supervisor) boot(ctx context.Context) error {
	// The API server spends its first second on itself; by the time it wants
	// etcd, etcd is there. The others follow when they have someone to talk to.
	if err := s.startAll(ctx, component.Etcd, component.APIServer); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.state.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	err = together(ctx,
		func(ctx context.Context) error { return s.startRest(ctx) },
		func(ctx context.Context) error { return s.populate(ctx, config) },
		func(ctx context.Context) error { return s.installCRDs(ctx, config) },
	)
	if err != nil {
		return err
	}
	s.setPhase(PhaseHealthy, "")
	s.logf("healthy: %s", s.spec.Server())
	return nil
}

func (s *Supervisor) installCRDs(ctx context.Context, config *rest.Config) error {
	if len(s.opts.CRDs) == 0 {
		return nil
	}
	names, err := catalog.Install(ctx, config, s.opts.CRDs)
	if err != nil {
		return err
	}
	s.logf("%d custom resource definitions installed", len(names))
	return nil
}

// startRest starts everything but etcd and the API server. A kubelet ends where
// containerd does not answer, so that comes first, with the image that every pod
// needs.
func (s *Supervisor) startRest(ctx context.Context) error {
	rest := s.spec.Enabled()[2:]
	if !s.spec.RealNode {
		return s.startAll(ctx, rest...)
	}
	others := slices.DeleteFunc(slices.Clone(rest), func(name string) bool {
		return name == component.Containerd || name == component.Kubelet
	})
	return together(ctx,
		func(ctx context.Context) error { return s.startAll(ctx, others...) },
		func(ctx context.Context) error { return s.startNode(ctx) },
	)
}

// together runs the steps at once and returns the first error. The other steps
// are cancelled by it, so that a component that dies ends the boot immediately.
func together(ctx context.Context, steps ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, step := range steps {
		wg.Go(func() {
			if err := step(ctx); err != nil {
				// Only the first cause is kept.
				cancel(err)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// startAll launches components together and waits for every one to be healthy.
func (s *Supervisor) startAll(ctx context.Context, names ...string) error {
	var steps []func(context.Context) error
	for _, name := range names {
		steps = append(steps, func(ctx context.Context) error { return s.start(ctx, name) })
	}
	return together(ctx, steps...)
}

// start launches one component and waits until it is healthy, gone or late.
func (s *Supervisor) start(ctx context.Context, name string) error {
	p, err := s.launch(name)
	if err != nil {
		return err
	}
	for !s.healthy(ctx, name) {
		select {
		case <-p.done:
			return s.failure(name, fmt.Sprintf("ended while it started (%s)", p.exit))
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return ctx.Err()
			}
			return s.failure(name, "was not healthy in time; a busy machine may need a longer --timeout")
		case <-time.After(pollEvery):
		}
	}
	s.logf("%s ready", name)
	return nil
}

// failure explains a component that did not start, with what its log says last.
func (s *Supervisor) failure(name, what string) error {
	log := s.spec.LogOf(name)
	return fmt.Errorf("%s %s\n--- the end of %s ---\n%s\n---\nread the whole log, correct the cause, "+
		"and boot again; `devcluster down --dir %s` removes what is left", name, what, log, Tail(log, tailLines), s.spec.Dir)
}

// healthy asks a component whether it can be used.
func (s *Supervisor) healthy(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.spec.HealthURL(name), nil)
	if err != nil {
		return false
	}
	resp, err := s.probe.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// probeClient speaks to every component, as the admin where TLS is spoken: the
// API server knows its anonymous rights only after it has read its roles.
func probeClient(s component.Spec) (*http.Client, error) {
	ca, err := os.ReadFile(s.PKI("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	token, err := os.ReadFile(s.PKI("admin.token"))
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &bearer{
		token: strings.TrimSpace(string(token)),
		prober: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			DisableKeepAlives: true,
		},
	}}, nil
}

// bearer adds the admin's token to requests for the API server. The other
// components answer without, and would take time to look a token up.
type bearer struct {
	token  string
	prober http.RoundTripper
}

func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path == "/readyz" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.prober.RoundTrip(req)
}

package servicemonitors

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	httpconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	_ "github.com/prometheus/prometheus/discovery/kubernetes" // The discovery that the configuration names.
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
)

// series is one sample that Prometheus stores.
type series struct {
	labels labels.Labels
	value  float64
}

// scraped is what Prometheus finds and stores.
type scraped struct {
	targets []*scrape.Target
	// series are by name.
	series map[string][]series
}

// names are those of the series that come from the target and are none of Prometheus' own.
func (s scraped) names() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.series)) {
		if name != "up" && !slices.Contains([]string{
			"scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling", "scrape_series_added",
		}, name) {
			out = append(out, name)
		}
	}
	return out
}

// run lets Prometheus find the targets of a configuration and scrape them once. It returns when every Service of the rendering
// was found and a target was scraped, or when there is none.
func (g generated) run(t *testing.T, r rendering, p *pod) scraped {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	registry := prometheus.NewRegistry()
	metrics, err := discovery.CreateAndRegisterSDMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	finder := discovery.NewManager(ctx, quiet, registry, metrics, discovery.Updatert(10*time.Millisecond))
	store := &samples{done: make(chan struct{})}
	manager, err := scrape.NewManager(&scrape.Options{
		DiscoveryReloadInterval: model.Duration(10 * time.Millisecond),
		HTTPClientOptions:       []httpconfig.HTTPClientOption{httpconfig.WithDialContextFunc(p.dial)},
	}, quiet, nil, nil, store, registry)
	if err != nil {
		t.Fatal(err)
	}
	// The first scrape comes within an interval.
	what := map[string]discovery.Configs{}
	for name, job := range g.jobs {
		job.ScrapeInterval, job.ScrapeTimeout = model.Duration(time.Second), model.Duration(time.Second)
		what[name] = job.ServiceDiscoveryConfigs
	}
	if err := manager.ApplyConfig(g.config); err != nil {
		t.Fatal(err)
	}
	go func() { _ = finder.Run() }()
	go func() { _ = manager.Run(finder.SyncCh()) }()
	defer manager.Stop()
	if err := finder.ApplyConfig(what); err != nil {
		t.Fatal(err)
	}
	out := scraped{targets: r.found(t, manager)}
	if len(out.targets) == 0 {
		return out
	}
	select {
	case <-store.done:
	case <-time.After(time.Minute):
		t.Fatal("nothing was scraped within a minute")
	}
	store.mu.Lock()
	defer store.mu.Unlock()
	out.series = map[string][]series{}
	for _, s := range store.stored {
		name := s.labels.Get(model.MetricNameLabel)
		out.series[name] = append(out.series[name], s)
	}
	return out
}

// found waits until Prometheus has seen every Service that has endpoints, and returns what of these it scrapes.
func (r rendering) found(t *testing.T, manager *scrape.Manager) []*scrape.Target {
	t.Helper()
	var want []string
	for _, slice := range r.slices() {
		want = append(want, slice.Labels["kubernetes.io/service-name"])
	}
	slices.Sort(want)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(time.Minute)
	for {
		seen := map[string]bool{}
		for _, targets := range manager.TargetsAll() {
			for _, target := range targets {
				seen[target.DiscoveredLabels(labels.NewBuilder(labels.EmptyLabels())).Get("__meta_kubernetes_service_name")] = true
			}
		}
		if slices.Equal(slices.Sorted(maps.Keys(seen)), want) {
			break
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("Prometheus has found the Services %v, not %v", slices.Sorted(maps.Keys(seen)), want)
		}
	}
	var out []*scrape.Target
	for _, targets := range manager.TargetsActive() {
		out = append(out, targets...)
	}
	return out
}

// samples keeps what the first scrape stores.
type samples struct {
	mu     sync.Mutex
	stored []series
	once   sync.Once
	done   chan struct{}
}

// AppenderV2 implements storage.AppendableV2.
func (s *samples) AppenderV2(context.Context) storage.AppenderV2 { return &appender{to: s} }

// appender collects one scrape.
type appender struct {
	to      *samples
	pending []series
}

// Append implements storage.AppenderV2.
func (a *appender) Append(
	_ storage.SeriesRef, l labels.Labels, _, _ int64, v float64, _ *histogram.Histogram, _ *histogram.FloatHistogram, _ storage.AppendV2Options,
) (storage.SeriesRef, error) {
	// A mark that a series has ended is no value.
	if !math.IsNaN(v) {
		a.pending = append(a.pending, series{labels: l, value: v})
	}
	return 1, nil
}

// Commit implements storage.AppenderV2.
func (a *appender) Commit() error {
	a.to.mu.Lock()
	defer a.to.mu.Unlock()
	a.to.once.Do(func() {
		a.to.stored = a.pending
		close(a.to.done)
	})
	return nil
}

// Rollback implements storage.AppenderV2.
func (*appender) Rollback() error { return nil }

package engine

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/room"
)

// Outcomes of a reconcile, one for each exit of the loop.
const (
	outcomeReady     = "ready"
	outcomeWaiting   = "waiting"
	outcomeTerminal  = "terminal"
	outcomeTransient = "transient"
	outcomeSuspended = "suspended"
)

// The metrics exist once per process, whatever the number of engines in it.
var (
	reconciles = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_reconciles_total", Help: "Reconciles by kind of the custom resource and outcome.",
	}, []string{"kind", "outcome"})
	writes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_writes_total", Help: "Writes by kind of the written object, verb and reason.",
	}, []string{"kind", "verb", "reason"})
	drift = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_drift_repaired_total", Help: "Objects that were changed by somebody else and were set right again.",
	}, []string{"kind"})
	objects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_objects", Help: "Children by kind of their custom resource and health.",
	}, []string{"kind", "health"})
	timeToReady = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mlkeeper_time_to_ready_seconds", Help: "Time from the creation of a custom resource to its first Ready.",
		Buckets: []float64{0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800},
	}, []string{"kind"})
	register sync.Once
)

// engineMetrics counts what the engine does. Objects by health are counted per custom resource, so that each pass
// replaces the counts of the pass before.
type engineMetrics struct {
	mu    sync.Mutex
	stack map[string]map[client.ObjectKey]map[health.Status]int
}

func newMetrics() *engineMetrics {
	register.Do(func() { ctrlmetrics.Registry.MustRegister(reconciles, writes, drift, objects, timeToReady) })
	return &engineMetrics{stack: map[string]map[client.ObjectKey]map[health.Status]int{}}
}

func (m *engineMetrics) reconciled(kind, outcome string) {
	reconciles.WithLabelValues(kind, outcome).Inc()
}

func (m *engineMetrics) write(key plan.Key, verb decide.Verb, reason string) {
	writes.WithLabelValues(key.Kind, string(verb), reason).Inc()
}

func (m *engineMetrics) statusWritten(kind string) {
	writes.WithLabelValues(kind, "UpdateStatus", "Changed").Inc()
}

func (m *engineMetrics) repaired(key plan.Key) { drift.WithLabelValues(key.Kind).Inc() }

// becameReady records the time to the first Ready; later recoveries are not counted.
func (m *engineMetrics) becameReady(kind string, age time.Duration) {
	timeToReady.WithLabelValues(kind).Observe(age.Seconds())
}

// observe replaces the counts of one custom resource's objects by health.
func (m *engineMetrics) observe(kind string, key client.ObjectKey, seen room.Seen) {
	now := map[health.Status]int{}
	for _, state := range seen.Objects {
		if state.Observed == nil {
			now["Missing"]++
			continue
		}
		now[state.Observed.Health.Status]++
	}
	m.replace(kind, key, now)
}

func (m *engineMetrics) forget(kind string, key client.ObjectKey) { m.replace(kind, key, nil) }

func (m *engineMetrics) replace(kind string, key client.ObjectKey, now map[health.Status]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	byKey, ok := m.stack[kind]
	if !ok {
		byKey = map[client.ObjectKey]map[health.Status]int{}
		m.stack[kind] = byKey
	}
	for status, n := range byKey[key] {
		objects.WithLabelValues(kind, string(status)).Sub(float64(n))
	}
	if now == nil {
		delete(byKey, key)
		return
	}
	byKey[key] = now
	for status, n := range now {
		objects.WithLabelValues(kind, string(status)).Add(float64(n))
	}
}

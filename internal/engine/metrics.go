package engine

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// Outcomes of a reconcile, one for each exit of the loop.
const (
	outcomeReady        = "ready"
	outcomeRequeueAfter = "requeue_after"
	outcomeStalled      = "stalled"
	outcomeError        = "error"
	outcomeSuspended    = "suspended"
)

// The metrics exist once per process, whatever the number of engines in it.
var (
	reconciles = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_reconciles_total", Help: "Reconciles by kind of the custom resource and outcome.",
	}, []string{"kind", "outcome"})
	writes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_writes_total", Help: "Writes by kind of the written object, verb and reason.",
	}, []string{"kind", "verb", "reason"})
	failedWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_failed_writes_total", Help: "Attempts to write a child that failed, by kind of the child and cause.",
	}, []string{"kind", "cause"})
	failedJobs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_failed_jobs_total",
		Help: "Background jobs, such as downloads and renderings, that failed, by kind of the custom resource and cause.",
	}, []string{"kind", "cause"})
	drift = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_drift_corrections_total", Help: "Objects that were changed by somebody else and were set right again.",
	}, []string{"kind"})
	objects = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_managed_objects", Help: "Children by kind of their custom resource and health.",
	}, []string{"kind", "health"})
	timeToReady = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mlkeeper_time_to_ready_seconds", Help: "Time from the creation of a custom resource to its first Ready.",
		Buckets: []float64{0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800},
	}, []string{"kind"})
	ready = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_ready", Help: "Custom resources by kind, status of the condition Ready, and its reason.",
	}, []string{"kind", "status", "reason"})
	suspended = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_suspended", Help: "Custom resources that are suspended, of which nothing is written, by kind.",
	}, []string{"kind"})
	verified = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_last_full_sync_timestamp_seconds",
		Help: "When the manager that leads last reconciled a custom resource for the first time, in seconds since 1970.",
	}, []string{"kind"})
	rolloutSince = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_rollout_started_timestamp_seconds",
		Help: "When the namespace that pods are restarted in for a change of the operator, while others wait, got its turn, in seconds since 1970.",
	}, []string{"holder"})
	shardHeld = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_shard_held",
		Help: "Whether this manager holds a shard: 1 or 0. Shard 0 is that of the leader.",
	}, []string{"shard"})
	register sync.Once
)

// engineMetrics counts what the engine does. What is counted per custom resource is kept, so that each pass replaces the
// counts of the pass before.
type engineMetrics struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	stack map[string]map[client.ObjectKey]stackCounts
	// active is what each custom resource has done lately, by kind.
	active map[string]map[client.ObjectKey]*activity
	// suspended has the custom resources that are suspended, by kind.
	suspended map[string]map[client.ObjectKey]struct{}
}

// stackCounts is what one custom resource adds to the gauges.
type stackCounts struct {
	health map[health.Status]int
	// status and reason are those of its condition Ready.
	status, reason string
	// since is when it became not Ready; zero while it is Ready.
	since time.Time
}

func newMetrics(c clock.PassiveClock) *engineMetrics {
	register.Do(func() {
		ctrlmetrics.Registry.MustRegister(reconciles, writes, failedWrites, failedJobs, drift, objects, timeToReady, ready, suspended, verified, rolloutSince,
			shardHeld, notReadySince, failing, failingSince, busySince, mostRepairs)
	})
	m := &engineMetrics{
		clock: c, stack: map[string]map[client.ObjectKey]stackCounts{}, active: map[string]map[client.ObjectKey]*activity{},
		suspended: map[string]map[client.ObjectKey]struct{}{},
	}
	collected.Store(m)
	return m
}

func (m *engineMetrics) reconciled(kind, outcome string) {
	reconciles.WithLabelValues(kind, outcome).Inc()
}

func (m *engineMetrics) write(key plan.Key, verb decide.Verb, reason string) {
	writes.WithLabelValues(key.Kind, string(verb), reason).Inc()
}

func (m *engineMetrics) writeFailed(key plan.Key, cause string) {
	failedWrites.WithLabelValues(key.Kind, cause).Inc()
}

func (m *engineMetrics) jobFailed(kind, cause string) {
	failedJobs.WithLabelValues(kind, cause).Inc()
}

func (m *engineMetrics) statusWritten(kind string) {
	writes.WithLabelValues(kind, "PatchStatus", "StatusChanged").Inc()
}

// rollout tells which namespace has the slot for rollouts, and since when; empty for none.
func (m *engineMetrics) rollout(holder string, since time.Time) {
	rolloutSince.Reset()
	if holder != "" {
		rolloutSince.WithLabelValues(holder).Set(float64(since.Unix()))
	}
}

// becameReady records the time to the first Ready; later recoveries are not counted.
func (m *engineMetrics) becameReady(kind string, age time.Duration) {
	timeToReady.WithLabelValues(kind).Observe(age.Seconds())
}

// observe replaces the counts of one custom resource: its objects by health, and its condition Ready.
func (m *engineMetrics) observe(
	kind string, key client.ObjectKey, states map[plan.Key]controller.State, condition *metav1.Condition, now time.Time,
) {
	counts := newCounts(condition)
	for _, state := range states {
		switch {
		case state.Observed != nil:
			counts.health[state.Observed.Health.Status]++
		case state.Current:
			counts.health[health.Current]++
		default:
			counts.health["Missing"]++
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replaceLocked(kind, key, counts, condition, now)
}

// observeReady replaces the condition Ready alone, where nothing is known of the objects of a custom resource.
func (m *engineMetrics) observeReady(kind string, key client.ObjectKey, condition *metav1.Condition, now time.Time) {
	counts := newCounts(condition)
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(counts.health, m.stack[kind][key].health)
	m.replaceLocked(kind, key, counts, condition, now)
}

// newCounts counts a custom resource without objects.
func newCounts(condition *metav1.Condition) stackCounts {
	counts := stackCounts{health: map[health.Status]int{}, status: string(metav1.ConditionUnknown)}
	if condition != nil {
		counts.status, counts.reason = string(condition.Status), condition.Reason
	}
	return counts
}

func (m *engineMetrics) replaceLocked(kind string, key client.ObjectKey, counts stackCounts, condition *metav1.Condition, now time.Time) {
	m.resumeLocked(kind, key)
	if m.stack[kind] == nil {
		m.stack[kind] = map[client.ObjectKey]stackCounts{}
	}
	before, known := m.stack[kind][key]
	if known {
		before.add(kind, -1)
	} else {
		verified.WithLabelValues(kind).Set(float64(now.UnixMilli()) / 1000)
	}
	counts.since = since(before, condition, now)
	counts.add(kind, 1)
	m.stack[kind][key] = counts
}

// suspend counts a custom resource as suspended, until it is observed again or forgotten. Its other counts stay as they were last.
func (m *engineMetrics) suspend(kind string, key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.suspended[kind] == nil {
		m.suspended[kind] = map[client.ObjectKey]struct{}{}
	}
	m.suspended[kind][key] = struct{}{}
	suspended.WithLabelValues(kind).Set(float64(len(m.suspended[kind])))
}

// resumeLocked ends that.
func (m *engineMetrics) resumeLocked(kind string, key client.ObjectKey) {
	if _, is := m.suspended[kind][key]; is {
		delete(m.suspended[kind], key)
		suspended.WithLabelValues(kind).Set(float64(len(m.suspended[kind])))
	}
}

func (m *engineMetrics) forget(kind string, key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resumeLocked(kind, key)
	delete(m.active[kind], key)
	if before, known := m.stack[kind][key]; known {
		before.add(kind, -1)
		delete(m.stack[kind], key)
	}
}

// add adds the counts to the gauges, or takes them off again. A status and reason that no custom resource has any more
// leave the gauge at zero: a series that ends would keep its last value in a graph.
func (c stackCounts) add(kind string, sign float64) {
	for status, n := range c.health {
		objects.WithLabelValues(kind, string(status)).Add(sign * float64(n))
	}
	ready.WithLabelValues(kind, c.status, c.reason).Add(sign)
}

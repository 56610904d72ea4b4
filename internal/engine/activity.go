package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/retry"
)

// An alert about one custom resource needs the longest or the largest of all of them: in a sum over a kind, one that never stops cannot be told
// from many of which another one is busy each time. The series name no custom resource, and are computed when they are collected.
var (
	notReadySince = newComputed(prometheus.GaugeOpts{
		Name: "mlkeeper_not_ready_since_timestamp_seconds",
		Help: "Since when the custom resource that is not Ready for the longest time has not been Ready, by kind and reason of the condition Ready, " +
			"in seconds since 1970.",
	}, (*engineMetrics).notReadyLocked, "kind", "reason")
	failing = newComputed(prometheus.GaugeOpts{
		Name: "mlkeeper_failing", Help: "Custom resources whose last reconcile ended in an error or a panic, by kind.",
	}, (*engineMetrics).failingLocked, "kind")
	failingSince = newComputed(prometheus.GaugeOpts{
		Name: "mlkeeper_failing_since_timestamp_seconds",
		Help: "Since when every reconcile of the custom resource that fails for the longest time has ended in an error or a panic, by kind, in " +
			"seconds since 1970.",
	}, (*engineMetrics).failingSinceLocked, "kind")
	busySince = newComputed(prometheus.GaugeOpts{
		Name: "mlkeeper_continuous_reconciles_since_timestamp_seconds",
		Help: "Since when one custom resource has been reconciled more than 30 times in each ten minutes, by kind, in seconds since 1970.",
	}, (*engineMetrics).busyLocked, "kind")
	mostRepairs = newComputed(prometheus.GaugeOpts{
		Name: "mlkeeper_most_drift_corrections",
		Help: "How often the object that was corrected most often was corrected without being left alone for ten minutes, by kind of the object. To " +
			"make again what somebody deletes, and to delete what somebody makes again, is a correction, too.",
	}, (*engineMetrics).repairsLocked, "kind")
)

// collected are the metrics of the newest engine of the process, whose custom resources the computed gauges are about.
var collected atomic.Pointer[engineMetrics]

// computation sets the series of a gauge. The caller holds the lock of the metrics.
type computation func(m *engineMetrics, now time.Time, set func(value float64, labels ...string))

// computed is a gauge whose series are computed when they are collected. A GaugeVec has no hook for that.
type computed struct {
	*prometheus.GaugeVec
	compute computation

	mu sync.Mutex
}

func newComputed(o prometheus.GaugeOpts, compute computation, labels ...string) *computed {
	return &computed{GaugeVec: prometheus.NewGaugeVec(o, labels), compute: compute}
}

// Collect implements prometheus.Collector.
func (c *computed) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Reset()
	if m := collected.Load(); m != nil {
		m.mu.Lock()
		c.compute(m, m.clock.Now(), func(value float64, labels ...string) { c.WithLabelValues(labels...).Set(value) })
		m.mu.Unlock()
	}
	c.GaugeVec.Collect(out)
}

// activity is what one custom resource has done lately.
type activity struct {
	// failing is since when every reconcile has ended in an error; zero where the last one did not.
	failing time.Time
	// busy counts its reconciles.
	busy often
	// repairs are the corrections of its objects, whether somebody changed, deleted or made them; nil where there was none.
	repairs map[plan.Key]repeated
}

// lately is the time for which an object has to be left alone, and in which reconciles are counted.
const lately = 10 * time.Minute

// continuous is how many reconciles within that time are no more than what changes of the objects explain: one in twenty seconds.
const continuous = 30

// often says since when something has happened more than continuous times in each ten minutes.
type often struct {
	// begin is that of the ten minutes that times is about.
	begin, since time.Time
	times        int
}

// at returns the state at a time: ten minutes that are over have been busy or not.
func (o often) at(now time.Time) often {
	passed := now.Sub(o.begin)
	if o.times > continuous && o.since.IsZero() && passed >= lately {
		o.since = o.begin
	}
	switch {
	case passed < lately:
		return o
	case passed < 2*lately && o.times > continuous:
		return often{begin: o.begin.Add(lately), since: o.since}
	}
	return often{begin: now}
}

// again returns the state after it has happened once more.
func (o often) again(now time.Time) often {
	o = o.at(now)
	o.times++
	return o
}

// repeated is how often something has happened without a pause of ten minutes.
type repeated struct {
	times int
	last  time.Time
}

// at returns the number at a time.
func (r repeated) at(now time.Time) int {
	if now.Sub(r.last) > lately {
		return 0
	}
	return r.times
}

// activityLocked is that of a custom resource.
func (m *engineMetrics) activityLocked(kind string, key client.ObjectKey) *activity {
	if m.active[kind] == nil {
		m.active[kind] = map[client.ObjectKey]*activity{}
	}
	a := m.active[kind][key]
	if a == nil {
		a = &activity{}
		m.active[kind][key] = a
	}
	return a
}

// ended counts a reconcile of a custom resource, however it ended: not every one comes to its report.
func (m *engineMetrics) ended(kind string, key client.ObjectKey, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, now := m.activityLocked(kind, key), m.clock.Now()
	a.busy = a.busy.again(now)
	switch {
	case !failed:
		a.failing = time.Time{}
	case a.failing.IsZero():
		a.failing = now
	}
}

// counted tells the metrics how a reconcile of a custom resource ends. A panic that nothing below recovers is a failure, too: controller-runtime
// recovers it (pkg/internal/controller/controller.go, Reconcile).
func (s *stacks[C, F]) counted(key client.ObjectKey, attempt func() (reconcile.Result, error)) (result reconcile.Result, err error) {
	failed := true
	defer func() { s.metrics.ended(s.def.GVK.Kind, key, failed) }()
	result, err = attempt()
	failed = err != nil
	return result, err
}

// gaveUp says that nothing more is tried for a custom resource, since it is being deleted.
func (m *engineMetrics) gaveUp(kind string, key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.active[kind][key]; a != nil {
		a.failing = time.Time{}
	}
}

// wrote counts the write of an object of a custom resource, where it follows from nothing but what somebody else did to the object. A difference that
// is left is not corrected.
func (m *engineMetrics) wrote(kind string, of client.ObjectKey, a decide.Action) {
	drifted := a.Reason == decide.ReasonDrift
	if !retry.Repeated(a) || drifted && a.Object.Drift.Leave {
		return
	}
	if drifted {
		drift.WithLabelValues(a.Key.Kind).Inc()
	}
	m.repaired(kind, of, a.Key)
}

// repaired counts the correction of an object of a custom resource.
func (m *engineMetrics) repaired(kind string, of client.ObjectKey, key plan.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, now := m.activityLocked(kind, of), m.clock.Now()
	if a.repairs == nil {
		a.repairs = map[plan.Key]repeated{}
	}
	a.repairs[key] = repeated{a.repairs[key].at(now) + 1, now}
	for key, r := range a.repairs {
		if r.at(now) == 0 {
			delete(a.repairs, key)
		}
	}
}

// since is when a custom resource that is not Ready became so. A condition that was Unknown before it was False has another transition, and one
// that is not written yet has a later one each time.
func since(before stackCounts, condition *metav1.Condition, now time.Time) time.Time {
	out := now
	switch {
	case condition == nil:
	case condition.Status == metav1.ConditionTrue:
		return time.Time{}
	case !condition.LastTransitionTime.IsZero():
		out = condition.LastTransitionTime.Time
	}
	if !before.since.IsZero() && before.since.Before(out) {
		return before.since
	}
	return out
}

// oldest keeps the oldest time of each series.
type oldest map[[2]string]time.Time

func (o oldest) add(at time.Time, series [2]string) {
	if before, known := o[series]; !at.IsZero() && (!known || at.Before(before)) {
		o[series] = at
	}
}

func (m *engineMetrics) notReadyLocked(_ time.Time, set func(float64, ...string)) {
	out := oldest{}
	for kind, resources := range m.stack {
		for _, counts := range resources {
			out.add(counts.since, [2]string{kind, counts.reason})
		}
	}
	for series, at := range out {
		set(float64(at.Unix()), series[0], series[1])
	}
}

func (m *engineMetrics) failingLocked(_ time.Time, set func(float64, ...string)) {
	for kind, resources := range m.active {
		n := 0
		for _, a := range resources {
			if !a.failing.IsZero() {
				n++
			}
		}
		set(float64(n), kind)
	}
}

func (m *engineMetrics) failingSinceLocked(_ time.Time, set func(float64, ...string)) {
	m.longestLocked(set, func(a *activity) time.Time { return a.failing })
}

func (m *engineMetrics) busyLocked(now time.Time, set func(float64, ...string)) {
	m.longestLocked(set, func(a *activity) time.Time { return a.busy.at(now).since })
}

// longestLocked sets the oldest time of any custom resource, for each kind with one.
func (m *engineMetrics) longestLocked(set func(float64, ...string), of func(*activity) time.Time) {
	out := oldest{}
	for kind, resources := range m.active {
		for _, a := range resources {
			out.add(of(a), [2]string{kind})
		}
	}
	for series, at := range out {
		set(float64(at.Unix()), series[0])
	}
}

func (m *engineMetrics) repairsLocked(now time.Time, set func(float64, ...string)) {
	most := map[string]int{}
	for _, resources := range m.active {
		for _, a := range resources {
			for key, r := range a.repairs {
				most[key.Kind] = max(most[key.Kind], r.at(now))
			}
		}
	}
	for kind, n := range most {
		set(float64(n), kind)
	}
}

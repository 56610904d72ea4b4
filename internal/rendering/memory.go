package rendering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"mlkeeper.dev/internal/engine/plan"
)

// The metrics exist once per process.
var (
	keptBytes = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mlkeeper_rendered_bytes", Help: "Memory that the results of renderings take which are kept, in bytes, about.",
	})
	evictions = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mlkeeper_rendered_evictions_total",
		Help: "Custom resources whose result of rendering was dropped for lack of memory; it is rendered again when it is needed.",
	})
	register sync.Once
)

// Memory bounds what the results of all caches take that share it. Where they take too much, those of one custom resource after the other are
// dropped: of the namespace that takes the most, what can be rendered again, and of that what was used longest ago. That wakes nobody: a
// custom resource is rendered again when it is reconciled for another reason, as after a restart. A nil Memory has no bound.
type Memory struct {
	// total bounds all namespaces, and each one of them.
	total, each int64

	mu   sync.Mutex
	kept map[owner]*share
	// uses counts the uses, for their order.
	uses int64
}

// owner is a custom resource whose results a cache keeps.
type owner struct {
	cache evictable
	types.NamespacedName
}

// evictable is a cache. Both methods are called with the lock of the Memory.
type evictable interface {
	// taken is what the results of a custom resource take, and whether all of them can be rendered again as they are.
	taken(of types.NamespacedName) (bytes int64, again bool)
	evict(of types.NamespacedName)
}

// share is what an owner takes.
type share struct {
	bytes, used int64
	again       bool
}

// rank orders what is dropped: what can be rendered again comes first.
func (s *share) rank() int {
	if s.again {
		return 0
	}
	return 1
}

// NewMemory makes a bound of so many bytes, of which each namespace may take one half.
func NewMemory(bytes int64) *Memory {
	register.Do(func() { ctrlmetrics.Registry.MustRegister(keptBytes, evictions) })
	return &Memory{total: bytes, each: bytes / 2, kept: map[owner]*share{}}
}

// fits says that the results of one custom resource may take so much.
func (m *Memory) fits(bytes int64) bool { return m == nil || bytes <= m.each }

// tooLarge is the problem of a custom resource whose results do not fit.
func (m *Memory) tooLarge() *plan.Problem {
	return &plan.Problem{
		Class: plan.Terminal, Reason: ReasonResultTooLarge,
		Message: fmt.Sprintf("what it renders takes more than the %d MiB of memory that one namespace may have for it", m.each>>20),
		Remedy:  "split it among namespaces, leave out what is not needed, or have an administrator raise --result-memory",
	}
}

// used notes that the results of a custom resource are in use.
func (m *Memory) used(of owner) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.kept[of]; s != nil {
		m.uses++
		s.used = m.uses
	}
}

// count counts the results of a custom resource, which have changed, and drops those of others where all take too much. What was rendered
// just now stays: it is yet to be used.
func (m *Memory) count(of owner) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uses++
	bytes, again := of.cache.taken(of.NamespacedName)
	m.kept[of] = &share{bytes: bytes, used: m.uses, again: again}
	if bytes == 0 {
		delete(m.kept, of)
	}
	for {
		victim, found := m.victim(of)
		if !found {
			break
		}
		delete(m.kept, victim)
		victim.cache.evict(victim.NamespacedName)
		evictions.Inc()
	}
	keptBytes.Set(float64(sumOf(m.byNamespace())))
}

// byNamespace is what each namespace takes.
func (m *Memory) byNamespace() map[string]int64 {
	out := map[string]int64{}
	for of, s := range m.kept {
		out[of.Namespace] += s.bytes
	}
	return out
}

func sumOf(taken map[string]int64) (sum int64) {
	for _, bytes := range taken {
		sum += bytes
	}
	return sum
}

// victim is the custom resource whose results are dropped next.
func (m *Memory) victim(just owner) (victim owner, found bool) {
	taken := m.byNamespace()
	full := sumOf(taken) > m.total
	var candidates []owner
	for of := range m.kept {
		if of != just && (full || taken[of.Namespace] > m.each) {
			candidates = append(candidates, of)
		}
	}
	if len(candidates) == 0 {
		return owner{}, false
	}
	return slices.MinFunc(candidates, func(a, b owner) int {
		return cmp.Or(
			cmp.Compare(taken[b.Namespace], taken[a.Namespace]), strings.Compare(a.Namespace, b.Namespace),
			cmp.Compare(m.kept[a].rank(), m.kept[b].rank()), cmp.Compare(m.kept[a].used, m.kept[b].used),
		)
	}), true
}

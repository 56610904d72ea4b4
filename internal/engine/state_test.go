package engine

import (
	"context"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/background"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/watch"
	"mlkeeper.dev/internal/engine/wiring"
)

// forgetful is a controller that keeps something of its own.
type forgetful struct {
	controller.Controller[*v1.TrustyAIService, struct{}]
	forgot []types.NamespacedName
}

func (f *forgetful) Forget(key types.NamespacedName) { f.forgot = append(f.forgot, key) }

// A custom resource that is deleted and made anew under its name within one pass inherits nothing of the one before, but for
// what the wires tell of the name.
func TestANamesakeBeginsALifeOfItsOwn(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	sys := &forgetful{}
	s := &stacks[*v1.TrustyAIService, struct{}]{
		Engine: &Engine{
			Options: Options{Clock: clock}, informers: watch.New(watch.Options{Catalog: &catalog.Catalog{}}), metrics: newMetrics(clock),
			jobs: background.New(background.Options[watch.Referrer]{Clock: clock, Namespace: func(watch.Referrer) string { return "" }, Rendering: func() {}, Done: func(watch.Referrer) {}, Log: logr.Discard()}),
		},
		sys: sys, queue: &queue{backoff: backoff.NewLimiter[reconcile.Request](transientRetry, clock)},
		states: map[client.ObjectKey]*reconcileState{}, conflictWaiters: map[plan.Key]map[client.ObjectKey]bool{},
		pendingReady: map[client.ObjectKey]*pendingReady[*v1.TrustyAIService]{},
	}
	key := client.ObjectKey{Namespace: "ns", Name: "x"}
	request := reconcile.Request{NamespacedName: key}
	s.meet(key, "a")
	first := s.stateOf(key)
	first.gates, first.tried, first.seenBefore = map[string]time.Time{"stage": clock.Now()}, "1", true
	first.wiring = map[string][]wiring.Outcome{"target": {{}}}
	s.waitForConflicts(key, first, []plan.Key{{Name: "of another"}})
	s.progress(first, true)
	s.queue.backoff.When(request)
	referrer := watch.Referrer{Kind: s.def.GVK.GroupKind(), Namespace: key.Namespace, Name: key.Name}
	s.jobs.Get(referrer, "job", controller.Once, func(context.Context) any { return 1 })

	s.meet(key, "a")
	if s.stateOf(key) != first || s.queue.backoff.Remaining(request) == 0 || len(sys.forgot) > 0 {
		t.Error("a state ends before its custom resource does")
	}
	s.meet(key, "b")
	second := s.stateOf(key)
	if second == first || len(second.gates) > 0 || second.tried != "" || second.seenBefore {
		t.Errorf("the namesake inherits %+v", second)
	}
	if s.queue.backoff.Remaining(request) != 0 {
		t.Error("the namesake waits for the retry of the one before")
	}
	if s.jobs.Len() > 0 || len(s.conflictWaiters) > 0 || len(sys.forgot) != 1 || first.progressing {
		t.Errorf("of the one before, %d owners of jobs and %d objects are left, and the controller forgot %d", s.jobs.Len(), len(s.conflictWaiters),
			len(sys.forgot))
	}
	if len(second.wiring) != 1 {
		t.Error("what the wires told of the name, which they do not tell again, is lost")
	}
	s.meet(key, "b")
	if s.stateOf(key) != second {
		t.Error("the state of the namesake ends")
	}
	s.forget(key)
	if len(s.states) > 0 || len(sys.forgot) != 2 {
		t.Error("what is gone is not forgotten")
	}
}

// TestWhatGoesWithItsAPIIsForgotten: the watch ends without an event for each custom resource, and a later one has other custom resources.
func TestWhatGoesWithItsAPIIsForgotten(t *testing.T) {
	s, clock := bareStacks()
	work := priorityqueue.New[reconcile.Request]("resources")
	defer work.ShutDown()
	s.queue.work = work
	s.conflictWaiters, s.unconfirmed = map[plan.Key]map[client.ObjectKey]bool{}, map[client.ObjectKey]bool{}
	s.jobs = background.New(background.Options[watch.Referrer]{
		Clock: clock, Namespace: func(watch.Referrer) string { return "" }, Rendering: func() {}, Done: func(watch.Referrer) {}, Log: logr.Discard(),
	})
	s.controllers = map[schema.GroupKind]reconciler{s.def.GVK.GroupKind(): s}
	key := client.ObjectKey{Namespace: "ns", Name: "x"}
	s.setUnconfirmed(key, true)
	s.meet(key, "uid")
	s.enqueueUsersOf(s.def.GVK.GroupKind())
	if work.Len() != 1 {
		t.Fatalf("%d custom resources are enqueued", work.Len())
	}
	request, _ := work.Get()
	if _, err := s.Reconcile(t.Context(), request); err != nil || len(s.states)+len(s.unconfirmed) > 0 {
		t.Errorf("left are %v and %v, %v", s.states, s.unconfirmed, err)
	}
}

// TestEveryFieldOfTheStateIsDocumented: ARCHITECTURE.md says of each field what its loss costs, and of no other.
func TestEveryFieldOfTheStateIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## State of one custom resource\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented, fields []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\|").FindAllStringSubmatch(section, -1) {
		cells := strings.Split(row[1], " | ")
		for _, name := range strings.Split(cells[0], ", ") {
			documented = append(documented, strings.Trim(name, "`"))
		}
	}
	for i, of := 0, reflect.TypeFor[reconcileState](); i < of.NumField(); i++ {
		fields = append(fields, of.Field(i).Name)
	}
	slices.Sort(documented)
	slices.Sort(fields)
	if !slices.Equal(documented, fields) {
		t.Errorf("documented are %v, and the fields are %v", documented, fields)
	}
}

// evicting is a controller whose plans are kept, and that drops what it keeps.
type evicting struct {
	controller.Controller[*v1.TrustyAIService, int]
	evicted  func(types.NamespacedName)
	rendered int
}

func (e *evicting) OnEvict(evicted func(types.NamespacedName)) { e.evicted = evicted }

func (e *evicting) SamePlan(before, now int) bool { return before == now }

func (e *evicting) Render(*v1.TrustyAIService, int) plan.Plan {
	e.rendered++
	return plan.Plan{}
}

// TestEvictedPlansAreRenderedAgain drops the plan, and the results of the jobs that have ended, also where the eviction comes in the middle of
// a reconcile.
func TestEvictedPlansAreRenderedAgain(t *testing.T) {
	done := make(chan watch.Referrer, 1)
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	sys := &evicting{}
	s := &stacks[*v1.TrustyAIService, int]{
		Engine: &Engine{jobs: background.New(background.Options[watch.Referrer]{
			Clock: clock, Namespace: func(watch.Referrer) string { return "" }, Rendering: func() {}, Log: logr.Discard(),
			Done: func(of watch.Referrer) { done <- of },
		})},
		sys: sys, states: map[client.ObjectKey]*reconcileState{},
	}
	key := client.ObjectKey{Namespace: "ns", Name: "x"}
	referrer := watch.Referrer{Kind: s.def.GVK.GroupKind(), Namespace: key.Namespace, Name: key.Name}
	s.jobs.Get(referrer, "job", controller.Once, func(context.Context) any { return 1 })
	<-done
	reconcile := func(meanwhile func()) {
		p := &reconciliation[*v1.TrustyAIService, int]{cr: &v1.TrustyAIService{}, state: s.stateOf(key)}
		p.cache, p.evictions = s.lastPlan(p.state)
		meanwhile()
		s.renderCached(p)
	}
	s.followEvictions()
	nothing, evict := func() {}, func() { sys.evicted(key) }
	reconcile(nothing)
	reconcile(nothing)
	if sys.rendered != 1 || s.jobs.Len() != 1 {
		t.Fatalf("rendered %d times, %d owners have jobs", sys.rendered, s.jobs.Len())
	}
	evict()
	if s.jobs.Len() != 0 {
		t.Error("the results of the jobs are kept")
	}
	for range 2 {
		before := sys.rendered
		s.stateOf(key).renderCache = nil
		reconcile(evict)
		if s.stateOf(key).renderCache != nil || sys.rendered != before+1 {
			t.Errorf("rendered %d times, and the plan is kept that was evicted meanwhile", sys.rendered)
		}
	}
	reconcile(nothing)
	if s.stateOf(key).renderCache == nil {
		t.Error("the plan after an eviction is not kept")
	}
}

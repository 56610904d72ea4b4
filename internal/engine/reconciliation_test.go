package engine

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/digestkey"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/retry"
	"mlkeeper.dev/internal/engine/watch"
)

// TestADefinitionIsLookedAtAgainWhenItIsCurrent: a health that changes by time alone causes no watch event.
func TestADefinitionIsLookedAtAgainWhenItIsCurrent(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	s := &stacks[*keeper.Inventory, any]{Engine: &Engine{Options: Options{Clock: clock}}}
	definition := &observe.Object{Health: health.Result{Status: health.Current, NotBefore: clock.Now().Add(time.Second)}}
	p := &reconciliation[*keeper.Inventory, any]{}
	if got := s.settling(p, definition); got.Health.Status != health.InProgress || !p.nextAt.Equal(definition.Health.NotBefore) {
		t.Errorf("it is %s, and looked at again at %s", got.Health.Status, p.nextAt)
	}
	if definition.Health.Status != health.Current {
		t.Error("what the watch has is changed")
	}
	clock.Step(time.Second)
	p = &reconciliation[*keeper.Inventory, any]{}
	if got := s.settling(p, definition); got != definition || !p.nextAt.IsZero() {
		t.Errorf("then it is %s, and looked at again at %s", got.Health.Status, p.nextAt)
	}
}

// bareStacks are stacks of TrustyAIServices in a cluster of which nothing is known.
func bareStacks() (*stacks[*v1.TrustyAIService, struct{}], *testclock.FakeClock) {
	s, clock, _ := rollingStacks()
	s.catalog, s.metrics, s.states = catalog.New(nil, nil, logr.Discard()), newMetrics(clock), map[client.ObjectKey]*reconcileState{}
	s.informers = watch.New(watch.Options{Catalog: s.catalog, Clock: clock})
	s.queue = &queue{backoff: backoff.NewLimiter[reconcile.Request](transientRetry, clock)}
	s.pendingReady = map[client.ObjectKey]*pendingReady[*v1.TrustyAIService]{}
	s.digests = &digestkey.Store{
		Client: fakedynamic.NewSimpleDynamicClient(runtime.NewScheme()), Namespace: "operator", Random: rand.Reader, Clock: clock, Log: logr.Discard(),
	}
	s.digests.Load(context.Background())
	s.def.Common = func(cr *v1.TrustyAIService) controller.Common {
		return controller.Common{
			Conditions: &cr.Status.Conditions, ObservedGeneration: &cr.Status.ObservedGeneration, Inventory: &cr.Status.Inventory,
			LastHandledReconcileAt: &cr.Status.LastHandledReconcileAt,
		}
	}
	return s, clock
}

// TestWhatWasRefusedPrunesNothingUntilItIsTriedAgain: an event that comes before the next attempt must not delete what the refused object
// was to replace, nor while the name of an object is taken.
func TestWhatWasRefusedPrunesNothingUntilItIsTriedAgain(t *testing.T) {
	key := plan.Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "a", Name: "renamed"}
	for name, c := range map[string]struct {
		verb     decide.Verb
		reason   string
		rejected bool
		refused  bool
	}{
		"nothing is refused":                 {decide.Create, "", false, false},
		"a write was refused":                {decide.Create, "", true, true},
		"it is not declared now":             {decide.Leave, "", true, false},
		"another owner has a name":           {decide.Conflict, "", false, true},
		"the watch on an object is not open": {decide.Wait, decide.ReasonNotSynced, false, true},
		"an object waits for another":        {decide.Wait, decide.ReasonDependency, false, false},
		"the watch has opened since":         {decide.Wait, decide.ReasonNotSynced, false, true},
		"the API of an object is not served": {decide.Wait, decide.ReasonNotServed, false, true},
		"that of a suspended object":         {decide.Wait, decide.ReasonNotServed, false, false},
		"the watch on a suspended object":    {decide.Wait, decide.ReasonNotSynced, false, false},
	} {
		s, clock := bareStacks()
		if name == "the watch has opened since" {
			// The watch on a kind that is not served counts as complete.
			s.informers.WatchChildren(key.WithVersion("v1"), s.def.Controller, nil)
		}
		state := newState("uid")
		action := decide.Action{Verb: decide.Create, Key: key, Object: plan.Stamped{Key: key, Digest: "d"}}
		p := passOf("a", state, "")
		if c.rejected {
			problem := &plan.Problem{Class: plan.Blocked, Reason: act.ReasonQuota}
			state.retries.Record(act.Result{Action: action, Problem: problem}, retry.Request{User: userRequest(p.cr)}, clock.Now())
		}
		action.Verb, action.Reason, action.Object.Desired = c.verb, c.reason, &unstructured.Unstructured{}
		action.Object.Suspended = strings.Contains(name, "suspended")
		p.actions, p.plan.Stages = []decide.Action{action}, make([]plan.Stage, 1)
		if s.holdRetries(p); p.refused != c.refused {
			t.Errorf("%s: the plan counts as refused: %t", name, p.refused)
		}
	}
}

// TestPodsWaitForAnothersObjectUntilItsNameIsTriedAgain: between the attempts no read tells whose the object is, so the refusal counts.
func TestPodsWaitForAnothersObjectUntilItsNameIsTriedAgain(t *testing.T) {
	workload := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "a", "name": "w"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"volumes": []any{
			map[string]any{"name": "v", "persistentVolumeClaim": map[string]any{"claimName": "data"}},
		}}}},
	}}
	claim := plan.Key{GroupKind: schema.GroupKind{Kind: "PersistentVolumeClaim"}, Namespace: "a", Name: "data"}
	for reason, want := range map[string]decide.Verb{act.ReasonConflict: decide.Wait, act.ReasonQuota: decide.Create} {
		s, clock := bareStacks()
		state := newState("uid")
		creates := []decide.Action{
			{Verb: decide.Create, Key: plan.KeyOf(workload), Object: plan.Stamped{Object: plan.Object{Desired: workload}}},
			{Verb: decide.Create, Key: claim, Object: plan.Stamped{Key: claim, Digest: "d"}},
		}
		p := passOf("a", state, "")
		problem := &plan.Problem{Class: plan.Blocked, Reason: reason}
		state.retries.Record(act.Result{Action: creates[1], Problem: problem}, retry.Request{User: userRequest(p.cr)}, clock.Now())
		p.actions = slices.Clone(creates)
		if s.holdRetries(p); p.actions[0].Verb != want || p.actions[1].Verb != decide.Wait {
			t.Errorf("%s: the workload is to %s, the claim to %s", reason, p.actions[0].Verb, p.actions[1].Verb)
		}
		clock.Step(time.Minute)
		p.actions = slices.Clone(creates)
		if s.holdRetries(p); p.actions[0].Verb != decide.Create || p.actions[1].Verb != decide.Create {
			t.Errorf("%s: when it is due, the workload is to %s, the claim to %s", reason, p.actions[0].Verb, p.actions[1].Verb)
		}
	}
}

// catalogOf is the catalog of a cluster that serves ConfigMaps in v1, and nothing else.
func catalogOf(t *testing.T) *catalog.Catalog {
	t.Helper()
	disco := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}}},
	}}}
	dyn := fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}: "CustomResourceDefinitionList",
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}:             "APIServiceList",
	})
	c := catalog.New(disco, dyn, logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		c.Wait()
	})
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestOnlyAKindThatIsNotServedLeavesNothingToPrune: what was written in a version that an upgrade of the cluster has removed is still there in
// another one.
func TestOnlyAKindThatIsNotServedLeavesNothingToPrune(t *testing.T) {
	s, clock := bareStacks()
	s.catalog = catalogOf(t)
	s.informers = watch.New(watch.Options{Catalog: s.catalog, Clock: clock})
	s.def.AnyChildren = true
	p := passOf("a", newState("uid"), "")
	p.entries = map[plan.Key]keeper.InventoryEntry{}
	for _, kind := range []string{"ConfigMap", "Gizmo"} {
		key := plan.Key{GroupKind: schema.GroupKind{Kind: kind}, Namespace: "a", Name: "old"}
		p.entries[key] = keeper.InventoryEntry{
			ObjectReference: keeper.ObjectReference{Version: "v1alpha1", Kind: kind, Namespace: "a", Name: "old"}, UID: "uid",
		}
	}
	extras := s.extras(p, nil)
	if len(extras) != 2 {
		t.Fatalf("%+v", extras)
	}
	for _, x := range extras {
		if x.Gone != (x.Entry.Kind == "Gizmo") {
			t.Errorf("%s counts as gone: %t", x.Entry.Kind, x.Gone)
		}
	}
}

// TestWhatLeftThePlanWaitsForItsWatch: after a start, nothing tells whether an object that is not observed is as it was made. One that is retained
// stays recorded, too, since its deletion looks for it there.
func TestWhatLeftThePlanWaitsForItsWatch(t *testing.T) {
	s, clock := bareStacks()
	s.catalog = catalogOf(t)
	s.informers = watch.New(watch.Options{Catalog: s.catalog, Clock: clock})
	s.def.AnyChildren = true
	key := plan.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "a", Name: "old"}
	p := passOf("a", newState("uid"), "")
	retained := plan.Key{GroupKind: key.GroupKind, Namespace: "a", Name: "retained"}
	p.entries = map[plan.Key]keeper.InventoryEntry{}
	for key, policy := range map[plan.Key]keeper.EntryPolicy{key: "", retained: keeper.Retain} {
		p.entries[key] = keeper.InventoryEntry{
			ObjectReference: keeper.ObjectReference{Version: "v1", Kind: "ConfigMap", Namespace: "a", Name: key.Name}, UID: "uid", Policy: policy,
		}
	}
	s.decide(p)
	if len(p.actions) != 1 || p.actions[0].Verb != decide.Wait || p.actions[0].Reason != decide.ReasonNotSynced {
		t.Errorf("before its watch is open: %+v", p.actions)
	}
	// The watch opens before the report: one on a kind that is not served counts as complete.
	s.informers = watch.New(watch.Options{Catalog: catalog.New(nil, nil, logr.Discard()), Clock: clock})
	s.informers.WatchChildren(key.WithVersion("v1"), s.def.Controller, nil)
	if entries := s.entriesToKeep(p); len(entries) != 2 || !p.leaving(p.actions[0]) {
		t.Errorf("recorded are %v, and it counts as leaving: %t", entries, p.leaving(p.actions[0]))
	}
	// What a suspended stage had is no part of any decision.
	s.informers = watch.New(watch.Options{Catalog: s.catalog, Clock: clock})
	inv := &keeper.Inventory{}
	inv.Spec.StageName, inv.Spec.Entries = "one", slices.Collect(maps.Values(p.entries))
	p.inventories, p.plan.Stages, p.stamped = []*keeper.Inventory{inv}, []plan.Stage{{Name: "one", Suspended: true}}, make([][]plan.Stamped, 1)
	if s.decide(p); len(p.actions) != 0 || len(s.entriesToKeep(p)) != 2 {
		t.Errorf("of a suspended stage: %+v, recorded are %v", p.actions, s.entriesToKeep(p))
	}
}

// TestWhatIsKeptStaysRecorded: a read found that it stays, so that it is neither gone nor looked at again and again.
func TestWhatIsKeptStaysRecorded(t *testing.T) {
	key := plan.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "a", Name: "old"}
	for _, kept := range []bool{true, false} {
		s, _ := bareStacks()
		p := passOf("a", newState("uid"), "")
		p.entries, p.results = map[plan.Key]keeper.InventoryEntry{key: {UID: "uid"}}, map[plan.Key]act.Result{}
		s.remember(p, act.Result{Action: decide.Action{Verb: decide.Delete, Key: key, UID: "uid"}, Kept: kept})
		if _, recorded := p.entries[key]; recorded != kept || !p.nextAt.IsZero() {
			t.Errorf("kept: %t, recorded: %t, looked at again at %s", kept, recorded, p.nextAt)
		}
	}
}

// TestAGateThatIsGoneIsForgotten: a stage that comes back later does not find that it has waited for hours.
func TestAGateThatIsGoneIsForgotten(t *testing.T) {
	s, clock := bareStacks()
	state := newState("uid")
	state.gates = map[string]time.Time{"stage removed": clock.Now()}
	p := passOf("a", state, "")
	if s.timedOut(p, "stage first", "Namespace x to exist", time.Minute) {
		t.Fatal("a gate times out when it closes")
	}
	s.decide(p)
	clock.Step(time.Hour)
	if _, known := state.gates["stage removed"]; known || len(state.gates) != 1 {
		t.Errorf("closed are %v", state.gates)
	}
	if p := passOf("a", state, ""); !s.timedOut(p, "stage first", "Namespace x to exist", time.Minute) ||
		s.timedOut(p, "stage removed", "Namespace x to exist", time.Minute) {
		t.Error("a gate that was closed for an hour has not timed out, or one has that closes now")
	}
}

// TestWhatAUserAsksForIsTriedAtOnce: an event does not shorten the pause after an error, and what the user changes or asks for ends it.
func TestWhatAUserAsksForIsTriedAtOnce(t *testing.T) {
	s, _ := bareStacks()
	cr := passOf("a", nil, "").cr
	req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cr)}
	s.stateOf(req.NamespacedName).tried = userRequest(cr)
	s.queue.backoff.When(req)
	if s.postponed(req, cr) == 0 {
		t.Fatal("every event has it tried again")
	}
	for name, change := range map[string]func(*v1.TrustyAIService){
		"another spec": func(cr *v1.TrustyAIService) { cr.Generation++ },
		"a request":    func(cr *v1.TrustyAIService) { cr.Annotations = map[string]string{keeper.ReconcileAtAnnotation: "now"} },
		"a suspension": func(cr *v1.TrustyAIService) { cr.Annotations = map[string]string{keeper.SuspendAnnotation: "true"} },
	} {
		changed := cr.DeepCopy()
		change(changed)
		for _, what := range []string{"the attempt", "an event after it"} {
			if rest := s.postponed(req, changed); rest > 0 {
				t.Errorf("%s: %s waits for %s", name, what, rest)
			}
		}
		s.queue.backoff.When(req)
	}
}

// TestAPanicIsToldAndTimeIsLeftToTellIt: whatever the steps before the report do, the custom resource gets a status.
func TestAPanicIsToldAndTimeIsLeftToTellIt(t *testing.T) {
	s, _ := bareStacks()
	ctx, cancel := context.WithTimeout(t.Context(), reconcileTimeout)
	defer cancel()
	whole, _ := ctx.Deadline()
	err := s.beforeReport(ctx, func(ctx context.Context) error {
		if part, ok := ctx.Deadline(); !ok || whole.Sub(part) < reportTime-time.Second {
			t.Errorf("of the time until %s the steps have that until %s", whole, part)
		}
		panic("over an odd spec")
	})
	if err == nil || !strings.Contains(err.Error(), "odd spec") {
		t.Errorf("the panic gives %v", err)
	}
	s.sys = projecting{func() { panic("over an odd answer") }}
	if _, err := s.project(ctx, passOf("a", nil, ""), controller.ObservedState{}); err == nil || !strings.Contains(err.Error(), "odd answer") {
		t.Errorf("the panic of a projection gives %v", err)
	}
}

// projecting is a controller of which only Project is called.
type projecting struct{ project func() }

func (p projecting) Gather(context.Context, controller.Reader, *v1.TrustyAIService) (struct{}, error) {
	return struct{}{}, nil
}

func (p projecting) Render(*v1.TrustyAIService, struct{}) plan.Plan { return plan.Plan{} }

func (p projecting) Project(*v1.TrustyAIService, struct{}, controller.ObservedState) controller.Verdict {
	p.project()
	return controller.Verdict{}
}

// TestWhatTheInventoryDoesNotHaveIsForgotten: the Jobs of each upgrade may have names of their own.
func TestWhatTheInventoryDoesNotHaveIsForgotten(t *testing.T) {
	s, _ := bareStacks()
	job := func(name string) plan.Key {
		return plan.Key{GroupKind: schema.GroupKind{Group: "batch", Kind: "Job"}, Namespace: "a", Name: name}
	}
	state := newState("uid")
	state.finished = map[plan.Key]types.UID{job("1"): "1", job("2"): "2"}
	s.forgetUnrecorded(state, []keeper.InventoryEntry{{
		ObjectReference: keeper.ObjectReference{Group: "batch", Version: "v1", Kind: "Job", Namespace: "a", Name: "2"}, UID: "2",
	}})
	if len(state.finished) != 1 || state.finished[job("2")] != "2" {
		t.Errorf("remembered are %v", state.finished)
	}
}

// TestAPauseThatEndsDuringTheReconcileIsKept: where the API server is slow, the other writes take longer than the first pauses. What is refused
// would never be tried again otherwise, since no watch tells the end of a quota.
func TestAPauseThatEndsDuringTheReconcileIsKept(t *testing.T) {
	s, clock := readingStacks()
	key := plan.Key{GroupKind: schema.GroupKind{Kind: "Secret"}, Namespace: "a", Name: "x"}
	p := s.newReconciliation(passOf("a", newState("uid"), "").cr)
	p.state.retries.Record(act.Result{
		Action: decide.Action{Verb: decide.Create, Key: key}, Problem: &plan.Problem{Class: plan.Blocked, Reason: act.ReasonQuota},
	}, retry.Request{}, clock.Now())
	clock.Step(time.Minute)
	if result, err := s.result(p, controller.ObservedState{}, 0); err != nil || result.RequeueAfter != time.Millisecond {
		t.Errorf("reconciled again after %s, %v", result.RequeueAfter, err)
	}
	// What is due when a reconcile begins, and is not tried in it, is held by something else.
	p = s.newReconciliation(p.before)
	if result, err := s.result(p, controller.ObservedState{}, 0); err != nil || result.RequeueAfter != 0 {
		t.Errorf("what is held is polled after %s, %v", result.RequeueAfter, err)
	}
}

// TestAnObjectIsRecordedForTheSchemaFromBeforeItsWrite: the definition may change between the write and what is remembered of it, and the object
// is to be applied again then.
func TestAnObjectIsRecordedForTheSchemaFromBeforeItsWrite(t *testing.T) {
	s, clock := bareStacks()
	key := plan.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "a", Name: "one"}
	left := keeper.InventoryEntry{LeftOut: []string{"spec.field"}}
	p := passOf("a", newState("uid"), "")
	p.schemas = s.schemasOf([]decide.Action{{Verb: decide.Apply, Key: key}, {Verb: decide.Leave, Key: plan.Key{GroupKind: schema.GroupKind{Kind: "Secret"}}}})
	if len(p.schemas) != 1 {
		t.Errorf("of what is written, the schemas are %v", p.schemas)
	}
	due := clock.Now().Add(time.Second)
	p.schemas[key.GroupKind] = schemaAt{generation: 3, due: due}
	if got := p.writtenFor(key, left); got != 3 || !p.nextAt.Equal(due) {
		t.Errorf("it was written for generation %d, and is looked at again at %s", got, p.nextAt)
	}
	if got := p.writtenFor(key, keeper.InventoryEntry{}); got != 0 {
		t.Errorf("nothing was left out, for generation %d", got)
	}
}

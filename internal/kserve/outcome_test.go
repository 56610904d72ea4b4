package kserve

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/record"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

var noon = time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)

const (
	elementID  = "709c62b3-8918-41b9-a747-d21eb79c6c26"
	instanceID = "dfd8ef9a-0000-4000-8000-000000000001"
)

// ordered is an element with an order that was received at noon.
func ordered(kind acm.OrderType, values map[string]any) acm.Element {
	return acm.Element{
		ID: elementID, InstanceID: instanceID, Present: kind != acm.OrderUndeploy && kind != acm.OrderDelete,
		Order:   acm.Order{Type: kind, ID: "m1", Time: noon, Received: noon},
		Content: acm.Content{Properties: properties(values)},
	}
}

// resource makes the custom resource of an element, with what the controller told of it before.
func resource(e acm.Element, told *acm.Outcome) *keeper.CompositionElement {
	cr := &keeper.CompositionElement{}
	inline(cr, e)
	cr.Name, cr.Generation = e.ID, 1
	if told != nil {
		outcome := record.OutcomeStatus(*told)
		cr.Status.Outcome = &outcome
	}
	return cr
}

// inline has an element as earlier releases stored it, with its properties in itself.
func inline(cr *keeper.CompositionElement, e acm.Element) {
	cr.Spec = record.ElementSpec(e, func([]byte) *keeper.PayloadReference { return nil })
	for _, part := range []struct {
		content *acm.Content
		to      *keeper.ElementContent
	}{{&e.Content, &cr.Spec.Content}, {e.Previous, cr.Spec.Previous}, {e.Candidate, cr.Spec.PendingContent}} {
		if part.content != nil {
			part.to.Common, part.to.Properties = extension(part.content.Common), extension(part.content.Properties)
		}
	}
}

func extension(p acm.Properties) *runtime.RawExtension {
	if p == nil {
		return nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return &runtime.RawExtension{Raw: text}
}

// service is a service of a plan as it is observed: written with a digest, and Ready or not.
func service(desired *unstructured.Unstructured, ready bool) *unstructured.Unstructured {
	u := desired.DeepCopy()
	u.SetUID(types.UID("uid of " + u.GetName()))
	u.SetAnnotations(map[string]string{keeper.AppliedHashAnnotation: "digest of " + u.GetName()})
	status := map[bool]string{true: "True", false: "False"}[ready]
	u.Object["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": status, "message": "PredictorReady is not true yet."},
	}}
	return u
}

// predictor is what KServe made of a service, rolled out.
func predictor(of *unstructured.Unstructured) workload {
	return workload{
		Kind: "Deployment", Name: of.GetName() + "-predictor", Component: "predictor", Owner: of.GetUID(),
		Digest: of.GetAnnotations()[keeper.AppliedHashAnnotation], Health: health.Result{Status: health.Current},
	}
}

// open makes the namespace of the services, which takes orders.
func open(cluster *controllertest.Cluster) *controllertest.Cluster {
	cluster.Put(namespace("kserve-test", keeper.CompositionsAllowed))
	return cluster
}

func namespace(name, orders string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	u.SetName(name)
	u.SetLabels(map[string]string{keeper.CompositionsLabel: orders})
	return u
}

// look runs the controller once, some seconds after noon, with the services in a state, and rolled out where they are ready.
func look(t *testing.T, cr *keeper.CompositionElement, seconds int, ready bool, change func(*controller.ObservedState)) (plan.Plan, controller.Verdict) {
	t.Helper()
	cluster := open(controllertest.New(noon.Add(time.Duration(seconds) * time.Second)))
	facts, err := system{}.Gather(t.Context(), cluster, cr)
	if err != nil {
		t.Fatal(err)
	}
	p := system{}.Render(cr, facts)
	rolled := &workloads{}
	for _, o := range p.Stages[0].Objects {
		u := service(o.Desired, ready)
		cluster.Own(u, "")
		rolled.Items = append(rolled.Items, predictor(u))
	}
	cluster.Answers["what runs in kserve-test for m1"] = rolled
	if facts, err = (system{}).Gather(t.Context(), cluster, cr); err != nil {
		t.Fatal(err)
	}
	seen := controller.ObservedState{Plan: p, Objects: map[plan.Key]controller.State{}, Problems: p.Problems, Now: facts.Now, Ready: ready && len(p.Problems) == 0}
	for _, o := range p.Stages[0].Objects {
		seen.Objects[o.Key()] = controller.State{Observed: cluster.Child(gvkService, o.Desired.GetNamespace(), o.Desired.GetName()), Current: ready}
		if !ready {
			seen.Waiting = "waiting for it"
		}
	}
	if change != nil {
		change(&seen)
	}
	return p, system{}.Project(cr, facts, seen)
}

func TestDeploy(t *testing.T) {
	one := list(declared("sklearn-iris", "kserve-test", iris))
	for _, c := range []struct {
		name           string
		values         map[string]any
		seconds        int
		ready          bool
		told           *acm.Outcome
		change         func(*controller.ObservedState)
		state, failure string
		concluded      bool
		// message is what is told of an order that is not concluded.
		message string
	}{
		{name: "on the way", values: one, seconds: 10, state: "DEPLOYING"},
		{name: "ready", values: one, seconds: 10, ready: true, state: "DEPLOYED", concluded: true},
		{name: "late", values: one, seconds: 60, state: "DEPLOYING", message: "not done after 1m0s: waiting for it"},
		{
			name: "late by its own timeout", values: merged(one, map[string]any{"deployTimeoutMs": 5000}), seconds: 6, state: "DEPLOYING",
			message: "not done after 5s: waiting for it",
		},
		{
			name: "by the definition's timeout", values: merged(one, map[string]any{"uninitializedToPassiveTimeout": 600}), seconds: 599,
			state: "DEPLOYING",
		},
		{
			name: "a success after a failure", values: one, seconds: 90, ready: true, state: "DEPLOYED", concluded: true,
			told: &acm.Outcome{OrderID: "m1", Type: acm.OrderDeploy, Failure: "not done", States: acm.States{DeployState: "UNDEPLOYED"}},
		},
		{
			name: "a success stands", values: one, seconds: 9000, state: "DEPLOYED", concluded: true,
			told: &acm.Outcome{OrderID: "m1", Type: acm.OrderDeploy, States: acm.States{DeployState: "DEPLOYED", LockState: "LOCKED"}},
		},
		{
			name: "what is tried again", values: one, seconds: 1, state: "DEPLOYING",
			change: func(s *controller.ObservedState) {
				s.Problems = []plan.Problem{{Class: plan.Blocked, Message: `admission webhook "v.kserve" denied the request: no runtime`}}
			},
			message: `admission webhook "v.kserve" denied the request: no runtime`,
		},
		{
			name: "the API server's reason", values: one, seconds: 1, state: "UNDEPLOYED", concluded: true,
			change: func(s *controller.ObservedState) {
				s.Problems = []plan.Problem{{Class: plan.Terminal, Message: `spec.predictor: Invalid value: 7`}}
			},
			failure: `Deploy Failed: spec.predictor: Invalid value: 7`,
		},
		{
			name: "an object of others in its place", values: one, seconds: 1, state: "UNDEPLOYED", concluded: true,
			change: func(s *controller.ObservedState) {
				s.Problems = []plan.Problem{{Class: plan.Blocked, Reason: act.ReasonConflict, Message: "it exists already"}}
			},
			failure: "Deploy Failed: it exists already",
		},
		{name: "bad properties", values: map[string]any{"a": 1}, state: "UNDEPLOYED", failure: "kserveInferenceEntities", concluded: true},
		{name: "no services", values: list(), ready: true, state: "DEPLOYED", concluded: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cr := resource(ordered(acm.OrderDeploy, c.values), c.told)
			_, verdict := look(t, cr, c.seconds, c.ready, c.change)
			s := cr.Status
			if s.DeployState != c.state || (s.Outcome != nil) != c.concluded {
				t.Fatalf("the state is %s, the outcome %+v", s.DeployState, s.Outcome)
			}
			if c.concluded && (c.failure == "") != (s.Outcome.Failure == "") || s.Outcome != nil && !strings.Contains(s.Outcome.Failure, c.failure) {
				t.Errorf("the failure is %q", s.Outcome.Failure)
			}
			if c.message != "" && (s.UseState != "IDLE" || s.OperationalState != "DISABLED") || s.DeployState != "DEPLOYED" && s.OutProperties["message"] != c.message {
				t.Errorf("told is %+v", s.ElementCondition)
			}
			if c.failure != "" && (!verdict.Hold || verdict.Reason != reasonOrderFailed) {
				t.Errorf("the verdict is %+v", verdict)
			}
		})
	}
}

func TestDeadlineWakes(t *testing.T) {
	cr := resource(ordered(acm.OrderDeploy, list(declared("sklearn-iris", "kserve-test", iris))), nil)
	if p, _ := look(t, cr, 10, false, nil); !p.WakeAt.Equal(noon.Add(time.Minute)) {
		t.Errorf("it wakes at %v", p.WakeAt)
	}
	if p, _ := look(t, cr, 61, false, nil); !p.WakeAt.IsZero() {
		t.Errorf("after the deadline it wakes at %v", p.WakeAt)
	}
}

// TestAnOrderThatMayTakeLongIsAskedAboutLessOften: the element may allow it hours, in which a model that never starts would be asked for every
// other second.
func TestAnOrderThatMayTakeLongIsAskedAboutLessOften(t *testing.T) {
	named := func(name string) map[string]any {
		return declared(name, "kserve-test", strings.ReplaceAll(iris, "sklearn-iris", name))
	}
	values := list(named("a"), named("b"))
	values["updateTimeoutMs"] = 3600000
	cr := resource(ordered(acm.OrderUpdate, values), nil)
	for seconds, c := range map[int]struct{ pause, wake time.Duration }{
		10: {0, time.Minute}, 61: {askSlowly, time.Hour}, 3601: {controller.RetryPassing, 0},
	} {
		cluster := open(controllertest.New(noon.Add(time.Duration(seconds) * time.Second)))
		facts, err := system{}.Gather(t.Context(), cluster, cr)
		if err != nil {
			t.Fatal(err)
		}
		p := system{}.Render(cr, facts)
		if c.wake == 0 && !p.WakeAt.IsZero() || c.wake > 0 && !p.WakeAt.Equal(noon.Add(c.wake)) {
			t.Errorf("after %d s it wakes at %s", seconds, p.WakeAt)
		}
		for _, o := range p.Stages[0].Objects {
			cluster.Own(service(o.Desired, true), "")
		}
		if _, err := (system{}).Gather(t.Context(), cluster, cr); err != nil {
			t.Fatal(err)
		}
		answer := cluster.Asked[len(cluster.Asked)-1].Job(t.Context(), holding{"Deployment": {}}).(*workloads)
		if answer.Retry() != c.pause {
			t.Errorf("after %d s it asks again in %s", seconds, answer.Retry())
		}
	}
}

func TestUndeploy(t *testing.T) {
	leaving := func(s *controller.ObservedState) {
		s.Leaving = []plan.Key{{Namespace: "kserve-test", Name: "sklearn-iris", GroupKind: gvkService.GroupKind()}}
	}
	cr := resource(ordered(acm.OrderUndeploy, nil), nil)
	p, _ := look(t, cr, 1, true, leaving)
	if len(p.Stages[0].Objects) != 0 || cr.Status.Outcome != nil || cr.Status.DeployState != "UNDEPLOYING" {
		t.Errorf("while a service is there: %+v", cr.Status)
	}
	look(t, cr, 61, true, leaving)
	if cr.Status.Outcome != nil || !strings.Contains(cr.Status.OutProperties["message"], "sklearn-iris is still there") {
		t.Errorf("after the timeout: %+v", cr.Status)
	}
	look(t, cr, 70, true, nil)
	if cr.Status.DeployState != "UNDEPLOYED" || cr.Status.Outcome == nil || cr.Status.Outcome.Failure != "" || len(cr.Status.OutProperties) != 0 {
		t.Errorf("when it is gone: %+v", cr.Status)
	}
}

func TestConcludedAtOnce(t *testing.T) {
	one := list(declared("sklearn-iris", "kserve-test", iris))
	for kind, want := range map[acm.OrderType]acm.States{
		acm.OrderLock: {DeployState: "DEPLOYED", LockState: "LOCKED"}, acm.OrderUnlock: {DeployState: "DEPLOYED", LockState: "UNLOCKED"},
		acm.OrderPrepare: {DeployState: "UNDEPLOYED", LockState: "NONE"}, acm.OrderReview: {DeployState: "DEPLOYED", LockState: "LOCKED"},
		acm.OrderPrecheck: {DeployState: "DEPLOYED", LockState: "LOCKED"},
	} {
		e := ordered(kind, one)
		e.Candidate = &e.Content
		cr := resource(e, nil)
		look(t, cr, 0, false, nil)
		if got := cr.Status; got.Outcome == nil || got.DeployState != string(want.DeployState) || got.LockState != string(want.LockState) {
			t.Errorf("%s: %+v", kind, got)
		}
		if kind == acm.OrderLock || kind == acm.OrderUnlock {
			continue
		}
		e.Candidate = &acm.Content{Properties: properties(map[string]any{"a": 1})}
		cr = resource(e, nil)
		p, _ := look(t, cr, 0, true, nil)
		if cr.Status.Outcome.Failure == "" || len(p.Problems) != 0 {
			t.Errorf("%s of bad properties: %+v, problems %v", kind, cr.Status.Outcome, p.Problems)
		}
	}
}

// TestUpdateGoesBack: what ran before runs on, whether the update is refused, or fails.
func TestUpdateGoesBack(t *testing.T) {
	before := acm.Content{Properties: properties(list(declared("sklearn-iris", "kserve-test", iris)))}
	other := strings.Replace(iris, `"minReplicas":1`, `"minReplicas":2`, 1)
	replicas := func(p plan.Plan) any {
		predictor, _ := p.Stages[0].Objects[0].Desired.Object["spec"].(map[string]any)["predictor"].(map[string]any)
		return predictor["minReplicas"]
	}
	e := ordered(acm.OrderUpdate, list(declared("sklearn-iris", "kserve-test", other)))
	e.Previous = &before
	cr := resource(e, nil)
	p, _ := look(t, cr, 1, false, nil)
	if replicas(p) != int64(2) || cr.Status.DeployState != "UPDATING" {
		t.Errorf("the update runs %v, %+v", replicas(p), cr.Status)
	}
	p, verdict := look(t, cr, 61, false, nil)
	if replicas(p) != int64(2) || verdict.Again || cr.Status.Outcome != nil || cr.Status.UseState != "IN_USE" || cr.Status.OutProperties["message"] == "" {
		t.Errorf("after the timeout %v runs: %+v, %+v", replicas(p), verdict, cr.Status)
	}
	_, verdict = look(t, cr, 61, false, func(s *controller.ObservedState) {
		s.Problems = []plan.Problem{{Class: plan.Terminal, Message: "spec.predictor: Invalid value"}}
	})
	if !verdict.Again || cr.Status.Outcome == nil || cr.Status.DeployState != "DEPLOYED" {
		t.Errorf("after a refusal: %+v, %+v", verdict, cr.Status.Outcome)
	}
	p, verdict = look(t, cr, 62, true, nil)
	if replicas(p) != int64(1) || verdict.Again || cr.Status.Outcome.Failure == "" || !verdict.Hold {
		t.Errorf("then %v runs: %+v, %+v", replicas(p), verdict, cr.Status.Outcome)
	}
	e.Content.Properties = properties(map[string]any{"a": 1})
	cr = resource(e, nil)
	p, _ = look(t, cr, 1, true, nil)
	if replicas(p) != int64(1) || len(p.Problems) != 0 || !strings.Contains(cr.Status.Outcome.Failure, "kserveInferenceEntities") {
		t.Errorf("a refused update runs %v: %+v", p.Stages, cr.Status.Outcome)
	}
}

// TestAnUnreadableRecordTearsNothingDown: where the services that should run cannot be read, those that run stay, whatever is prepared. An
// update that is refused goes back to what ran before only where the record says what that was.
func TestAnUnreadableRecordTearsNothingDown(t *testing.T) {
	unreadable, null := &acm.Content{Properties: properties(map[string]any{"b": 2})}, map[string]any{"kserveInferenceEntities": nil}
	readable := &acm.Content{Properties: properties(list(declared("sklearn-iris", "kserve-test", iris)))}
	for name, c := range map[string]struct {
		previous, candidate *acm.Content
		given               map[string]any
	}{
		"alone": {}, "previous": {previous: unreadable}, "prepared": {candidate: unreadable}, "readable, prepared": {candidate: readable},
		"null": {given: null}, "null before and after": {previous: &acm.Content{Properties: properties(null)}, given: null},
	} {
		if c.given == nil {
			c.given = map[string]any{"a": 1}
		}
		e := ordered(acm.OrderUpdate, c.given)
		e.Previous, e.Candidate = c.previous, c.candidate
		p, _ := look(t, resource(e, nil), 1, true, nil)
		if len(p.Problems) != 1 || p.Problems[0].Reason != reasonInvalidProperties {
			t.Errorf("%s: without a problem, what runs is pruned: %+v", name, p.Problems)
		}
	}
}

// TestKnownOnly: an element that the runtime told of without an order is kept, and nothing is answered.
func TestKnownOnly(t *testing.T) {
	e := ordered(acm.NoOrder, list(declared("sklearn-iris", "kserve-test", iris)))
	e.Present, e.Known = true, acm.States{DeployState: "DEPLOYED", LockState: "LOCKED"}
	cr := resource(e, nil)
	p, _ := look(t, cr, 500, true, nil)
	if len(p.Stages[0].Objects) != 1 || cr.Status.Outcome != nil || cr.Status.DeployState != "DEPLOYED" || cr.Status.OperationalState != "ENABLED" {
		t.Errorf("%+v", cr.Status)
	}
}

// TestWhatIsLeftOutIsNotEnabled: a runtime that is told ENABLED takes an outage for none.
func TestWhatIsLeftOutIsNotEnabled(t *testing.T) {
	entity := func(namespace, name string) map[string]any {
		return declared(name, namespace, strings.ReplaceAll(strings.ReplaceAll(iris, "kserve-test", namespace), "sklearn-iris", name))
	}
	success := &acm.Outcome{OrderID: "m1", Type: acm.OrderDeploy, States: acm.States{DeployState: acm.Deployed, LockState: acm.Locked}}
	for name, c := range map[string]struct {
		entities []map[string]any
		want     string
	}{
		"none": {[]map[string]any{entity("kserve-test", "a"), entity("kserve-test", "b")}, "ENABLED"},
		"one":  {[]map[string]any{entity("kserve-test", "a"), entity("absent", "b")}, "DISABLED"},
		"all":  {[]map[string]any{entity("absent", "a")}, "DISABLED"},
	} {
		cr := resource(ordered(acm.OrderDeploy, list(c.entities...)), success)
		look(t, cr, 500, true, nil)
		said := cr.Status.OutProperties["message"]
		if cr.Status.DeployState != "DEPLOYED" || cr.Status.UseState != "IN_USE" || cr.Status.OperationalState != c.want ||
			strings.Contains(said, "no such namespace") != (c.want == "DISABLED") {
			t.Errorf("%s left out: %+v, with message %q", name, cr.Status.ElementCondition, said)
		}
	}
	e := ordered(acm.OrderPrecheck, list(entity("kserve-test", "a")))
	e.Present = false
	cr := resource(e, &acm.Outcome{OrderID: "m1", Type: acm.OrderPrecheck, States: acm.States{DeployState: acm.Deployed, LockState: acm.Locked}})
	if look(t, cr, 500, true, nil); cr.Status.OperationalState != "DISABLED" {
		t.Errorf("what was only checked is %s", cr.Status.OperationalState)
	}
}

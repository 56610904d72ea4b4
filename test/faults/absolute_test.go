package faults

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// thing is a state of an object that a custom resource, or nobody, controls.
func thing(uid, controller string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"kind": "Thing"}}
	u.SetName(uid)
	u.SetUID(types.UID(uid))
	if controller != "" {
		yes := true
		u.SetOwnerReferences([]metav1.OwnerReference{{UID: types.UID(controller), Controller: &yes}})
	}
	return u
}

// runOf is a run of a kind that makes things.
func runOf(w *Workload, races []race) *run {
	return &run{
		kind:     &Kind{Resource: "keepers", GVK: schema.GroupVersionKind{Kind: "Keeper"}, Makes: making(`things/.*`)},
		workload: w, world: &World{Namespace: "faults-aaaaaaaa"}, journal: &journal{}, history: &history{}, races: races,
	}
}

// absolutely asks the oracles that need no reference about changes of things, and returns what they say.
func absolutely(w *Workload, races []race, events ...Event) []string {
	r := runOf(w, races)
	for i := range events {
		events[i].Version = uint64(i) + 1
	}
	r.history.events = events
	return texts(r.absolute())
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestControllersNeverChange(t *testing.T) {
	event := func(u *unstructured.Unstructured) Event {
		return Event{Type: watch.Modified, Resource: "things", Object: u}
	}
	// Orphaned and adopted again, and made anew for another, is fine.
	expect(t, absolutely(&Workload{}, nil, event(thing("a", "one")), event(thing("a", "")), event(thing("a", "one")),
		event(thing("b", "two"))))
	const found = "O7: things/a passed from the control of one custom resource to that of another"
	expect(t, absolutely(&Workload{}, nil, event(thing("a", "one")), event(thing("a", "two")), event(thing("a", "one"))), found)
	expect(t, absolutely(&Workload{}, nil, event(thing("a", "one")), event(thing("a", "")), event(thing("a", "two"))), found)
	inventory := thing("inventory", "")
	inventory.Object["spec"] = map[string]any{"owner": map[string]any{"uid": "one"}}
	passes := Event{Type: watch.Added, Resource: inventories, Object: inventory}
	expect(t, absolutely(&Workload{}, nil, event(thing("a", "one")), passes, event(thing("a", "inventory"))))
	expect(t, absolutely(&Workload{}, nil, event(thing("a", "two")), passes, event(thing("a", "inventory"))), found)
}

func TestClaimsStayUnlessTheWorkloadSaysSo(t *testing.T) {
	going := thing("claim", "")
	now := metav1.Now()
	going.SetDeletionTimestamp(&now)
	for _, e := range []Event{
		{Type: watch.Deleted, Resource: "persistentvolumeclaims", Object: thing("claim", "")},
		{Type: watch.Modified, Resource: "persistentvolumeclaims", Object: going},
	} {
		expect(t, absolutely(&Workload{}, nil, e), "O7: persistentvolumeclaims/claim was deleted")
		expect(t, absolutely(&Workload{LosesClaims: true}, nil, e))
	}
	theirs := thing("claim", "")
	theirs.SetLabels(map[string]string{foreignLabel: "true"})
	expect(t, absolutely(&Workload{}, nil, Event{Type: watch.Deleted, Resource: "persistentvolumeclaims", Object: theirs}),
		"O7: persistentvolumeclaims/claim belongs to others and was deleted")
}

func TestWhatSomebodyElseWroteSurvives(t *testing.T) {
	written := thing("a", "")
	written.SetAnnotations(map[string]string{raced: "kept", keeper.WiringAnnotation: "{}"})
	races := []race{{object: "things/a", uid: "a", version: 2, before: "UPDATE things a"}}
	event := func(kind watch.EventType, u *unstructured.Unstructured) Event {
		return Event{Type: kind, Resource: "things", Object: u}
	}
	before, after := event(watch.Added, thing("a", "")), event(watch.Modified, written)
	expect(t, absolutely(&Workload{}, races, before, after))
	expect(t, absolutely(&Workload{}, races, before, after, event(watch.Modified, thing("a", ""))),
		"O7: what somebody else wrote to things/a just before UPDATE things a was undone")
	expect(t, absolutely(&Workload{}, races, before, after, event(watch.Deleted, written)),
		"O7: things/a was deleted although somebody else wrote to it just before UPDATE things a")
	config := written.DeepCopy()
	config.SetKind("ConfigMap")
	if !lacks(config) {
		t.Error("a ConfigMap without the key that somebody else put into it passes")
	}
	config.Object["data"] = map[string]any{"raced": "kept"}
	if lacks(config) {
		t.Error("a ConfigMap with the key does not pass")
	}
}

func TestReadyTellsOfTheContentOfTheEnd(t *testing.T) {
	want := map[string]string{"spec.image": "new", "spec.random": "x", "metadata.labels.a": "b"}
	m := mask{}
	m.add("things/a", "spec.random")
	for image, found := range map[string]bool{"old": true, "new": false} {
		have := map[string]string{"spec.image": image, "spec.random": "y", "spec.added": "by somebody"}
		if got := missing("things/a", want, have, m); (got != "") != found {
			t.Errorf("with image %s: %q", image, got)
		}
	}
}

func TestMasksAreJoined(t *testing.T) {
	one, two := mask{}, mask{}
	one.add("a", "x")
	two.add("a", "y")
	joined := one.with(two)
	if got := fmt.Sprint(joined.has("a", "x"), joined.has("a", "y"), one.has("a", "y")); got != "true true false" {
		t.Error(got)
	}
}

func TestWhatOthersMadeIsNeitherWrittenNorDeleted(t *testing.T) {
	theirs := thing("theirs", "")
	written := theirs.DeepCopy()
	written.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "mlkeeper"}})
	event := func(kind watch.EventType, u *unstructured.Unstructured) Event {
		return Event{Type: kind, Resource: "things", Object: u}
	}
	expect(t, absolutely(&Workload{}, nil, event(watch.Added, theirs), event(watch.Modified, theirs)))
	expect(t, absolutely(&Workload{}, nil, event(watch.Added, written), event(watch.Modified, written)))
	expect(t, absolutely(&Workload{}, nil, event(watch.Added, theirs), event(watch.Modified, written)),
		"O7: things/theirs is of somebody else and neither adopted nor wired, and MLKeeper wrote to it")
	for _, mark := range []func(*unstructured.Unstructured){
		func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{keeper.ControllerLabel: "controller"})
		},
		func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{keeper.WiringAnnotation: "{}"}) },
	} {
		marked := written.DeepCopy()
		mark(marked)
		expect(t, absolutely(&Workload{}, nil, event(watch.Added, theirs), event(watch.Modified, marked)))
	}
}

func TestNothingIsMadeThatIsNotDocumented(t *testing.T) {
	odd := thing("odd", "")
	odd.SetLabels(map[string]string{keeper.ControllerLabel: "controller"})
	expect(t, absolutely(&Workload{}, nil, Event{Type: watch.Added, Resource: "things", Object: odd}))
	expect(t, absolutely(&Workload{}, nil, Event{Type: watch.Added, Resource: "others", Object: odd}),
		"O7: others/odd was made, which no Keeper has by its documentation")
}

func TestStatusIsOfNoGenerationToCome(t *testing.T) {
	cr := func(generation, observed, condition int64) Event {
		u := thing("cr", "")
		u.SetGeneration(generation)
		u.Object["status"] = map[string]any{
			"observedGeneration": observed,
			"conditions":         []any{map[string]any{"type": "Ready", "status": "False", "observedGeneration": condition}},
		}
		return Event{Type: watch.Modified, Resource: "keepers", Object: u}
	}
	expect(t, absolutely(&Workload{}, nil, cr(2, 1, 2)))
	const found = "O7: the status of keepers/cr is of generation 3, and there are 2"
	expect(t, absolutely(&Workload{}, nil, cr(2, 3, 2)), found)
	expect(t, absolutely(&Workload{}, nil, cr(2, 2, 3)), found)
}

func TestReadyWithAMissingChildOrReference(t *testing.T) {
	cr := thing("cr", "")
	cr.SetName("cr")
	cr.SetNamespace("faults-aaaaaaaa")
	cr.Object["status"] = map[string]any{
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}, "observedGeneration": int64(0),
		"inventory": map[string]any{"entries": []any{map[string]any{"kind": "Deployment", "name": "d", "uid": "d"}}},
	}
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": "d", "namespace": "faults-aaaaaaaa", "uid": "d", "labels": map[string]any{keeper.ControllerLabel: "controller"},
			"annotations": map[string]any{keeper.OwnerAnnotation: "Keeper/faults-aaaaaaaa/cr"},
		},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
			"name": "c", "env": []any{map[string]any{"name": "E", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "s", "key": "k"}}}},
		}}}}},
	}}
	secret := func(key string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": "faults-aaaaaaaa"},
			"data": map[string]any{key: "eA=="},
		}}
	}
	for _, c := range []struct {
		objects []*unstructured.Unstructured
		want    []string
	}{
		{[]*unstructured.Unstructured{deployment, secret("k")}, nil},
		{[]*unstructured.Unstructured{deployment}, []string{"O7: Deployment NS/d: containers[c].env[E] refers to the missing Secret NS/s"}},
		{
			[]*unstructured.Unstructured{deployment, secret("other")},
			[]string{"O7: Deployment NS/d: containers[c].env[E] refers to the missing key k of Secret NS/s"},
		},
		{nil, []string{"O7: keepers/cr is Ready, and keepers/cr lists the Deployment d, which is not there"}},
	} {
		r := runOf(&Workload{}, nil)
		r.history.state = map[string]*unstructured.Unstructured{"keepers/cr": cr}
		for _, o := range c.objects {
			r.history.state[o.GetKind()+"/"+o.GetName()] = o
		}
		expect(t, texts(r.absolute()), c.want...)
	}
}

// TestInventoriesListWhatIsThere: nothing that is listed is missing, and nothing that belongs to a list is missing there.
func TestInventoriesListWhatIsThere(t *testing.T) {
	cr := thing("cr", "")
	cr.Object["status"] = map[string]any{
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}, "observedGeneration": int64(0),
	}
	inventory := thing("first", "")
	inventory.SetKind("Inventory")
	inventory.Object["spec"] = map[string]any{"owner": map[string]any{"uid": "cr"}}
	inventory.Object["status"] = map[string]any{"entries": []any{map[string]any{"kind": "Thing", "name": "a", "uid": "a"}}}
	owned := func(uid string) *unstructured.Unstructured {
		u := thing(uid, "first")
		u.SetLabels(map[string]string{keeper.ControllerLabel: "controller"})
		return u
	}
	for _, c := range []struct {
		objects []*unstructured.Unstructured
		want    []string
	}{
		{[]*unstructured.Unstructured{owned("a")}, nil},
		{nil, []string{"O7: keepers/cr is Ready, and inventories.keeper.mlkeeper.dev/first lists the Thing a, which is not there"}},
		{[]*unstructured.Unstructured{owned("a"), owned("b")}, []string{"O7: things/b is controlled by the  , which does not list it"}},
	} {
		r := runOf(&Workload{}, nil)
		r.history.state = map[string]*unstructured.Unstructured{"keepers/cr": cr, inventories + "/first": inventory}
		for _, o := range c.objects {
			r.history.state["things/"+o.GetName()] = o
		}
		expect(t, texts(r.absolute()), c.want...)
	}
}

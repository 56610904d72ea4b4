package faults

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// absolutely asks the oracles that need no reference about changes of things, and returns what they say.
func absolutely(w *Workload, races []race, events ...Event) []string {
	r := &run{workload: w, world: &World{Namespace: "faults-aaaaaaaa"}, history: &history{}, races: races}
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
	// Orphaned and taken up again, and made anew for another, is fine.
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

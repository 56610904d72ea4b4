package wiring_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/wiring"
)

// claiming is setWire in objects whose annotations reach pods. The entry "a" was the original operator's.
func claiming() wiring.Wire {
	wire := setWire()
	wire.Claim = &wiring.Claim{
		Fields: map[string]any{"f:data": map[string]any{"f:a": map[string]any{}}},
		Entry: func(target *unstructured.Unstructured, alive []client.Object, _ string) (wiring.Entry, bool) {
			_, found, _ := unstructured.NestedString(target.Object, "data", "a")
			if len(alive) == 0 {
				return wiring.Entry{Value: "a"}, found
			}
			return wiring.Entry{Owner: "CR/a", Value: "a"}, found
		},
	}
	edit := wire.Edit
	wire.Edit = func(live *unstructured.Unstructured, recorded, wanted []wiring.Entry) (*unstructured.Unstructured, []wiring.Outcome, error) {
		out, outcomes, err := edit(live, recorded, wanted)
		for i := range outcomes {
			outcomes[i].Record = true
		}
		return out, outcomes, err
	}
	return wire
}

// TestAnAdoptedEntryIsClaimedWithoutAnAnnotation: an entry that is there is recorded in managedFields alone, and with one write.
func TestAnAdoptedEntryIsClaimedWithoutAnAnnotation(t *testing.T) {
	f := newFixture(t, claiming())
	f.Put(configMap("a", "mine"))
	f.alive = []client.Object{cr("a")}
	for range 2 {
		f.reconcile()
	}
	u := f.Object(key.Namespace, key.Name)
	if len(u.GetAnnotations()) > 0 || len(wiring.Claims(u)) != 1 || f.Writes != 1 {
		t.Errorf("after %d writes it is %v", f.Writes, u.Object)
	}
	f.alive = nil
	f.reconcile()
	if now := f.data(); now["a"] != "" || now["mine"] == "" {
		t.Errorf("the entry of a custom resource that is gone stays: %v", now)
	}
	if u := f.Object(key.Namespace, key.Name); len(wiring.Claims(u)) > 0 {
		t.Errorf("it is still claimed: %v", u.Object)
	}
}

// TestUnwireTakesOutWhatIsClaimed: an adopted entry has no annotation that it could be found by.
func TestUnwireTakesOutWhatIsClaimed(t *testing.T) {
	wire := claiming()
	f := newFixture(t, wire)
	f.Put(configMap("a"))
	f.alive = []client.Object{cr("a")}
	f.reconcile()
	said, err := f.unwire(wire, wire.GVK)
	if err != nil || !strings.Contains(said, "took out 1") || f.data()["a"] != "" {
		t.Errorf("%v: %s: %v", err, said, f.data())
	}
	if _, annotated := f.Object(key.Namespace, key.Name).GetAnnotations()[keeper.WiringAnnotation]; annotated {
		t.Error("it has an annotation")
	}
}

package inventory

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// TestWhatIsListedDoesNotTellWhen: an Inventory lists the objects of its stage in their order, however many passes named them, and
// forgets none that the stage no longer has.
func TestWhatIsListedDoesNotTellWhen(t *testing.T) {
	stage := func(names ...string) (out plan.Stage) {
		for _, name := range names {
			u := &unstructured.Unstructured{}
			u.SetAPIVersion("v1")
			u.SetKind("Secret")
			u.SetNamespace("n")
			u.SetName(name)
			out.Objects = append(out.Objects, plan.Object{Desired: u, Retain: name == "kept"})
		}
		return out
	}
	inv := &keeper.Inventory{}
	for _, c := range []struct {
		planned, want []string
	}{
		{[]string{"a", "d"}, []string{"a", "d"}},
		{[]string{"a", "kept", "d"}, []string{"a", "kept", "d"}},
		{[]string{"z", "d"}, []string{"z", "d", "a", "kept"}},
	} {
		inv.Spec.Entries = union(inv, stage(c.planned...).Objects)
		var got []string
		for _, e := range inv.Spec.Entries {
			got = append(got, e.Name)
			if (e.Policy == keeper.Retain) != (e.Name == "kept") || e.Version != "v1" || e.Kind != "Secret" || e.Namespace != "n" {
				t.Errorf("%s is listed as %+v", e.Name, e)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("of %q: %q, want %q", c.planned, got, c.want)
		}
	}
}

package plan

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// TestDriftOf selects the rules for an object.
func TestDriftOf(t *testing.T) {
	key := Key{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespace: "n", Name: "a"}
	d := &keeper.DriftDetection{Mode: keeper.DriftWarn, Ignore: []keeper.DriftRule{
		{Paths: []string{"/all"}},
		{Paths: []string{"/kind", "/kind2"}, Target: &keeper.DriftTarget{Kind: "Deployment"}},
		{Paths: []string{"/whole"}, Target: &keeper.DriftTarget{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "a"}},
		{Paths: []string{"/other"}, Target: &keeper.DriftTarget{Kind: "Deployment", Name: "b"}},
		{Paths: []string{"/group"}, Target: &keeper.DriftTarget{Group: "extensions"}},
	}}
	if got := DriftOf(d, key); !got.Leave || !slices.Equal(got.Ignore, []string{"/all", "/kind", "/kind2", "/whole"}) {
		t.Errorf("%+v", got)
	}
	if got := DriftOf(&keeper.DriftDetection{}, key); got.Leave || got.Ignore != nil {
		t.Errorf("%+v", got)
	}
	if got := DriftOf(nil, key); got.Leave {
		t.Errorf("%+v", got)
	}
}

package seldon

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/plan"
)

func TestWhatIsMadeAgainWhereAFieldCannotBeChanged(t *testing.T) {
	for _, c := range []struct {
		group, kind       string
		retained, consent bool
		want              plan.Immutable
	}{
		{"apps", "Deployment", false, false, plan.ImmutableRecreate},
		{"", "Service", false, false, plan.ImmutableRecreate},
		{"networking.k8s.io", "Ingress", false, false, plan.ImmutableRecreate},
		{"apps", "Deployment", true, false, plan.ImmutableByKind},
		{"apps", "StatefulSet", false, false, plan.ImmutableByKind},
		{"apps", "StatefulSet", false, true, plan.ImmutableRecreate},
		{"", "Namespace", false, true, plan.ImmutableByKind},
		{"", "PersistentVolume", false, true, plan.ImmutableByKind},
		{"apiextensions.k8s.io", "CustomResourceDefinition", false, true, plan.ImmutableByKind},
		// Custom resources: their operators may delete data with them.
		{"postgres-operator.crunchydata.com", "PostgresCluster", false, true, plan.ImmutableByKind},
		{"snapshot.storage.k8s.io", "VolumeSnapshot", false, true, plan.ImmutableByKind},
	} {
		b := builder{}
		b.part.spec.RecreateStatefulSets = c.consent
		key := plan.Key{GroupKind: schema.GroupKind{Group: c.group, Kind: c.kind}, Name: "n"}
		if got := b.onImmutable(key, c.retained); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

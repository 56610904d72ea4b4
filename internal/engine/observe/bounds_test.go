package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
)

// TestTheCacheKeepsLittleOfWhatUsersLabel: an object of a user with MLKeeper's labels is as large as the API server accepts.
func TestTheCacheKeepsLittleOfWhatUsersLabel(t *testing.T) {
	long, yes := strings.Repeat("x", 200<<10), true
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("serving.kserve.io/v1beta1")
	u.SetKind("InferenceService")
	u.SetNamespace("ns")
	u.SetName("large")
	u.SetLabels(map[string]string{keeper.ControllerLabel: "trustyai", keeper.StackLabel: "hash"})
	u.SetAnnotations(map[string]string{
		keeper.OwnerAnnotation: long, keeper.AppliedHashAnnotation: long, keeper.AdoptedAnnotation: long, keeper.AnnotationPrefix + "more": long,
	})
	owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: long, UID: "one"}}
	for i := range 1000 {
		owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "K", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i))})
	}
	u.SetOwnerReferences(append(owners, metav1.OwnerReference{APIVersion: long, Kind: "K", Name: "last", UID: "last", Controller: &yes}))
	u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "message": long}}}
	o := From(u, true)
	size := len(o.stripped) + len(o.digest) + len(o.OwnedFieldsHash)
	for k, v := range o.Annotations {
		size += len(k) + len(v)
	}
	for _, r := range o.OwnerReferences {
		size += len(r.APIVersion) + len(r.Kind) + len(r.Name) + len(r.UID)
	}
	if limit := 8 << 10; size > limit {
		t.Errorf("%d bytes are kept, more than %d", size, limit)
	}
	if len(o.OwnerReferences) > maxOwners+1 || metav1.GetControllerOfNoCopy(&o.ObjectMeta) == nil {
		t.Errorf("%d owners are kept, or not the controller", len(o.OwnerReferences))
	}
	if o.OwnedBy(stack, owner) || o.Stripped().GetName() != "large" || o.Health.Status != health.Of(u).Status {
		t.Errorf("it is owned by us, or its name or health is lost: %+v", o)
	}
	few := owners[1:5]
	if got := boundOwners(few); !slices.EqualFunc(got, few, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }) {
		t.Errorf("of %v are kept %v", few, got)
	}
}

package seldon

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// TestTheConditionOfAPayloadStoreIsItsOwn: another Secret of values, such as that of the metadata, says nothing of the instance of the user.
func TestTheConditionOfAPayloadStoreIsItsOwn(t *testing.T) {
	for field, want := range map[string]string{
		elasticField: "False/" + reasonCredentials, "spec.enterprise.values.metadata.pg.secret": "True/External", "": "True/External",
	} {
		cr, external := &v1alpha1.SeldonOperator{}, false
		cr.Spec.Enable.PayloadStore, cr.Spec.PayloadStore.InternalElastic.UseInternal = true, &external
		seen := controller.ObservedState{Now: testNow}
		if field != "" {
			seen.Problems = []plan.Problem{{Class: plan.Waiting, Reason: reasonCredentials, Field: field, Message: "there is no Secret"}}
		}
		conditions(cr, seen)
		if c := meta.FindStatusCondition(cr.Status.Conditions, "PayloadStoreReady"); c == nil || string(c.Status)+"/"+c.Reason != want {
			t.Errorf("with a problem of %q: %+v, want %s", field, c, want)
		}
	}
}

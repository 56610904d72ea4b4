package act

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// TestTheFirstWriteToAnAdoptedDeploymentNamesItsOwner: the admission policies let the operator write nothing of others without that.
func TestTheFirstWriteToAnAdoptedDeploymentNamesItsOwner(t *testing.T) {
	theirs := parsed(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: ns, name: app, annotations: {team: a}}
spec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}
`)
	client := fake.NewSimpleDynamicClient(runtime.NewScheme(), theirs).
		Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("ns")
	desired := theirs.DeepCopy()
	desired.SetAnnotations(map[string]string{keeper.OwnerAnnotation: "Thing.example.test/ns/x"})
	if err := (&Actor{}).replaceStrategy(t.Context(), client, desired); err != nil {
		t.Fatal(err)
	}
	live, err := client.Get(t.Context(), "app", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	strategy, _, _ := unstructured.NestedString(live.Object, "spec", "strategy", "type")
	if marks := live.GetAnnotations(); strategy != "Recreate" || marks[keeper.OwnerAnnotation] != "Thing.example.test/ns/x" || marks["team"] != "a" {
		t.Errorf("the strategy is %s, the annotations are %v", strategy, marks)
	}
}

package act

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/engine/plan"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

const scaledDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  namespace: ns
  name: app
  managedFields:
    - {manager: MANAGER, operation: Update, subresource: scale, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:replicas": {}}}}
spec: {replicas: 5}
`

const autoscalerOf = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {namespace: ns, name: NAME}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: KIND, name: TARGET}}
`

// TestInvariant11ReplicasAreLeftToAnAutoscalerThatIsThere: its entry in managedFields stays when it is gone.
func TestInvariant11ReplicasAreLeftToAnAutoscalerThatIsThere(t *testing.T) {
	three := parsed(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: ns, name: app}\nspec: {replicas: 3}\n")
	autoscaler := func(name, kind, target string) *unstructured.Unstructured {
		return parsed(t, strings.NewReplacer("NAME", name, "KIND", kind, "TARGET", target).Replace(autoscalerOf))
	}
	others := []runtime.Object{autoscaler("a", "Deployment", "other"), autoscaler("b", "StatefulSet", "app")}
	for name, test := range map[string]struct {
		manager  string
		replicas plan.Replicas
		there    []runtime.Object
		refuse   bool
		declared int64
		left     bool
		reads    int
	}{
		"it is there":               {manager: "kube-controller-manager", there: append(others, autoscaler("c", "Deployment", "app")), left: true, reads: 1},
		"KEDA's":                    {manager: "keda", there: []runtime.Object{autoscaler("c", "Deployment", "app")}, left: true, reads: 1},
		"it is gone":                {manager: "kube-controller-manager", there: others, reads: 1},
		"KEDA is gone":              {manager: "keda", reads: 1},
		"it may not be read":        {manager: "kube-controller-manager", refuse: true, left: true, reads: 1},
		"a user, by kubectl scale":  {manager: "kubectl", there: []runtime.Object{autoscaler("c", "Deployment", "app")}},
		"as many as there are":      {manager: "kube-controller-manager", declared: 5, left: true},
		"declared nevertheless":     {manager: "kube-controller-manager", replicas: plan.ReplicasDeclared},
		"left although nobody does": {manager: "kubectl", replicas: plan.ReplicasLeft, left: true},
	} {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			autoscalersResource: "HorizontalPodAutoscalerList",
		}, test.there...)
		if test.refuse {
			client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewGenericServerResponse(http.StatusForbidden, "list", schema.GroupResource{}, "", "", 0, false)
			})
		}
		desired := three.DeepCopy()
		if test.declared != 0 {
			_ = unstructured.SetNestedField(desired.Object, test.declared, "spec", "replicas")
		}
		object := plan.Object{Desired: desired, Replicas: test.replicas}
		live := parsed(t, strings.ReplaceAll(scaledDeployment, "MANAGER", test.manager))
		if got := LeavesReplicas(t.Context(), client, object, live); got != test.left {
			t.Errorf("%s: left is %t", name, got)
		}
		if n := len(client.Actions()); n != test.reads {
			t.Errorf("%s: %d reads, not %d", name, n, test.reads)
		}
	}
}

package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/kserve"
	"mlkeeper.dev/test/harness"
)

const (
	elementResource = "compositionelements.keeper.mlkeeper.dev"
	servicesOfTest  = "inferenceservices.serving.kserve.io"
)

var elementGVK = keeper.GroupVersion.WithKind("CompositionElement")

// compositionElement is CompositionElement with what the participant does to it: the broker has faults of its own, which
// test/kserve plays.
func compositionElement() *Kind {
	return &Kind{
		Makes: slices.Concat(
			making(`inferenceservices\.serving\.kserve\.io/flowers`, `inferenceservices\.serving\.kserve\.io/iris`),
			lacking("an update brings it in the place of flowers, and it is rendered as that is", `inferenceservices\.serving\.kserve\.io/roses`),
		),
		Name: "compositionelement", GVK: elementGVK, Resource: elementResource, Workloads: elementWorkloads(),
		Bases:      elementBases(),
		Controller: harness.Controller(kserve.Definition(), kserve.New()),
	}
}

// elementOf is an element with an order on services with a number of replicas. Its deadline never comes.
func elementOf(order, id string, exists bool, replicas string, services ...string) string {
	var entities []string
	for _, name := range services {
		entities = append(entities, fmt.Sprintf(`{"name": %q, "namespace": "NS", "payload": %q}`, name, fmt.Sprintf(
			`{"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","spec":{"predictor":{"minReplicas":%s,"model":{"modelFormat":{"name":"sklearn"}}}}}`, replicas)))
	}
	return fmt.Sprintf(`
apiVersion: keeper.mlkeeper.dev/v1alpha1
kind: CompositionElement
metadata: {name: element-NS}
spec:
  participantId: 101c62b3-8918-41b9-a747-d21eb79c6c04
  automationCompositionId: dfd8ef9a-0000-4000-8000-000000000001
  order: {type: %s, id: %s, time: "2026-01-01T00:00:00.000000Z", received: "2099-01-01T00:00:00.000000Z"}
  exists: %t
  content: {properties: {kserveInferenceEntities: [%s]}}
`, order, id, exists, strings.Join(entities, ", "))
}

// ended says that an order has come to a state, and that the element is Ready.
func ended(id, state string) func(*World) error {
	return func(w *World) error {
		u := w.Get(elementResource, "element-NS")
		if u == nil {
			return errors.New("there is no element")
		}
		order, _, _ := unstructured.NestedString(u.Object, "status", "outcome", "orderId")
		got, _, _ := unstructured.NestedString(u.Object, "status", "deployState")
		if order != id || got != state {
			return fmt.Errorf("order %q has come to %q", order, got)
		}
		// KServe tells the state of a model a moment after the address of the service.
		told, _, _ := unstructured.NestedMap(u.Object, "status", "outProperties")
		for property := range told {
			service, isAddress := strings.CutSuffix(property, ".url")
			if _, hasState := told[service+".modelState"]; isAddress && !hasState {
				return fmt.Errorf("the element tells the address of %s and not the state of its model", service)
			}
		}
		return w.Ready()
	}
}

// elementWorkloads are what orders do with an element.
func elementWorkloads() []Workload {
	deployed := elementOf("Deploy", "m1", true, "1", "iris", "flowers")
	create := []Step{apply("deploy", deployed, ended("m1", "DEPLOYED"))}
	return []Workload{
		{Name: "deploy", Short: true, Steady: true, Steps: create},
		{
			Name: "update", Short: true, Setup: create,
			Steps: []Step{apply("update", elementOf("Update", "m2", true, "2", "iris", "roses"), ended("m2", "DEPLOYED"))},
		},
		{
			Name: "undeploy", Short: true, Setup: create, Steps: []Step{apply("undeploy", elementOf("Undeploy", "m3", false, "1", "iris", "flowers"),
				func(w *World) error {
					return errors.Join(has(servicesOfTest, "iris", false)(w), ended("m3", "UNDEPLOYED")(w))
				})},
		},
		{
			Name: "mend", Same: "deploy", Steps: []Step{
				apply("a payload that is none", strings.Replace(deployed, "InferenceService", "Pod", 1), func(w *World) error {
					return w.Condition("element-"+w.Namespace, "Stalled", "True", "InvalidProperties")
				}),
				apply("the payload that it was", deployed, ended("m1", "DEPLOYED")),
			},
		},
		{
			Name: "delete", Short: true, Setup: create,
			Steps: []Step{{Name: "delete", Do: func(w *World) error { return w.Delete(elementGVK, "element-"+w.Namespace) }, Until: (*World).Gone}},
		},
	}
}

package kserve

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// TestRolledOut: an order is carried out when what KServe made of its services is made of what was ordered, whatever their
// conditions say.
func TestRolledOut(t *testing.T) {
	both := strings.Replace(iris, `"spec":{`, `"spec":{"transformer":{},`, 1)
	mesh := strings.Replace(iris, `"metadata":{`, `"metadata":{"annotations":{"serving.kserve.io/deploymentMode":"ModelMesh"},`, 1)
	rolling := health.Result{Status: health.InProgress, Message: "Fewer replicas are updated."}
	for _, c := range []struct {
		name, payload string
		change        func(*workloads)
		// waits is what is waited for; empty where the order has ended.
		waits string
	}{
		{name: "all is as ordered", payload: iris},
		{name: "nothing was read", payload: iris, change: func(w *workloads) { *w = workloads{Failure: "deployments is forbidden"} }, waits: "forbidden"},
		{name: "nothing was made", payload: iris, change: func(w *workloads) { w.Items = nil }, waits: "nothing for the predictor"},
		{name: "of what ran before", payload: iris, change: func(w *workloads) { w.Items[0].Digest = "before" }, waits: "has not brought"},
		{name: "being rolled out", payload: iris, change: func(w *workloads) { w.Items[0].Health = rolling }, waits: "Fewer replicas are updated."},
		{name: "of a service of the same name before", payload: iris, change: func(w *workloads) { w.Items[0].Owner = "another" }, waits: "nothing for"},
		{name: "a transformer is lacking", payload: both, waits: "nothing for the transformer"},
		{name: "what is left of a component that is no longer declared", payload: iris, change: func(w *workloads) {
			w.Items = append(w.Items, workload{Component: "explainer", Owner: w.Items[0].Owner, Health: rolling})
		}},
		{name: "nothing is made for ModelMesh", payload: mesh, change: func(w *workloads) { w.Items = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cr := resource(ordered(acm.OrderUpdate, list(declared("sklearn-iris", "kserve-test", c.payload))), nil)
			cluster := open(controllertest.New(noon.Add(time.Second)))
			facts, err := system{}.Gather(t.Context(), cluster, cr)
			if err != nil || len(cluster.Asked) != 0 {
				t.Fatalf("before the service is there: %v, asked %v", err, cluster.Asked)
			}
			u := service(facts.Services[0], true)
			cluster.Own(u, "")
			answer := &workloads{Items: []workload{predictor(u)}}
			if c.change != nil {
				c.change(answer)
			}
			cluster.Answers["what runs in kserve-test for m1"] = answer
			if facts, err = (system{}).Gather(t.Context(), cluster, cr); err != nil || len(cluster.Asked) != 1 {
				t.Fatalf("%v, asked %v", err, cluster.Asked)
			}
			seen := controller.ObservedState{Ready: true, Now: facts.Now, Objects: map[plan.Key]controller.State{
				plan.KeyOf(u): {Observed: observe.From(u, true), Current: true},
			}}
			verdict := system{}.Project(cr, facts, seen)
			if ended := cr.Status.Outcome != nil; ended != (c.waits == "") || verdict.Hold != !ended || !strings.Contains(verdict.Progress, c.waits) {
				t.Errorf("the outcome is %+v, the verdict %+v", cr.Status.Outcome, verdict)
			}
			if verdict.Step || verdict.Again {
				t.Error("a status is written at once for a rollout that goes on")
			}
			facts, err = system{}.Gather(t.Context(), cluster, cr)
			if err != nil || (facts.Rollouts == nil) != (c.waits == "") {
				t.Errorf("afterwards it asks for %v, %v", facts.Rollouts, err)
			}
		})
	}
}

// holding is a cluster that holds some objects of each kind.
type holding map[string][]unstructured.Unstructured

func (h holding) List(_ context.Context, gvk schema.GroupVersionKind, _, selector string, _ int64) ([]unstructured.Unstructured, error) {
	if selector != "serving.kserve.io/inferenceservice in (a,b)" {
		return nil, errors.New("the selector is " + selector)
	}
	return h[gvk.Kind], nil
}

func (holding) Get(context.Context, string, schema.GroupVersionKind, string, string) (*unstructured.Unstructured, error) {
	return nil, errors.New("nothing is read by name")
}

func (holding) ListAs(context.Context, string, schema.GroupVersionKind, string, int) ([]unstructured.Unstructured, error) {
	return nil, errors.New("nothing is listed for a user")
}

// TestWhatKServeMade: the digest is that of the template, and the health that of the object.
func TestWhatKServeMade(t *testing.T) {
	h := holding{
		"Deployment": {*controllertest.Parse(t, `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: a-predictor
  generation: 2
  labels: {component: predictor}
  annotations: {keeper.mlkeeper.dev/applied-hash: of the object}
  ownerReferences: [{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, name: a, uid: u, controller: true}]
spec: {template: {metadata: {annotations: {keeper.mlkeeper.dev/applied-hash: d}}}}
status: {observedGeneration: 1}
`)},
		"Service": {*controllertest.Parse(t, `
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: b-predictor, generation: 2, labels: {component: predictor}}
status: {observedGeneration: 2, conditions: [{type: Ready, status: "True"}]}
`)},
	}
	got, _ := made([]schema.GroupVersionKind{gvkDeployment, gvkKnative}, "kserve-test", []string{"a", "b"}, 0)(t.Context(), h).(*workloads)
	if got == nil || got.Retry() != 0 || len(got.Items) != 2 {
		t.Fatalf("it is %+v", got)
	}
	one, two := got.Items[0], got.Items[1]
	if one.Digest != "d" || one.Owner != "u" || one.Component != "predictor" || one.Health.Status != health.InProgress {
		t.Errorf("the Deployment is %+v", one)
	}
	if two.Digest != "" || two.Owner != "" || two.Health.Status != health.Current {
		t.Errorf("the Knative Service is %+v", two)
	}
	refused, _ := made([]schema.GroupVersionKind{gvkDeployment}, "kserve-test", []string{"c"}, 0)(t.Context(), h).(*workloads)
	if refused == nil || refused.Retry() != controller.RetryPassing {
		t.Errorf("a refusal is %+v", refused)
	}
	late, _ := made([]schema.GroupVersionKind{gvkDeployment}, "kserve-test", []string{"a", "b"}, controller.RetryPassing)(t.Context(), h).(*workloads)
	if late == nil || late.Failure != "" || late.Retry() != controller.RetryPassing {
		t.Errorf("of an order whose time is up is known %+v", late)
	}
}

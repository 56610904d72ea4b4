package greeting

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

var (
	configMap  = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	deployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
)

// Definition describes the kind to the engine.
func Definition() controller.Definition[*Greeting] {
	return controller.Definition[*Greeting]{
		Controller: "greeting", GVK: GVK, Resource: "greetings", New: func() *Greeting { return &Greeting{} },
		Children: []schema.GroupVersionKind{configMap, deployment},
		Common: func(g *Greeting) controller.Common {
			return controller.Common{
				Conditions: &g.Status.Conditions, ObservedGeneration: &g.Status.ObservedGeneration,
				LastHandledReconcileAt: &g.Status.LastHandledReconcileAt, Inventory: &g.Status.Inventory,
			}
		},
	}
}

// Facts are everything that rendering needs beyond the custom resource.
type Facts struct{ Words string }

// System is the controller.
type System struct{ Image string }

// Gather does every read: here, one ConfigMap of another owner. Its watch wakes the Greeting when it appears or changes.
func (s System) Gather(ctx context.Context, read controller.Reader, g *Greeting) (Facts, error) {
	source, err := read.Referenced(ctx, configMap, g.Namespace, g.Spec.WordsFrom)
	if err != nil {
		return Facts{}, err
	}
	if source == nil {
		return Facts{}, plan.Problem{
			Class: plan.Waiting, Reason: "WordsNotFound", Field: "spec.wordsFrom", Value: g.Spec.WordsFrom,
			Message: "there is no ConfigMap of this name", Remedy: "create it with the key words",
		}
	}
	words, _, err := unstructured.NestedString(source.Object, "data", "words")
	return Facts{Words: words}, err
}

// Render is pure: the same Greeting and facts give the same plan.
func (s System) Render(g *Greeting, facts Facts) plan.Plan {
	page := object(configMap, g, map[string]any{"data": map[string]any{"index.html": "Hello, " + facts.Words + "!\n"}})
	labels := map[string]any{"app.kubernetes.io/instance": g.Name}
	web := object(deployment, g, map[string]any{"spec": map[string]any{
		"replicas": max(g.Spec.Replicas, 1),
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{
				"containers": []any{map[string]any{
					"name": "web", "image": s.Image,
					"volumeMounts": []any{map[string]any{"name": "page", "mountPath": "/www"}},
				}},
				"volumes": []any{map[string]any{"name": "page", "configMap": map[string]any{"name": g.Name}}},
			},
		},
	}})
	return plan.Plan{Stages: []plan.Stage{{Name: "web", Objects: []plan.Object{page, web}}}}
}

// object makes a desired object under the name of the Greeting.
func object(gvk schema.GroupVersionKind, g *Greeting, content map[string]any) plan.Object {
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(g.Namespace)
	u.SetName(g.Name)
	return plan.Object{Desired: u}
}

// Project writes what was observed onto the status. Ready, Reconciling and Stalled are the engine's.
func (s System) Project(g *Greeting, _ Facts, seen controller.ObservedState) controller.Verdict {
	g.Status.Replicas = 0
	if state, found := seen.Find("Deployment", g.Name); found && state.Observed != nil {
		g.Status.Replicas, _, _ = unstructured.NestedInt64(state.Observed.Stripped().Object, "status", "readyReplicas")
	}
	return controller.Verdict{}
}

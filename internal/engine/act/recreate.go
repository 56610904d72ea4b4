package act

import (
	"cmp"
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/plan"
)

// recreates says whether an object may be deleted and made again for the sake of an immutable field. Nothing that
// holds data or serves is, unless the plan says so, and never what was adopted, since it is another's work.
func recreates(action decide.Action) bool {
	o := action.Object
	if action.Adopted {
		return false
	}
	switch o.OnImmutable {
	case plan.ImmutableRecreate:
		return o.Key.Kind != "PersistentVolumeClaim"
	case plan.ImmutableStall:
		return false
	}
	switch o.Key.Kind {
	case "Job", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "Secret":
		return o.Policy() != keeper.Retain
	}
	return false
}

// bindsAnother says that a binding refers to another role than is declared. That cannot be changed, and any other write of it
// needs the right to bind the role that it refers to, even one that is gone (kubernetes
// pkg/registry/rbac/clusterrolebinding/policybased, Update): MLKeeper may bind those that it declares, and no others.
func bindsAnother(live, desired *unstructured.Unstructured) bool {
	kind := live.GroupVersionKind().GroupKind()
	if kind.Group != rbacv1.GroupName || kind.Kind != "RoleBinding" && kind.Kind != "ClusterRoleBinding" {
		return false
	}
	return roleOf(live) != roleOf(desired)
}

// roleOf is the role that a binding refers to. The API server fills in the group where none is declared (kubernetes
// pkg/apis/rbac/v1/defaults.go).
func roleOf(binding *unstructured.Unstructured) rbacv1.RoleRef {
	field := func(name string) string {
		value, _, _ := unstructured.NestedString(binding.Object, "roleRef", name)
		return value
	}
	return rbacv1.RoleRef{APIGroup: cmp.Or(field("apiGroup"), rbacv1.GroupName), Kind: field("kind"), Name: field("name")}
}

// trialName begins the names under which replacements are tried; it is short enough for every kind.
const trialName = "mlkeeper-trial-"

// recreate deletes an object so that the next pass makes it again, if the API server would take its replacement. A
// refusal of that leaves the object as it is, and so does a change of it meanwhile, after which it may be another's.
func (a *Actor) recreate(ctx context.Context, req Request, client dynamic.ResourceInterface, res *Result) {
	live, err := client.Get(ctx, res.Action.Key.Name, metav1.GetOptions{})
	if err != nil {
		res.Err = err
		return
	}
	trial := fieldownership.ForCreate(res.Action.Object.Desired)
	trial.SetName("")
	trial.SetGenerateName(trialName)
	if res.Action.Key.GroupKind == (schema.GroupKind{Kind: "Service"}) {
		shareAllocated(trial, live)
	}
	if _, err := a.post(ctx, client, trial, &Result{}, metav1.DryRunAll); err != nil {
		res.Err = fmt.Errorf("it differs in a field that cannot be changed, and a new one would be refused, so that it stays as it is: %w", err)
		return
	}
	res.Action.Verb, res.Action.Reason = decide.Delete, decide.ReasonRecreated
	version := live.GetResourceVersion()
	a.remove(ctx, req, client, res, &version)
}

// shareAllocated takes out of the trial of a Service what the live one has been allocated, which becomes free with it.
func shareAllocated(trial, live *unstructured.Unstructured) {
	spec, _ := trial.Object["spec"].(map[string]any)
	held, _ := live.Object["spec"].(map[string]any)
	if spec == nil || held == nil {
		return
	}
	if spec["clusterIP"] == held["clusterIP"] {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	if spec["healthCheckNodePort"] == held["healthCheckNodePort"] {
		delete(spec, "healthCheckNodePort")
	}
	taken := map[any]bool{}
	ports, _ := held["ports"].([]any)
	for _, p := range ports {
		port, _ := p.(map[string]any)
		taken[port["nodePort"]] = true
	}
	ports, _ = spec["ports"].([]any)
	for _, p := range ports {
		if port, _ := p.(map[string]any); taken[port["nodePort"]] {
			delete(port, "nodePort")
		}
	}
}

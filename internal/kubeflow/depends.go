package kubeflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// reasonDependencyCycle is the reason of a KfDef that waits for itself, reasonDependencyUnknown that of one that waits for what is not there
// or its author may not know of; both are stable across releases.
const (
	reasonDependencyCycle   = "DependencyCycle"
	reasonDependencyUnknown = "DependencyUnknown"
)

// Awaited is what the other KfDefs that a KfDef depends on have to do with it. It is compared to tell whether the plan stays the same.
type Awaited struct {
	// Hold names the first one that is not Ready, and why; empty where all are.
	Hold string
	// Cycle is the way by which the KfDef depends on itself; empty where it does not.
	Cycle string
	// Unknown is why nothing is known of one, since there is none or it may not be read; empty where all are known.
	Unknown plan.Problem
}

// awaited looks at the KfDefs that one depends on: those of its namespace, and with the rights of a user those of others.
func awaited(ctx context.Context, read controller.Reader, cr *kubeflowv1.KfDef, user string) (Awaited, error) {
	if len(cr.Spec.DependsOn) == 0 {
		return Awaited{}, nil
	}
	own := client.ObjectKeyFromObject(cr)
	all := map[types.NamespacedName]*kubeflowv1.KfDef{own: cr}
	for _, o := range read.Siblings() {
		if other, ok := o.(*kubeflowv1.KfDef); ok {
			all[client.ObjectKeyFromObject(other)] = other
		}
	}
	var out Awaited
	for i, d := range cr.Spec.DependsOn {
		key := keyOfDependency(cr, d)
		problem := missing(i, key.Name)
		if key.Namespace != cr.Namespace {
			var err error
			if all[key], problem, err = elsewhere(ctx, read, key, user, i); err != nil {
				return Awaited{}, err
			}
		}
		if all[key] == nil && out.Unknown.Reason == "" {
			out.Unknown = problem
		}
		if out.Hold == "" {
			out.Hold = notReady(cr, key, all[key])
		}
	}
	var way []string
	for _, key := range wayTo(own, own, all, map[types.NamespacedName]bool{}) {
		way = append(way, shownIn(cr, key))
	}
	out.Cycle = strings.Join(way, ", ")
	return out, nil
}

// keyOfDependency is the key of a KfDef that another one depends on.
func keyOfDependency(of *kubeflowv1.KfDef, d kubeflowv1.Dependency) types.NamespacedName {
	return types.NamespacedName{Namespace: cmp.Or(d.Namespace, of.Namespace), Name: d.Name}
}

// shownIn is a KfDef in what another one tells.
func shownIn(cr *kubeflowv1.KfDef, key types.NamespacedName) string {
	if key.Namespace == cr.Namespace {
		return key.Name
	}
	return key.String()
}

// missing is the problem of a KfDef that depends on none in its namespace. What exists of it is updated, but it is not as it is declared.
func missing(i int, name string) plan.Problem {
	return plan.Problem{
		Class: plan.Waiting, Reason: reasonDependencyUnknown, Field: fmt.Sprintf("spec.dependsOn[%d].name", i), Value: name,
		Message: "there is no such KfDef in the namespace", Remedy: "create it, or correct the name",
	}
}

// elsewhere reads a KfDef of another namespace as a user may read it; nil with a problem where there is none, or the user may not. Which of
// both it is the user is not told: who may not read a namespace learns nothing of it.
func elsewhere(
	ctx context.Context, read controller.Reader, key types.NamespacedName, user string, i int,
) (other *kubeflowv1.KfDef, problem plan.Problem, err error) {
	object, err := read.ReferencedAs(ctx, user, kubeflowv1.GroupVersion.WithKind("KfDef"), key.Namespace, key.Name)
	var refused controller.UserRefused
	if errors.As(err, &refused) {
		object, err = nil, nil
	}
	if errors.As(err, &problem) {
		problem.Field, problem.Value = fmt.Sprintf("spec.dependsOn[%d]", i), key.String()
		return nil, problem, nil
	}
	if err != nil {
		return nil, problem, err
	}
	if object != nil {
		other = &kubeflowv1.KfDef{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, other); err == nil {
			return other, problem, nil
		}
	}
	return nil, plan.Problem{
		Class: plan.Blocked, Reason: reasonDependencyUnknown, Field: fmt.Sprintf("spec.dependsOn[%d]", i), Value: key.String(),
		Message: "there is no such KfDef, or the ServiceAccount of this one may not read it",
		Remedy:  "correct the name, or have the right get on the KfDef granted to the ServiceAccount in that namespace",
	}, nil
}

// notReady says why a KfDef that is depended on is not as it has to be; empty where it is. A Ready of an older generation says nothing of what is
// declared now, as in Flux's kustomize-controller (internal/controller/kustomization_controller.go, checkDependencies).
func notReady(cr *kubeflowv1.KfDef, key types.NamespacedName, other *kubeflowv1.KfDef) string {
	switch {
	case other == nil && key.Namespace == cr.Namespace:
		return fmt.Sprintf("KfDef %s, which is not in namespace %s", key.Name, key.Namespace)
	case other == nil:
		return fmt.Sprintf("KfDef %s, of which nothing is known", key)
	case other.DeletionTimestamp != nil:
		return fmt.Sprintf("KfDef %s, which is being deleted", shownIn(cr, key))
	case other.Status.ObservedGeneration < other.Generation || !meta.IsStatusConditionTrue(other.Status.Conditions, "Ready"):
		return fmt.Sprintf("KfDef %s, which is not Ready", shownIn(cr, key))
	}
	return ""
}

// wayTo are the KfDefs by which one depends on another one; empty where it does not. Each is visited once.
func wayTo(
	to, from types.NamespacedName, all map[types.NamespacedName]*kubeflowv1.KfDef, seen map[types.NamespacedName]bool,
) []types.NamespacedName {
	if all[from] == nil || seen[from] {
		return nil
	}
	seen[from] = true
	for _, d := range all[from].Spec.DependsOn {
		next := keyOfDependency(all[from], d)
		if next == to {
			return []types.NamespacedName{from, to}
		}
		if rest := wayTo(to, next, all, seen); rest != nil {
			return append([]types.NamespacedName{from}, rest...)
		}
	}
	return nil
}

// hold has nothing of a plan created while another KfDef is awaited. What exists is updated.
func (a Awaited) hold(out *plan.Plan) {
	if a.Cycle != "" {
		out.Problems = append(out.Problems, plan.Problem{
			Class: plan.Terminal, Reason: reasonDependencyCycle, Field: "spec.dependsOn", Message: "goes in a circle: " + a.Cycle,
			Remedy: "remove one of these dependencies",
		})
	}
	if a.Unknown.Reason != "" {
		out.Problems = append(out.Problems, a.Unknown)
	}
	for i := range out.Stages {
		if a.Hold != "" {
			out.Stages[i].Hold = a.Hold
		}
	}
}

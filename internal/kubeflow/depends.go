package kubeflow

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/plan"
)

// reasonDependencyCycle is the reason of a KfDef that waits for itself; stable across releases.
const reasonDependencyCycle = "DependencyCycle"

// Awaited is what the other KfDefs that a KfDef depends on have to do with it. It is compared to tell whether the plan stays the same.
type Awaited struct {
	// Hold names the first one that is not Ready, and why; empty where all are.
	Hold string
	// Cycle is the way by which the KfDef depends on itself; empty where it does not.
	Cycle string
}

// awaited looks at the KfDefs that one depends on.
func awaited(cr *kubeflowv1.KfDef, siblings []client.Object) Awaited {
	if len(cr.Spec.DependsOn) == 0 {
		return Awaited{}
	}
	all := map[string]*kubeflowv1.KfDef{cr.Name: cr}
	for _, o := range siblings {
		if other, ok := o.(*kubeflowv1.KfDef); ok {
			all[other.Name] = other
		}
	}
	out := Awaited{Cycle: strings.Join(wayTo(cr.Name, cr.Name, all, map[string]bool{}), ", ")}
	for _, d := range cr.Spec.DependsOn {
		if out.Hold = notReady(d.Name, cr.Namespace, all[d.Name]); out.Hold != "" {
			break
		}
	}
	return out
}

// notReady says why a KfDef that is depended on is not as it has to be; empty where it is.
func notReady(name, namespace string, other *kubeflowv1.KfDef) string {
	switch {
	case other == nil:
		return fmt.Sprintf("KfDef %s, which is not in namespace %s", name, namespace)
	case !meta.IsStatusConditionTrue(other.Status.Conditions, "Ready"):
		return fmt.Sprintf("KfDef %s, which is not Ready", name)
	}
	return ""
}

// wayTo are the names by which a KfDef depends on another one; empty where it does not. Each KfDef is visited once.
func wayTo(to, from string, all map[string]*kubeflowv1.KfDef, seen map[string]bool) []string {
	if all[from] == nil || seen[from] {
		return nil
	}
	seen[from] = true
	for _, d := range all[from].Spec.DependsOn {
		if d.Name == to {
			return []string{from, to}
		}
		if rest := wayTo(to, d.Name, all, seen); rest != nil {
			return append([]string{from}, rest...)
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
	for i := range out.Stages {
		if a.Hold != "" {
			out.Stages[i].Hold = a.Hold
		}
	}
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
)

// Any is a controller without its type parameters, for what works on all controllers alike: the command line and the generation
// of RBAC.
type Any interface {
	// Name is the name of the controller.
	Name() string
	// GVK is the stored version of its kind.
	GVK() schema.GroupVersionKind
	// Resource is the plural of its kind.
	Resource() string
	// Children are the kinds it may render.
	Children() []schema.GroupVersionKind
	// Wires are the objects of others it edits.
	Wires() []wiring.Wire
	// Rules are the rights it needs beyond its children and wires.
	Rules() []Rule
	// RendersAnswers and DefaultName are those of the definition.
	RendersAnswers() bool
	DefaultName() string
	// Previous is the operator that had the custom resources before.
	Previous() Previous
	// Render gathers with the given reader and renders one custom resource of any served version.
	Render(ctx context.Context, read func(client.Object) Reader, u *unstructured.Unstructured) (plan.Plan, error)
}

// Previous is what is known of the operator that had the custom resources of a kind before: StripFinalizers, PreviousManagers and
// PreviousTakesBack of the definition.
type Previous struct {
	Finalizers, Managers []string
	TakesBack            bool
}

// Has says that an object has a finalizer of the previous operator, so that MLKeeper has not adopted it yet.
func (p Previous) Has(cr client.Object) bool {
	return slices.ContainsFunc(cr.GetFinalizers(), func(f string) bool { return slices.Contains(p.Finalizers, f) })
}

type erased[C client.Object, F any] struct {
	def Definition[C]
	sys Controller[C, F]
}

// Erase makes an Any of a definition and its system.
func Erase[C client.Object, F any](def Definition[C], sys Controller[C, F]) Any {
	return erased[C, F]{def, sys}
}

func (e erased[C, F]) Name() string                        { return e.def.Controller }
func (e erased[C, F]) GVK() schema.GroupVersionKind        { return e.def.GVK }
func (e erased[C, F]) Resource() string                    { return e.def.Resource }
func (e erased[C, F]) Children() []schema.GroupVersionKind { return e.def.Children }
func (e erased[C, F]) Wires() []wiring.Wire                { return e.def.Wires }
func (e erased[C, F]) RendersAnswers() bool                { return e.def.RendersAnswers }
func (e erased[C, F]) DefaultName() string                 { return e.def.DefaultName }
func (e erased[C, F]) Previous() Previous {
	return Previous{Finalizers: e.def.StripFinalizers, Managers: e.def.PreviousManagers, TakesBack: e.def.PreviousTakesBack}
}

// Rules implements Any. Whoever takes finalizers of a previous operator off needs a right for that.
func (e erased[C, F]) Rules() []Rule {
	if len(e.def.StripFinalizers) == 0 {
		return e.def.Rules
	}
	return append([]Rule{{
		Group: e.def.GVK.Group, Resources: []string{e.def.Resource}, Verbs: []string{"patch"},
		Why: "The finalizer of the original operator is taken off a custom resource that is adopted.",
	}}, e.def.Rules...)
}

// Render implements Any. A problem that gather finds becomes a problem of the plan.
func (e erased[C, F]) Render(
	ctx context.Context, read func(client.Object) Reader, u *unstructured.Unstructured,
) (plan.Plan, error) {
	cr := e.def.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cr); err != nil {
		return plan.Plan{}, fmt.Errorf("decode %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	facts, err := e.sys.Gather(ctx, read(cr), cr)
	var problem plan.Problem
	if errors.As(err, &problem) {
		return plan.Plan{Problems: []plan.Problem{problem}}, nil
	}
	if err != nil {
		return plan.Plan{}, err
	}
	return e.sys.Render(cr, facts), nil
}

package seldon

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
)

// ControllerName is the name of the controller, and the value of the controller label on its children.
const ControllerName = "seldon"

// Definition describes the kind to the engine.
func Definition() controller.Definition[*v1alpha1.SeldonOperator] {
	return controller.Definition[*v1alpha1.SeldonOperator]{
		Controller: ControllerName,
		GVK:        v1alpha1.GroupVersion.WithKind("SeldonOperator"),
		Resource:   "seldonoperators",
		New:        func() *v1alpha1.SeldonOperator { return &v1alpha1.SeldonOperator{} },
		Common: func(cr *v1alpha1.SeldonOperator) controller.Common {
			return controller.Common{
				Conditions:             &cr.Status.Conditions,
				ObservedGeneration:     &cr.Status.ObservedGeneration,
				LastHandledReconcileAt: &cr.Status.LastHandledReconcileAt,
				Ledger:                 &cr.Status.Children,
			}
		},
		AnyChildren:    true,
		RendersAnswers: true,
		AlsoServed:     []schema.GroupVersionKind{gvkGateway, gvkVirtualService, gvkBroker, gvkTrigger, gvkKnativeService},
		Suspended:      func(cr *v1alpha1.SeldonOperator) bool { return cr.Spec.Suspend },
		Rules:          controller.ActingRules("SeldonOperator", "charts"),
	}
}

// asker is the component of a SeldonOperator that an answer is for.
type asker struct {
	key       types.NamespacedName
	component string
}

// asked is whose question it was, what was declared, but for what the templates asked of the cluster, when a user asked for it to be
// asked again, and the name of the question.
type asked struct {
	uid                 types.UID
	inputs, again, name string
}

// system is the controller.
type system struct {
	settings Settings
	last     controller.Last[asker, asked, Answer]
}

// New makes the controller.
func New(settings Settings) controller.System[*v1alpha1.SeldonOperator, Facts] {
	return &system{settings: settings.complete()}
}

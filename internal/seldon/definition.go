package seldon

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/rendering"
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
				Inventory:              &cr.Status.Inventory,
			}
		},
		AnyChildren:    true,
		RendersAnswers: true,
		AlsoServed:     []schema.GroupVersionKind{gvkGateway, gvkVirtualService, gvkBroker, gvkTrigger, gvkKnativeService},
		Suspended:      func(cr *v1alpha1.SeldonOperator) bool { return cr.Spec.Suspend },
		Rules: slices.Concat(controller.ActingRules("SeldonOperator", "charts"), rendering.Rules(), []controller.Rule{{
			Resources: []string{"services"}, Verbs: []string{"get", "list", "watch"}, PerNamespace: true,
			Why: "The address of Seldon Deploy is that of the Service of a gateway.",
		}}),
	}
}

// system is the controller.
type system struct {
	settings Settings
	results  *rendering.Cache[Content]
	// keys are the *keys of the last pass for each SeldonOperator.
	keys sync.Map
	// packed are the results of components as they are kept for a rollback, by rendering.Subject.
	packed sync.Map
}

// New makes the controller.
func New(settings Settings) controller.Controller[*v1alpha1.SeldonOperator, Facts] {
	return &system{settings: settings.complete(), results: rendering.New[Content](settings.Sources, settings.Results)}
}

// OnEvict implements controller.Evicting.
func (s *system) OnEvict(evicted func(types.NamespacedName)) { s.results.OnEvict(evicted) }

// Forget implements controller.Forgetful.
func (s *system) Forget(key types.NamespacedName) {
	s.results.Forget(key)
	s.keys.Delete(key)
	s.packed.Range(func(subject, _ any) bool {
		if subject.(rendering.Subject).NamespacedName == key { //nolint:forcetypeassert // no other key is stored
			s.packed.Delete(subject)
		}
		return true
	})
}

// subject is one component of a SeldonOperator.
func subject(cr *v1alpha1.SeldonOperator, c component) rendering.Subject {
	return rendering.Subject{NamespacedName: client.ObjectKeyFromObject(cr), UID: cr.UID, Part: c.name}
}

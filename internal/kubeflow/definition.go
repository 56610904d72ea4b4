package kubeflow

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/rendering"
)

// ControllerName is the name of the controller, and the value of the controller label on its children.
const ControllerName = "kubeflow"

// finalizer is the original's. It would hold a KfDef for ever, since nobody takes it off any more.
const finalizer = "kfdef-finalizer.kfdef.apps.kubeflow.org"

// Definition describes the kind to the engine.
func Definition() controller.Definition[*kubeflowv1.KfDef] {
	return controller.Definition[*kubeflowv1.KfDef]{
		Controller: ControllerName,
		GVK:        kubeflowv1.GroupVersion.WithKind("KfDef"),
		Resource:   "kfdefs",
		New:        func() *kubeflowv1.KfDef { return &kubeflowv1.KfDef{} },
		Common: func(cr *kubeflowv1.KfDef) controller.Common {
			return controller.Common{
				Conditions:             &cr.Status.Conditions,
				ObservedGeneration:     &cr.Status.ObservedGeneration,
				LastHandledReconcileAt: &cr.Status.LastHandledReconcileAt,
				Inventory:              &cr.Status.Inventory,
			}
		},
		AnyChildren:      true,
		RendersAnswers:   true,
		Depends:          func(cr *kubeflowv1.KfDef) bool { return len(cr.Spec.DependsOn) > 0 },
		DefaultName:      "kubeflow",
		Suspended:        func(cr *kubeflowv1.KfDef) bool { return cr.Spec.Suspend },
		Rules:            slices.Concat(controller.ActingRules("KfDef", "applications"), rendering.Rules()),
		StripFinalizers:  []string{finalizer},
		PreviousManagers: []string{"kfctl"},
	}
}

// system is the controller.
type system struct {
	settings Settings
	results  *rendering.Cache[Content]
}

// New makes the controller.
func New(settings Settings) controller.Controller[*kubeflowv1.KfDef, Facts] {
	return &system{settings: settings, results: rendering.New[Content](settings.Sources, settings.Results)}
}

// OnEvict implements controller.Evicting.
func (s *system) OnEvict(evicted func(types.NamespacedName)) { s.results.OnEvict(evicted) }

// Forget implements controller.Forgetful.
func (s *system) Forget(key types.NamespacedName) { s.results.Forget(key) }

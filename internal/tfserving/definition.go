package tfserving

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
)

// ControllerName is the name of the controller, and the value of the controller label on its children.
const ControllerName = "tfserving"

// Definition describes the kind to the engine.
func Definition() controller.Definition[*v1alpha1.Tfserv] {
	return controller.Definition[*v1alpha1.Tfserv]{
		Controller: ControllerName,
		GVK:        v1alpha1.GroupVersion.WithKind("Tfserv"),
		Resource:   "tfservs",
		New:        func() *v1alpha1.Tfserv { return &v1alpha1.Tfserv{} },
		Common: func(cr *v1alpha1.Tfserv) controller.Common {
			return controller.Common{
				Conditions:             &cr.Status.Conditions,
				ObservedGeneration:     &cr.Status.ObservedGeneration,
				LastHandledReconcileAt: &cr.Status.LastHandledReconcileAt,
				Inventory:              &cr.Status.Inventory,
			}
		},
		Children: []schema.GroupVersionKind{
			gvkConfigMap, gvkDeployment, gvkService, gvkServiceMonitor, gvkBudget, gvkAutoscaler, gvkScaledObject, gvkIngress,
			gvkHTTPRoute, gvkGRPCRoute,
		},
		AlsoServed: []schema.GroupVersionKind{gvkConstraints},
		// The tutorial's operator is started as bin/manager, or by "go run", which names it main.
		PreviousManagers: []string{"manager", "main"},
		Rules: []controller.Rule{
			{
				Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"},
				Why: "A changed credential rolls the pods; only the Secrets that a Tfserv names are read.",
			},
			{
				Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"get", "list", "watch"},
				Why: "spec.modelVolume.claimName is waited for by name.",
			},
			{
				Resources: []string{"pods"}, Verbs: []string{"list"},
				Why: "The model servers are asked for the state of their models while something is changing.",
			},
		},
	}
}

// system is the controller.
type system struct {
	settings Settings
	hosts    hosts
	rolls    rolls
	endings  endings
}

// New makes the controller.
func New(settings Settings) controller.Controller[*v1alpha1.Tfserv, Facts] {
	return &system{settings: settings.complete()}
}

// Forget implements controller.Forgetful.
func (s *system) Forget(gone types.NamespacedName) {
	for _, track := range []types.NamespacedName{gone, canaryTrack(gone)} {
		s.hosts.keep(track, "")
		s.rolls.end(track)
	}
	s.endings.end(gone)
}

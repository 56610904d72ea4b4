package tfserving

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/room"
)

// RoomName is the name of the room, and the value of the room label on its children.
const RoomName = "tfserving"

// Room describes the kind to the engine.
func Room() room.Definition[*v1alpha1.Tfserv] {
	return room.Definition[*v1alpha1.Tfserv]{
		Room:     RoomName,
		GVK:      v1alpha1.GroupVersion.WithKind("Tfserv"),
		Resource: "tfservs",
		New:      func() *v1alpha1.Tfserv { return &v1alpha1.Tfserv{} },
		Common: func(cr *v1alpha1.Tfserv) room.Common {
			return room.Common{
				Conditions:             &cr.Status.Conditions,
				ObservedGeneration:     &cr.Status.ObservedGeneration,
				LastHandledReconcileAt: &cr.Status.LastHandledReconcileAt,
				Ledger:                 &cr.Status.Children,
			}
		},
		Children:   []schema.GroupVersionKind{gvkConfigMap, gvkDeployment, gvkService, gvkServiceMonitor, gvkBudget, gvkAutoscaler},
		AlsoServed: []schema.GroupVersionKind{gvkConstraints},
		// The tutorial's operator is started as bin/manager, or by "go run", which names it main.
		FormerManagers: []string{"manager", "main"},
		Rules: []room.Rule{
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

// system is the room.
type system struct {
	settings Settings
	hosts    hosts
}

// New makes the room.
func New(settings Settings) room.System[*v1alpha1.Tfserv, Facts] {
	return &system{settings: settings.complete()}
}

// Forget implements room.Forgetful.
func (s *system) Forget(gone types.NamespacedName) {
	s.hosts.Forget(func(one types.NamespacedName) bool { return one == gone })
}

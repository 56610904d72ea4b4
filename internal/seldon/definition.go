package seldon

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/room"
)

// RoomName is the name of the room, and the value of the room label on its children.
const RoomName = "seldon"

// Room describes the kind to the engine.
func Room() room.Definition[*v1alpha1.SeldonOperator] {
	return room.Definition[*v1alpha1.SeldonOperator]{
		Room: RoomName,
		GVK:  v1alpha1.GroupVersion.WithKind("SeldonOperator"),
		New:  func() *v1alpha1.SeldonOperator { return &v1alpha1.SeldonOperator{} },
		Common: func(cr *v1alpha1.SeldonOperator) room.Common {
			return room.Common{
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
		Rules: []room.Rule{
			{
				Group: "", Resources: []string{"serviceaccounts"}, Verbs: []string{"impersonate"},
				Why: "The charts are written as a ServiceAccount of the SeldonOperator's namespace.",
			},
			{
				Group: "*", Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"},
				Why: "Drift is seen by watching, whatever kinds the charts hold; who may act as every ServiceAccount may read all of it anyway.",
			},
		},
	}
}

// system is the room.
type system struct {
	settings Settings
	kept     kept
}

// New makes the room.
func New(settings Settings) room.System[*v1alpha1.SeldonOperator, Facts] {
	return &system{settings: settings.complete()}
}

package kserve

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
)

// ControllerName is the name of the controller, and the value of the controller label on its children.
const ControllerName = "kserve"

// Definition describes the kind to the engine.
func Definition() controller.Definition[*keeper.CompositionElement] {
	return controller.Definition[*keeper.CompositionElement]{
		Controller: ControllerName,
		GVK:        keeper.GroupVersion.WithKind("CompositionElement"),
		Resource:   "compositionelements",
		New:        func() *keeper.CompositionElement { return &keeper.CompositionElement{} },
		Common: func(cr *keeper.CompositionElement) controller.Common {
			return controller.Common{
				Conditions:             &cr.Status.Conditions,
				ObservedGeneration:     &cr.Status.ObservedGeneration,
				LastHandledReconcileAt: &cr.Status.LastHandledReconcileAt,
				Inventory:              &cr.Status.Inventory,
			}
		},
		Children:   []schema.GroupVersionKind{gvkService},
		AlsoServed: []schema.GroupVersionKind{gvkKnative},
		// The participant creates the Secret with what was ordered, and then writes the element that refers to it.
		ConfirmAbsence: []schema.GroupVersionKind{gvkSecret},
		// The ACM runtime ordered it, and is told.
		WarningsOnly: true,
		Rules: []controller.Rule{
			{
				Group: keeper.GroupVersion.Group, Resources: []string{"compositionelements", "compositiondefinitions", "pendingorders"},
				Verbs: []string{"list", "create", "patch", "delete"},
				Why:   "The participant keeps what an ACM runtime has ordered in them.",
			},
			{
				Group: "apps", Resources: []string{"deployments"}, Verbs: []string{"list"},
				Why: "Whether KServe has rolled out what was ordered is told by nothing but what it made: read while an order waits for it.",
			},
			{
				Group: gvkKnative.Group, Resources: []string{"services"}, Verbs: []string{"list"},
				Why: "The same in KServe's Knative mode.",
			},
			{
				Group: "", Resources: []string{"serviceaccounts"}, Verbs: []string{"get", "list", "watch"},
				Why: "A label on a ServiceAccount lets the pods of ordered services run as it.",
			},
			{
				Group: "", Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"},
				Why: "A label lets orders into a namespace; the UID of kube-system tells installations with the same participant id apart.",
			},
		},
	}
}

// system is the controller.
type system struct{}

// New makes the controller.
func New() controller.Controller[*keeper.CompositionElement, Facts] { return system{} }

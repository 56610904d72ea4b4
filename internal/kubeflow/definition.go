package kubeflow

import (
	"k8s.io/apimachinery/pkg/types"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/room"
)

// RoomName is the name of the room, and the value of the room label on its children.
const RoomName = "kubeflow"

// finalizer is the original's. It would hold a KfDef for ever, since nobody takes it off any more.
const finalizer = "kfdef-finalizer.kfdef.apps.kubeflow.org"

// Room describes the kind to the engine.
func Room() room.Definition[*kubeflowv1.KfDef] {
	return room.Definition[*kubeflowv1.KfDef]{
		Room:     RoomName,
		GVK:      kubeflowv1.GroupVersion.WithKind("KfDef"),
		Resource: "kfdefs",
		New:      func() *kubeflowv1.KfDef { return &kubeflowv1.KfDef{} },
		Common: func(cr *kubeflowv1.KfDef) room.Common {
			return room.Common{
				Conditions:             &cr.Status.Conditions,
				ObservedGeneration:     &cr.Status.ObservedGeneration,
				LastHandledReconcileAt: &cr.Status.LastHandledReconcileAt,
				Ledger:                 &cr.Status.Children,
			}
		},
		AnyChildren:     true,
		RendersAnswers:  true,
		Nameless:        "kubeflow",
		Suspended:       func(cr *kubeflowv1.KfDef) bool { return cr.Spec.Suspend },
		Rules:           room.ActingRules("KfDef", "applications"),
		StripFinalizers: []string{finalizer},
		FormerManagers:  []string{"kfctl"},
	}
}

// asked is what an answer was asked with. A wish tells apart what the KfDef and the objects that it refers to ask for, and the
// name of the question also what the cluster served.
type asked struct {
	uid                types.UID
	inputs, wish, name string
}

// system is the room.
type system struct {
	settings Settings
	// last are the answers by the name of the KfDef, noted with what was asked.
	last room.Last[types.NamespacedName, asked, Answer]
}

// New makes the room.
func New(settings Settings) room.System[*kubeflowv1.KfDef, Facts] { return &system{settings: settings} }

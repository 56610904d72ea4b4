package trustyai

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/room"
)

// RoomName is the name of the room, and the value of the room label on its children.
const RoomName = "trustyai"

// upstreamFinalizer is the finalizer of trustyai-service-operator.
const upstreamFinalizer = "trustyai.opendatahub.io/finalizer"

// Room describes the kind to the engine, in a cluster with the default domain.
func Room() room.Definition[*v1.TrustyAIService] { return RoomIn(DefaultClusterDomain) }

// RoomIn is Room in a cluster with the given domain.
func RoomIn(clusterDomain string) room.Definition[*v1.TrustyAIService] {
	return room.Definition[*v1.TrustyAIService]{
		Room:     RoomName,
		GVK:      v1.GroupVersion.WithKind("TrustyAIService"),
		Resource: "trustyaiservices",
		New:      func() *v1.TrustyAIService { return &v1.TrustyAIService{} },
		Common: func(cr *v1.TrustyAIService) room.Common {
			return room.Common{
				Conditions:             &cr.Status.Conditions,
				ObservedGeneration:     &cr.Status.ObservedGeneration,
				LastHandledReconcileAt: &cr.Status.LastHandledReconcileAt,
				Ledger:                 &cr.Status.Children,
				LastUpdateTime:         &cr.Status.LastUpdateTime,
			}
		},
		Children: []schema.GroupVersionKind{
			gvkServiceAccount, gvkBinding, gvkConfigMap, gvkSecret, gvkIssuer, gvkCertificate, gvkClaim, gvkDeployment, gvkService,
			gvkServiceMonitor, gvkRoute,
		},
		Retained:     []schema.GroupVersionKind{gvkClaim},
		AlsoServed:   []schema.GroupVersionKind{gvkServiceCA, gvkConstraints},
		Shared:       []room.Named{{GVK: gvkConfigMap, Name: trustedCA}},
		WakeSiblings: true,
		Wires:        WiresIn(clusterDomain),
		// trustyai-service-operator HEAD 11c335b; controller-runtime names the field manager after upstream's binary.
		StripFinalizers: []string{upstreamFinalizer},
		FormerManagers:  []string{"manager", "trustyai-service-operator"},
		Rules: []room.Rule{
			{
				Group: "trustyai.opendatahub.io", Resources: []string{"trustyaiservices"}, Verbs: []string{"patch"},
				Why: "The finalizer of the original operator is taken off a service that is taken over.",
			},
			{
				Resources: []string{"persistentvolumes"}, Verbs: []string{"get", "list", "watch"},
				Why: "spec.storage.pv is checked before the claim waits for it.",
			},
			{
				Group: "rbac.authorization.k8s.io", Resources: []string{"clusterroles"}, Names: []string{proxyRole}, Verbs: []string{"bind"},
				Why: "The proxy of a Secured service asks the API server who its callers are; no other ClusterRole can be bound.",
			},
			{
				Group: "route.openshift.io", Resources: []string{"routes/custom-host"}, Verbs: []string{"create"},
				Why: "OpenShift asks for it when a Route carries the certificate of its destination.",
			},
		},
	}
}

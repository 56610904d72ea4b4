package trustyai

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
)

// ControllerName is the name of the controller, and the value of the controller label on its children.
const ControllerName = "trustyai"

// upstreamFinalizer is the finalizer of trustyai-service-operator.
const upstreamFinalizer = "trustyai.opendatahub.io/finalizer"

// Definition describes the kind to the engine, in a cluster with the default domain.
func Definition() controller.Definition[*v1.TrustyAIService] {
	return DefinitionIn(DefaultClusterDomain)
}

// DefinitionIn is Controller in a cluster with the given domain.
func DefinitionIn(clusterDomain string) controller.Definition[*v1.TrustyAIService] {
	return controller.Definition[*v1.TrustyAIService]{
		Controller: ControllerName,
		GVK:        v1.GroupVersion.WithKind("TrustyAIService"),
		Resource:   "trustyaiservices",
		New:        func() *v1.TrustyAIService { return &v1.TrustyAIService{} },
		Common: func(cr *v1.TrustyAIService) controller.Common {
			return controller.Common{
				Conditions:             &cr.Status.Conditions,
				ObservedGeneration:     &cr.Status.ObservedGeneration,
				LastHandledReconcileAt: &cr.Status.LastHandledReconcileAt,
				Inventory:              &cr.Status.Inventory,
				LastUpdateTime:         &cr.Status.LastUpdateTime,
			}
		},
		Children: []schema.GroupVersionKind{
			gvkServiceAccount, gvkBinding, gvkPolicy, gvkConfigMap, gvkSecret, gvkIssuer, gvkCertificate, gvkClaim, gvkDeployment,
			gvkService, gvkServiceMonitor, gvkRoute, gvkIngress, gvkHTTPRoute,
			gvkBackendTLSPolicy, gvkBudget,
		},
		Retained:     []schema.GroupVersionKind{gvkClaim},
		AlsoServed:   []schema.GroupVersionKind{gvkServiceCA, gvkConstraints},
		Shared:       []controller.Named{{GVK: gvkConfigMap, Name: trustedCA}, {GVK: gvkConfigMap, Name: loggerCA}},
		WakeSiblings: true,
		Wires:        WiresIn(clusterDomain),
		// trustyai-service-operator HEAD 11c335b; controller-runtime names the field manager after upstream's binary.
		StripFinalizers:   []string{upstreamFinalizer},
		Annotations:       []string{MigrationAnnotation},
		PreviousManagers:  []string{"manager", "trustyai-service-operator"},
		PreviousTakesBack: true,
		Rules: []controller.Rule{
			{
				Resources: []string{"persistentvolumes"}, Verbs: []string{"get", "list", "watch"},
				Why: "spec.storage.pv is checked before the claim waits for it.",
			},
			{
				Group: "discovery.k8s.io", Resources: []string{"endpointslices"}, Verbs: []string{"list"},
				Why: "Whether the Service of a database has ready endpoints is asked for while no pod of the service is ready.",
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

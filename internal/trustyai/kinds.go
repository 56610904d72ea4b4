package trustyai

import "k8s.io/apimachinery/pkg/runtime/schema"

// The kinds that the controller renders or reads, in the versions it does so.
var (
	gvkSecret           = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	gvkConfigMap        = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	gvkService          = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	gvkServiceAccount   = schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}
	gvkClaim            = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	gvkEndpointSlice    = schema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"}
	gvkVolume           = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"}
	gvkDeployment       = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	gvkBinding          = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}
	gvkPolicy           = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}
	gvkIngress          = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}
	gvkBudget           = schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}
	gvkHTTPRoute        = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}
	gvkBackendTLSPolicy = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "BackendTLSPolicy"}
	gvkRoute            = schema.GroupVersionKind{Group: "route.openshift.io", Version: "v1", Kind: "Route"}
	gvkServiceMonitor   = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"}
	gvkCertificate      = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}
	gvkIssuer           = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Issuer"}
	gvkServiceCA        = schema.GroupVersionKind{Group: "operator.openshift.io", Version: "v1", Kind: "ServiceCA"}
	gvkConstraints      = schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"}
)

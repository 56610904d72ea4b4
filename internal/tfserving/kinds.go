package tfserving

import "k8s.io/apimachinery/pkg/runtime/schema"

// The kinds that the controller renders or reads, in the versions it does so.
var (
	gvkSecret         = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	gvkConfigMap      = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	gvkService        = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	gvkPod            = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	gvkClaim          = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	gvkDeployment     = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	gvkAutoscaler     = schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
	gvkScaledObject   = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
	gvkBudget         = schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}
	gvkServiceMonitor = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"}
	gvkIngress        = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}
	gvkHTTPRoute      = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}
	gvkGRPCRoute      = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "GRPCRoute"}
	gvkConstraints    = schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"}
)

// scalers are the kinds of autoscalers, of which a Tfserv has one at most.
var scalers = []schema.GroupVersionKind{gvkAutoscaler, gvkScaledObject}

// routes are the kinds of the Gateway API's routes.
var routes = []schema.GroupVersionKind{gvkHTTPRoute, gvkGRPCRoute}

package v1alpha1

import keeper "mlkeeper.dev/api/keeper/v1alpha1"

// ExposureSpec says how clients outside of the cluster reach the servers.
type ExposureSpec struct {
	// ingress makes an Ingress to the REST API.
	// +optional
	Ingress *keeper.IngressSpec `json:"ingress,omitempty"`
	// httpRoute makes an HTTPRoute of the Gateway API to the REST API, where that API is served.
	// +optional
	HTTPRoute *keeper.GatewayRouteSpec `json:"httpRoute,omitempty"`
	// grpcRoute makes a GRPCRoute of the Gateway API to the gRPC API, where that API is served.
	// +optional
	GRPCRoute *keeper.GatewayRouteSpec `json:"grpcRoute,omitempty"`
}

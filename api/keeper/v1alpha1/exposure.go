package v1alpha1

// IngressSpec describes an Ingress.
type IngressSpec struct {
	// host is the DNS name under which the service is reached, such as app.example.com.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="host must be a DNS name in lower case, such as app.example.com"
	Host string `json:"host"`
	// ingressClassName is the IngressClass; without it the default one of the cluster applies.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	IngressClassName string `json:"ingressClassName,omitempty"`
	// tlsSecretName is a kubernetes.io/tls Secret of the namespace with the certificate of the host; without it the Ingress has no TLS.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	TLSSecretName string `json:"tlsSecretName,omitempty"`
}

// GatewayRouteSpec describes a route of the Gateway API, an HTTPRoute or a GRPCRoute.
type GatewayRouteSpec struct {
	// gateway is the Gateway that the route is attached to.
	// +required
	Gateway GatewayReference `json:"gateway"`
	// host is the DNS name under which the service is reached, such as app.example.com.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="host must be a DNS name in lower case, such as app.example.com"
	Host string `json:"host"`
}

// GatewayReference names a Gateway.
type GatewayReference struct {
	// name is the name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
	// namespace is the namespace of the Gateway, which must admit routes of this one; the default is the namespace of the resource.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	Namespace string `json:"namespace,omitempty"`
	// sectionName is the listener of the Gateway; the default is every one that admits the host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	SectionName string `json:"sectionName,omitempty"`
}

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// ServiceSpec holds what the Service has beside its type and ports.
type ServiceSpec struct {
	// annotations are those of the Service, such as what a cloud's load balancer is configured by. Those of mlkeeper.dev
	// are MLKeeper's own, and left out.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]string `json:"annotations,omitempty"`
	// loadBalancerClass is the class of the load balancer, with serviceType LoadBalancer. Kubernetes lets nobody change it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	LoadBalancerClass string `json:"loadBalancerClass,omitempty"`
	// loadBalancerSourceRanges are the networks that may reach the load balancer, with serviceType LoadBalancer.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	LoadBalancerSourceRanges []string `json:"loadBalancerSourceRanges,omitempty"`
	// externalTrafficPolicy is Cluster or Local, with serviceType NodePort or LoadBalancer; Kubernetes' default is Cluster.
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`
	// headless makes a second Service <name>-grpc without an address of its own, with the gRPC port, whose name resolves to the pods: a
	// client that holds gRPC connections reaches all of them by it, where the other Service would lead each connection to one pod.
	// +optional
	Headless bool `json:"headless,omitempty"`
}

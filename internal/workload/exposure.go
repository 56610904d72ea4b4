package workload

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// Ingress is the Ingress to a port of a Service. The owner of the custom resource says the host and the class and no annotation: some
// controllers take configuration from them with which rights could be gained that the owner does not have.
func Ingress(meta metav1.ObjectMeta, spec *keeper.IngressSpec, service, port string) *networkingv1.Ingress {
	out := &networkingv1.Ingress{
		ObjectMeta: meta,
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			Host: spec.Host,
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix),
				Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
					Name: service, Port: networkingv1.ServiceBackendPort{Name: port},
				}},
			}}}},
		}}},
	}
	if spec.IngressClassName != "" {
		out.Spec.IngressClassName = ptr.To(spec.IngressClassName)
	}
	if spec.TLSSecretName != "" {
		out.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{spec.Host}, SecretName: spec.TLSSecretName}}
	}
	return out
}

// HTTPRoute is the spec of the Gateway API's HTTPRoute to a port of a Service.
func HTTPRoute(spec *keeper.GatewayRouteSpec, service string, port int64) map[string]any {
	return route(spec, map[string]any{
		"matches":     []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/"}}},
		"backendRefs": backend(service, port),
	})
}

// GRPCRoute is the spec of the Gateway API's GRPCRoute to a port of a Service.
func GRPCRoute(spec *keeper.GatewayRouteSpec, service string, port int64) map[string]any {
	return route(spec, map[string]any{"backendRefs": backend(service, port)})
}

func backend(service string, port int64) []any {
	return []any{map[string]any{"group": "", "kind": "Service", "name": service, "port": port, "weight": int64(1)}}
}

// route is the spec of a route with one rule. What the API server fills in is declared, since the lists belong to one writer as a whole.
func route(spec *keeper.GatewayRouteSpec, rule map[string]any) map[string]any {
	parent := map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": spec.Gateway.Name}
	if spec.Gateway.Namespace != "" {
		parent["namespace"] = spec.Gateway.Namespace
	}
	if spec.Gateway.SectionName != "" {
		parent["sectionName"] = spec.Gateway.SectionName
	}
	return map[string]any{"parentRefs": []any{parent}, "hostnames": []any{spec.Host}, "rules": []any{rule}}
}

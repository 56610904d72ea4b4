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

// IngressURL is where the Ingress is reached.
func IngressURL(spec *keeper.IngressSpec) string {
	if spec.TLSSecretName != "" {
		return "https://" + spec.Host
	}
	return "http://" + spec.Host
}

// Split gives a second Service a share of the requests, or copies of them.
type Split struct {
	Service string
	// Percent is how many of a hundred requests it gets, 1 to 100.
	Percent int64
	// Mirror has it get copies, whose answers nobody gets.
	Mirror bool
	// Paths are those of which it gets a share, for a route by paths.
	Paths []string
}

// HTTPRoute is the spec of the Gateway API's HTTPRoute to a port of a Service, with a split, where there is one, of the same port.
func HTTPRoute(spec *keeper.GatewayRouteSpec, service string, port int64, split *Split) map[string]any {
	path := func(kind, value string) map[string]any {
		return map[string]any{"path": map[string]any{"type": kind, "value": value}}
	}
	all := map[string]any{"matches": []any{path("PathPrefix", "/")}, "backendRefs": []any{backend(service, port, 1)}}
	if split == nil {
		return route(spec, all)
	}
	var matches []any
	for _, p := range split.Paths {
		matches = append(matches, path("Exact", p))
	}
	shared := split.rule(service, port)
	shared["matches"] = matches
	return route(spec, shared, all)
}

// GRPCRoute is the spec of the Gateway API's GRPCRoute to a port of a Service, with a split, where there is one, of the same port. It
// does not look into the messages, so that all of them are split.
func GRPCRoute(spec *keeper.GatewayRouteSpec, service string, port int64, split *Split) map[string]any {
	if split != nil {
		return route(spec, split.rule(service, port))
	}
	return route(spec, map[string]any{"backendRefs": []any{backend(service, port, 1)}})
}

// rule is the rule of a route by which requests are split.
func (s *Split) rule(service string, port int64) map[string]any {
	if !s.Mirror {
		return map[string]any{"backendRefs": []any{backend(service, port, 100-s.Percent), backend(s.Service, port, s.Percent)}}
	}
	mirror := map[string]any{"backendRef": reference(s.Service, port)}
	if s.Percent < 100 {
		mirror["percent"] = s.Percent
	}
	return map[string]any{
		"filters":     []any{map[string]any{"type": "RequestMirror", "requestMirror": mirror}},
		"backendRefs": []any{backend(service, port, 1)},
	}
}

func reference(service string, port int64) map[string]any {
	return map[string]any{"group": "", "kind": "Service", "name": service, "port": port}
}

func backend(service string, port, weight int64) map[string]any {
	out := reference(service, port)
	out["weight"] = weight
	return out
}

// route is the spec of a route. What the API server fills in is declared, since the lists belong to one writer as a whole.
func route(spec *keeper.GatewayRouteSpec, rules ...any) map[string]any {
	parent := map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": spec.Gateway.Name}
	if spec.Gateway.Namespace != "" {
		parent["namespace"] = spec.Gateway.Namespace
	}
	if spec.Gateway.SectionName != "" {
		parent["sectionName"] = spec.Gateway.SectionName
	}
	return map[string]any{"parentRefs": []any{parent}, "hostnames": []any{spec.Host}, "rules": rules}
}

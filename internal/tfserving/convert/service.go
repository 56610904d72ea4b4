package convert

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

// other is an object of the input in the namespace of the one that is converted.
func (c *conversion) other(kind, name string) *unstructured.Unstructured {
	for _, u := range c.others {
		if u.GetKind() == kind && u.GetName() == name && u.GetNamespace() == c.out.Namespace {
			return u
		}
	}
	return nil
}

// beside converts the first object of the input that belongs to the Deployment, and says whether there is one. What a Tfserv has one of, it
// has no second of.
func (c *conversion) beside(
	what string, belongs func(*unstructured.Unstructured) bool, convert func(s *conversion, u *unstructured.Unstructured),
) bool {
	found := ""
	for _, u := range c.others {
		if u.GetNamespace() != c.out.Namespace || c.used[u] || !belongs(u) {
			continue
		}
		c.used[u] = true
		s := newConversion(c.result, u, c.options)
		if found != "" {
			s.warn("", "is not converted: a Tfserv has one %s, which is converted from %s", what, found)
			continue
		}
		found = s.object
		convert(s, u)
		for _, path := range s.left.paths() {
			s.warn(path, noCounterpart)
		}
		c.failed = c.failed || s.failed
	}
	return found != ""
}

// service converts the Service whose selector the pods match.
func (c *conversion) service(labels map[string]string) {
	c.out.Spec.ServiceType = corev1.ServiceTypeClusterIP
	found := c.beside("Service", func(u *unstructured.Unstructured) bool {
		selector, _, _ := unstructured.NestedStringMap(u.Object, "spec", "selector")
		return u.GetAPIVersion() == "v1" && u.GetKind() == "Service" && len(selector) > 0 && within(selector, labels)
	}, func(s *conversion, _ *unstructured.Unstructured) { c.oneService(s) })
	if !found {
		c.note("", "no Service of it is among the objects: that of the Tfserv is of type ClusterIP")
	}
}

// oneService converts a Service. That of the Tfserv has another name.
func (c *conversion) oneService(s *conversion) {
	s.left.drop("spec", "selector")
	if kind := s.text("spec", "type"); kind != "" {
		c.out.Spec.ServiceType = corev1.ServiceType(kind)
	}
	for i := range s.left.length("spec", "ports") {
		at := func(field string) []string { return []string{"spec", "ports", fmt.Sprint(i), field} }
		for _, field := range []string{"name", "targetPort", "protocol"} {
			s.left.drop(at(field)...)
		}
		if n, ok := s.number(at("port")...); ok && n != int64(*c.out.Spec.GrpcPort) && n != int64(*c.out.Spec.RestPort) {
			s.warn(join(at("port")), "%d is not converted: the new Service has the ports of the server, %d for REST and %d for gRPC", n,
				*c.out.Spec.RestPort, *c.out.Spec.GrpcPort)
		}
	}
	s.left.dropEqual("None", "spec", "sessionAffinity")
	s.left.dropEqual("Cluster", "spec", "internalTrafficPolicy")
	c.serviceSpec(s)
	// What the API server allocated.
	for _, field := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} {
		s.left.drop("spec", field)
	}
	s.note("", "the Service of the Tfserv is %s-service: clients have to call it by that name", c.out.Name)
	switch kind := c.out.Spec.ServiceType; kind {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
	default:
		s.warn("spec.type", "%s is not converted: a Tfserv's is of type ClusterIP", kind)
		c.out.Spec.ServiceType = corev1.ServiceTypeClusterIP
	}
}

// serviceSpec converts what a Service has beside its type and ports.
func (c *conversion) serviceSpec(s *conversion) {
	var out v1alpha1.ServiceSpec
	if v, ok := decode[map[string]string](s, "metadata", "annotations"); ok && len(*v) > 0 {
		out.Annotations = *v
	}
	out.LoadBalancerClass = s.text("spec", "loadBalancerClass")
	if v, ok := decode[[]string](s, "spec", "loadBalancerSourceRanges"); ok {
		out.LoadBalancerSourceRanges = *v
	}
	out.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicy(s.text("spec", "externalTrafficPolicy"))
	if ip, _ := s.left.peek("spec", "clusterIP"); ip == corev1.ClusterIPNone {
		out.Headless = true
		s.note("spec.clusterIP", "the Service without an address is %s-grpc, beside %s-service", c.out.Name, c.out.Name)
	}
	if !empty(&out) {
		c.out.Spec.Service = &out
	}
}

// within says that labels have all of a selector.
func within(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

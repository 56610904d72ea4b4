package tfserving

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// service renders the Service of the tutorial: the ports rest and grpc, in this order. What the API server allocates is
// not declared, so that it survives every update (defect 6); only where the number of a port changes, its nodePort is
// asked for again, since the API server finds it by that number.
func (r *renderer) service() {
	spec := ptr.Deref(r.cr.Spec.Service, v1alpha1.ServiceSpec{})
	out := &corev1.Service{
		ObjectMeta: r.meta(serviceName(r.cr)),
		Spec:       corev1.ServiceSpec{Ports: r.servicePorts(), Selector: podLabels(r.cr), Type: r.serviceType()},
	}
	out.Annotations = r.serviceAnnotations(spec.Annotations)
	if r.serviceType() == corev1.ServiceTypeLoadBalancer {
		out.Spec.LoadBalancerSourceRanges = spec.LoadBalancerSourceRanges
		if spec.LoadBalancerClass != "" {
			out.Spec.LoadBalancerClass = ptr.To(spec.LoadBalancerClass)
		}
	}
	if r.serviceType() != corev1.ServiceTypeClusterIP {
		out.Spec.ExternalTrafficPolicy = spec.ExternalTrafficPolicy
	}
	r.add(plan.Typed(gvkService, out))
	if spec.Headless {
		// With the port for REST too, the ServiceMonitor would find each pod twice.
		ports := []corev1.ServicePort{servicePort(grpcPortName, grpcPort(r.cr))}
		r.add(plan.Typed(gvkService, &corev1.Service{
			ObjectMeta: r.meta(headlessName(r.cr)),
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: ports, Selector: podLabels(r.cr)},
		}))
	}
}

// serviceAnnotations are those of the spec without MLKeeper's own, which say whose an object is and whether it is deleted.
func (r *renderer) serviceAnnotations(declared map[string]string) map[string]string {
	var out map[string]string
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if domain, _, _ := strings.Cut(name, "/"); domain == "mlkeeper.dev" || strings.HasSuffix(domain, ".mlkeeper.dev") {
			r.warn("spec.service.annotations: those of %s are left out, since they are MLKeeper's own", controller.Cut(domain, 64))
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = declared[name]
	}
	return out
}

// servicePorts are the ports of the Service, with those of the nodes only where it has such.
func (r *renderer) servicePorts() []corev1.ServicePort {
	out := []corev1.ServicePort{servicePort(restPortName, restPort(r.cr)), servicePort(grpcPortName, grpcPort(r.cr))}
	for i := range out {
		was, found := r.facts.Ports[out[i].Name]
		if found && was.Port != int64(out[i].Port) && r.serviceType() != corev1.ServiceTypeClusterIP {
			out[i].NodePort = int32(min(max(was.NodePort, 0), 65535)) //nolint:gosec // Bounded here.
		}
	}
	return out
}

func servicePort(name string, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(number), Protocol: corev1.ProtocolTCP}
}

func (r *renderer) serviceType() corev1.ServiceType {
	return cmp.Or(r.cr.Spec.ServiceType, corev1.ServiceTypeNodePort)
}

package clusterdns

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Zone finds the objects that answers are made of. Both functions return
// nothing where there is nothing.
type Zone struct {
	// Domain is the domain of the cluster, without a dot at its end.
	Domain string
	// Service returns a Service, or nil.
	Service func(namespace, name string) *corev1.Service
	// Slices returns the EndpointSlices of a Service.
	Slices func(namespace, service string) []*discoveryv1.EndpointSlice
}

// Answer is what is known about a name.
type Answer struct {
	// Exists is false for a name that the cluster does not have (NXDOMAIN).
	Exists bool
	// Addresses are all addresses of the name, of both families.
	Addresses []netip.Addr
	// Alias is the name that an ExternalName Service stands for.
	Alias string
}

// Lookup answers for a name, with or without the dot at its end.
func (z Zone) Lookup(name string) Answer {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	rest, inside := strings.CutSuffix(name, ".svc."+z.Domain)
	if !inside {
		// The domain itself and its branch of Services exist, though empty: a
		// resolver may ask for them before it asks for more.
		return Answer{Exists: name == z.Domain || name == "svc."+z.Domain}
	}
	labels := strings.Split(rest, ".")
	switch len(labels) {
	case 2:
		return z.service(labels[1], labels[0])
	case 3:
		return z.hostname(labels[2], labels[1], labels[0])
	default:
		return Answer{}
	}
}

// service answers for name.namespace.svc.
func (z Zone) service(namespace, name string) Answer {
	svc := z.Service(namespace, name)
	switch {
	case svc == nil:
		return Answer{}
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return Answer{Exists: true, Alias: svc.Spec.ExternalName}
	case svc.Spec.ClusterIP == corev1.ClusterIPNone:
		return Answer{Exists: true, Addresses: z.endpoints(svc, func(discoveryv1.Endpoint) bool { return true })}
	}
	out := Answer{Exists: true}
	for _, text := range svc.Spec.ClusterIPs {
		// An address that is not assigned yet does not parse.
		if addr, err := netip.ParseAddr(text); err == nil {
			out.Addresses = append(out.Addresses, addr)
		}
	}
	return out
}

// hostname answers for hostname.name.namespace.svc, a pod of a headless Service.
func (z Zone) hostname(namespace, name, hostname string) Answer {
	svc := z.Service(namespace, name)
	if svc == nil || svc.Spec.ClusterIP != corev1.ClusterIPNone {
		return Answer{}
	}
	addrs := z.endpoints(svc, func(e discoveryv1.Endpoint) bool {
		return e.Hostname != nil && strings.ToLower(*e.Hostname) == hostname
	})
	return Answer{Exists: len(addrs) > 0, Addresses: addrs}
}

// endpoints are the addresses of a headless Service: of the ready endpoints,
// unless the Service asks for all.
func (z Zone) endpoints(svc *corev1.Service, wanted func(discoveryv1.Endpoint) bool) []netip.Addr {
	var out []netip.Addr
	for _, slice := range z.Slices(svc.Namespace, svc.Name) {
		for _, e := range slice.Endpoints {
			// No value means that nobody knows, which counts as ready.
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			if !wanted(e) || (!ready && !svc.Spec.PublishNotReadyAddresses) {
				continue
			}
			for _, text := range e.Addresses {
				if addr, err := netip.ParseAddr(text); err == nil {
					out = append(out, addr)
				}
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

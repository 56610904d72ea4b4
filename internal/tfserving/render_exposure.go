package tfserving

import (
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/workload"
)

// restPortName and grpcPortName are the ports of the Service.
const restPortName, grpcPortName = "rest", "grpc"

// exposure renders what leads from outside of the cluster to the Service. Whether a controller admits it is not waited for: the servers
// serve without.
func (r *renderer) exposure() {
	service, split := serviceName(r.cr), r.split()
	if spec := r.cr.Spec.Ingress; spec != nil {
		r.add(plan.Typed(gvkIngress, workload.Ingress(r.meta(r.cr.Name), spec, service, restPortName)))
	} else if r.cr.Spec.HTTPRoute != nil && !r.facts.HTTPRoute || r.cr.Spec.GRPCRoute != nil && !r.facts.GRPCRoute {
		// The routes are left out, and cannot take the place of an Ingress.
		r.plan.KeepRecorded(r.cr.Status.Inventory.Entries, plan.Key{GroupKind: gvkIngress.GroupKind(), Namespace: r.cr.Namespace, Name: r.cr.Name})
	}
	if spec := r.cr.Spec.HTTPRoute; spec != nil {
		route := workload.HTTPRoute(spec, service, int64(restPort(r.cr)), split)
		r.add(plan.Foreign(gvkHTTPRoute, r.cr.Namespace, r.cr.Name, podLabels(r.cr), route))
	}
	if spec := r.cr.Spec.GRPCRoute; spec != nil {
		if r.tls() != nil {
			r.warn("spec.grpcRoute leads to a port with TLS (spec.server.tls), which a Gateway calls without unless a BackendTLSPolicy of yours "+
				"for the Service %s says otherwise", service)
		}
		route := workload.GRPCRoute(spec, service, int64(grpcPort(r.cr)), split)
		r.add(plan.Foreign(gvkGRPCRoute, r.cr.Namespace, r.cr.Name, podLabels(r.cr), route))
	}
}

package tfserving

import (
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/workload"
)

// restPortName is the port of the Service with the REST API.
const restPortName = "rest"

// exposure renders what leads from outside of the cluster to the Service. Whether a controller admits it is not waited for: the servers
// serve without.
func (r *renderer) exposure() {
	service := serviceName(r.cr)
	if spec := r.cr.Spec.Ingress; spec != nil {
		r.add(plan.Typed(gvkIngress, workload.Ingress(r.meta(r.cr.Name), spec, service, restPortName)))
	}
	if spec := r.cr.Spec.HTTPRoute; spec != nil {
		r.add(plan.Foreign(gvkHTTPRoute, r.cr.Namespace, r.cr.Name, podLabels(r.cr), workload.HTTPRoute(spec, service, int64(restPort(r.cr)))))
	}
	if spec := r.cr.Spec.GRPCRoute; spec != nil {
		r.add(plan.Foreign(gvkGRPCRoute, r.cr.Namespace, r.cr.Name, podLabels(r.cr), workload.GRPCRoute(spec, service, int64(grpcPort(r.cr)))))
	}
}

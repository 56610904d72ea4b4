package trustyai

import (
	corev1 "k8s.io/api/core/v1"

	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/workload"
)

// httpRoute renders the HTTPRoute of the Gateway API. For a Secured service a BackendTLSPolicy has the Gateway verify the proxy, which a Route
// does by itself.
func (r *scene) httpRoute() {
	spec := r.cr.Spec.HTTPRoute
	if spec == nil {
		return
	}
	if r.cr.Spec.Ingress == nil && !r.facts.Serves.HTTPRoute {
		// The HTTPRoute is left out, and cannot take the place of an Ingress.
		r.plan.KeepRecorded(r.cr.Status.Inventory.Entries, plan.Key{GroupKind: gvkIngress.GroupKind(), Namespace: r.cr.Namespace, Name: r.names.base})
	}
	service, port := r.names.base, int64(80)
	if r.secured {
		service, port = r.names.tlsService, 443
		r.backendTLS()
	}
	r.add(plan.Foreign(gvkHTTPRoute, r.cr.Namespace, r.names.base, r.labels(), workload.HTTPRoute(spec, service, port, nil)))
}

// backendTLS renders the policy by which a Gateway speaks TLS to the proxy, and the ConfigMap with the authority, which it reads from
// no other kind. Where the authority is not known, that of the system is trusted.
func (r *scene) backendTLS() {
	validation := map[string]any{"hostname": r.names.tlsService + "." + r.cr.Namespace + ".svc", "wellKnownCACertificates": "System"}
	hold := r.mistrusted()
	switch ca := r.facts.GatewayCA; {
	case ca != "":
		delete(validation, "wellKnownCACertificates")
		validation["caCertificateRefs"] = []any{map[string]any{"group": "", "kind": "ConfigMap", "name": r.names.gatewayCA}}
		bundle := plan.Typed(gvkConfigMap, &corev1.ConfigMap{
			ObjectMeta: r.meta(r.names.gatewayCA, r.labels()), Data: map[string]string{corev1.ServiceAccountRootCAKey: ca},
		})
		bundle.Hold = hold
		r.add(bundle)
	case hold != "":
		// The policy that waits may name it.
		r.plan.Keep = append(r.plan.Keep, plan.Key{GroupKind: gvkConfigMap.GroupKind(), Namespace: r.cr.Namespace, Name: r.names.gatewayCA})
	}
	o := plan.Foreign(gvkBackendTLSPolicy, r.cr.Namespace, r.names.base, r.labels(), map[string]any{
		"targetRefs": []any{map[string]any{"group": "", "kind": "Service", "name": r.names.tlsService}},
		"validation": validation,
	})
	o.Hold = hold
	r.add(o)
}

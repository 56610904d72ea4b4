package trustyai

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/scrape"
)

// metricsPath is where every generation serves its metrics.
const metricsPath = "/q/metrics"

// monitor renders the ServiceMonitor: the one of TrustyAI ADR 3, or upstream's local one
// (trustyai-service-operator HEAD 11c335b); upstream's central one is not made, since a namespace's services are
// scraped by their own (defect 15). Where the spec of it cannot be used, none is declared, and one that exists stays as it is.
func (r *scene) monitor() {
	labels := map[string]string{"modelmesh-service": "modelmesh-serving"}
	endpoint, ok := r.defaultEndpoint()
	if !ok {
		return
	}
	spec := map[string]any{"endpoints": []any{endpoint}}
	if ADRShape(r.cr) {
		spec["selector"] = map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": adrBase}}
	} else {
		spec["selector"] = map[string]any{"matchLabels": map[string]any{
			"app.kubernetes.io/part-of": "trustyai", metricsLabel: labelValue(r.cr.Name),
		}}
		spec["namespaceSelector"] = map[string]any{"matchNames": []any{r.cr.Namespace}}
	}
	o := plan.Foreign(gvkServiceMonitor, r.cr.Namespace, r.names.serviceMonitor, labels, spec)
	if monitoring := r.cr.Spec.ServiceMonitoring; monitoring != nil && monitoring.Ref != nil && len(monitoring.Ref.Raw) > 0 {
		ref, problem := readRef(monitoring.Ref.Raw, endpoint["interval"].(string))
		if problem != nil {
			r.plan.Problems = append(r.plan.Problems, *problem)
			return
		}
		ref.applyTo(o.Desired, endpoint)
		if unused := ref.unusedFields(); unused != "" {
			r.warn("not used: %s; the ServiceMonitor is %s/%s", unused, r.cr.Namespace, r.names.serviceMonitor)
		}
	}
	if r.secured {
		o.Hold = r.mistrusted()
	}
	r.add(o)
}

// trusted says that the service is shown what the ADR shows it: Prometheus' token, which nothing needs, and labels of metrics that win over
// Prometheus' own, which could name another namespace. An image that the owner of the custom resource chose gets neither, nor do adopted
// pods, whose image somebody else chose. That only our pods are scraped is never certain, since whoever may create pods or Services in the
// namespace can give them the labels of ours: an administrator who does not trust them says so, and upstream's shape has neither.
func (r *scene) trusted() bool {
	own := r.own()
	if d := r.facts.Deployment; d != nil {
		own = own && d.Serves != nil && d.Serves.Trusted
	}
	return ADRShape(r.cr) && own && !r.settings.UntrustedMetrics
}

// own says that the image of the pods of the spec is the administrator's.
func (r *scene) own() bool {
	_, adopted := r.adoptedPods()
	return r.cr.Spec.Image == "" && !adopted
}

// defaultEndpoint is the endpoint before serviceMonitoring.ref is applied to it; ok is false when the interval cannot be used.
func (r *scene) defaultEndpoint() (endpoint map[string]any, ok bool) {
	names, keep := []string{"trustyai_spd", "trustyai_dir"}, "trustyai_.*"
	interval := "4s"
	if m := r.cr.Spec.ServiceMonitoring; m != nil {
		if m.Interval != "" {
			if err := scrape.Interval(m.Interval); err != nil {
				r.problem(plan.Terminal, reasonInvalidMonitoring, "spec.serviceMonitoring.interval", quote(m.Interval), err.Error(), "set 1s or more")
				return nil, false
			}
			interval = m.Interval
		}
		if len(m.MetricNames) > 0 {
			names = m.MetricNames
			quoted := make([]string, len(names))
			for i, name := range names {
				quoted[i] = regexp.QuoteMeta(name)
			}
			keep = strings.Join(quoted, "|")
		}
	}
	var match []any
	for _, name := range names {
		match = append(match, fmt.Sprintf("{__name__= %q}", name))
	}
	endpoint = map[string]any{
		"interval": interval, "path": metricsPath, "honorLabels": r.trusted(), "scheme": "http",
		"params": map[string]any{"match[]": match},
		"metricRelabelings": []any{map[string]any{
			"action": "keep", "regex": keep, "sourceLabels": []any{"__name__"},
		}},
	}
	if ADRShape(r.cr) {
		endpoint["honorTimestamps"] = true
		endpoint["scrapeTimeout"] = "3s"
		// OpenShift's Prometheus for user workloads drops a ServiceMonitor that names a file (arbitraryFSAccessThroughSMs).
		if r.trusted() && !r.secured && !r.facts.Serves.Constraints {
			endpoint["bearerTokenFile"] = "/var/run/secrets/kubernetes.io/serviceaccount/token"
		}
		fitTimeout(endpoint)
	}
	switch {
	case r.secured:
		endpoint["port"], endpoint["scheme"], endpoint["tlsConfig"] = "https", "https", r.scrapeTLS()
	case ADRShape(r.cr):
		endpoint["targetPort"] = int64(r.reached.http)
	default:
		endpoint["port"] = "http"
	}
	return endpoint, true
}

// scrapeTLS is how Prometheus verifies the service: by the authority of its certificate where that is known, else by those
// that Prometheus trusts anyway.
func (r *scene) scrapeTLS() map[string]any {
	out := map[string]any{"serverName": r.names.base + "." + r.cr.Namespace + ".svc"}
	switch {
	case r.facts.Certs.Source == CertsServiceCA:
		// OpenShift keeps it in every namespace.
		out["ca"] = map[string]any{"configMap": map[string]any{"name": serviceCABundle, "key": serviceCAKey}}
	case r.facts.Certs.CA != "":
		out["ca"] = map[string]any{"secret": map[string]any{"name": r.names.internalSecret, "key": corev1.ServiceAccountRootCAKey}}
	}
	return out
}

// fitTimeout lowers a scrape timeout that is longer than the interval, which Prometheus refuses.
func fitTimeout(endpoint map[string]any) {
	interval, _ := endpoint["interval"].(string)
	timeout, _ := endpoint["scrapeTimeout"].(string)
	if timeout != "" && scrape.Timeout(timeout, interval) != nil {
		endpoint["scrapeTimeout"] = interval
	}
}

// sortedKeys are the keys of a map in order, so that the same input meets the same problem first.
func sortedKeys[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

package trustyai

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"mlkeeper.dev/internal/engine/plan"
)

// refField is the path of the partial ServiceMonitor.
const refField = "spec.serviceMonitoring.ref"

// monitor renders the ServiceMonitor: the one of TrustyAI ADR 3, or upstream's local one
// (trustyai-service-operator HEAD 11c335b); upstream's central one is not made, since a namespace's services are
// scraped by their own (defect 15).
func (r *scene) monitor() {
	labels := map[string]string{"modelmesh-service": "modelmesh-serving"}
	endpoint := r.defaultEndpoint()
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
		partial, problem := decodeRef(monitoring.Ref.Raw)
		if problem != nil {
			r.plan.Problems = append(r.plan.Problems, *problem)
		} else if problem := r.mergeMonitor(o.Desired, partial); problem != nil {
			// The default stands in for what cannot be merged, so that metrics are scraped meanwhile.
			r.plan.Problems = append(r.plan.Problems, *problem)
			o = plan.Foreign(gvkServiceMonitor, r.cr.Namespace, r.names.serviceMonitor, labels, spec)
		}
	}
	r.add(o)
}

// defaultEndpoint is the endpoint before serviceMonitoring.ref is merged into it.
func (r *scene) defaultEndpoint() map[string]any {
	names, keep := []string{"trustyai_spd", "trustyai_dir"}, "trustyai_.*"
	interval := "4s"
	if m := r.cr.Spec.ServiceMonitoring; m != nil {
		if m.Interval != "" {
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
	endpoint := map[string]any{
		"interval": interval, "path": "/q/metrics", "honorLabels": true, "scheme": "http",
		"params": map[string]any{"match[]": match},
		"metricRelabelings": []any{map[string]any{
			"action": "keep", "regex": keep, "sourceLabels": []any{"__name__"},
		}},
	}
	if ADRShape(r.cr) {
		endpoint["honorTimestamps"] = true
		endpoint["scrapeTimeout"] = "3s"
		endpoint["bearerTokenFile"] = "/var/run/secrets/kubernetes.io/serviceaccount/token"
		endpoint["targetPort"] = int64(8080)
		fitTimeout(endpoint)
	} else {
		endpoint["port"] = "http"
	}
	return endpoint
}

// fitTimeout lowers a scrape timeout that is longer than the interval, which Prometheus refuses.
func fitTimeout(endpoint map[string]any) {
	interval, _ := endpoint["interval"].(string)
	timeout, _ := endpoint["scrapeTimeout"].(string)
	i, errInterval := time.ParseDuration(interval)
	t, errTimeout := time.ParseDuration(timeout)
	if errInterval == nil && errTimeout == nil && i > 0 && t > i {
		endpoint["scrapeTimeout"] = interval
	}
}

func refProblem(field, value, message string) *plan.Problem {
	return &plan.Problem{
		Class: plan.Terminal, Reason: "InvalidServiceMonitoring", Field: field, Value: value, Message: message,
		Remedy: "write a partial ServiceMonitor of monitoring.coreos.com/v1, such as {spec: {endpoints: [{interval: 15s}]}}",
	}
}

// decodeRef decodes the partial ServiceMonitor.
func decodeRef(raw []byte) (map[string]any, *plan.Problem) {
	var partial map[string]any
	if err := utiljson.Unmarshal(raw, &partial); err != nil || partial == nil {
		return nil, refProblem(refField, "", "is not an object")
	}
	for key, want := range map[string]string{"apiVersion": gvkServiceMonitor.GroupVersion().String(), "kind": gvkServiceMonitor.Kind} {
		if got, found := partial[key]; found && got != want {
			return nil, refProblem(refField+"."+key, quote(fmt.Sprint(got)), "is not "+want)
		}
	}
	return partial, nil
}

// mergeMonitor merges the partial ServiceMonitor into the default: what it gives overrides, the rest stays
// (TrustyAI ADR 3). Its first endpoint is merged into the default one; the others are added.
func (r *scene) mergeMonitor(into *unstructured.Unstructured, partial map[string]any) *plan.Problem {
	if problem := r.mergeMetadata(into, partial["metadata"]); problem != nil {
		return problem
	}
	given, found := partial["spec"]
	if !found || given == nil {
		return nil
	}
	spec, ok := given.(map[string]any)
	if !ok {
		return refProblem(refField+".spec", "", "is not an object")
	}
	merged := into.Object["spec"].(map[string]any)
	endpoints := slices.Clone(merged["endpoints"].([]any))
	if list, found := spec["endpoints"]; found && list != nil {
		items, ok := list.([]any)
		if !ok {
			return refProblem(refField+".spec.endpoints", "", "is not a list")
		}
		for i, item := range items {
			m, ok := item.(map[string]any)
			if !ok {
				return refProblem(fmt.Sprintf("%s.spec.endpoints[%d]", refField, i), "", "is not an object")
			}
			if i == 0 {
				endpoints[0] = mergeEndpoint(endpoints[0].(map[string]any), m)
			} else {
				endpoints = append(endpoints, mergeMaps(map[string]any{}, m))
			}
		}
	}
	rest := make(map[string]any, len(spec))
	for key, item := range spec {
		if key != "endpoints" {
			rest[key] = item
		}
	}
	merged = mergeMaps(merged, rest)
	merged["endpoints"] = endpoints
	into.Object["spec"] = merged
	return nil
}

// mergeMetadata merges labels and annotations. The name and the namespace are not the user's to choose: they are
// fixed, and anything else leaves a warning.
func (r *scene) mergeMetadata(into *unstructured.Unstructured, given any) *plan.Problem {
	if given == nil {
		return nil
	}
	meta, ok := given.(map[string]any)
	if !ok {
		return refProblem(refField+".metadata", "", "is not an object")
	}
	labels, problem := words(meta["labels"], refField+".metadata.labels", validation.IsValidLabelValue)
	if problem != nil {
		return problem
	}
	annotations, problem := words(meta["annotations"], refField+".metadata.annotations", nil)
	if problem != nil {
		return problem
	}
	all := into.GetLabels()
	for key, text := range labels {
		all[key] = text
	}
	into.SetLabels(all)
	if len(annotations) > 0 {
		into.SetAnnotations(annotations)
	}
	for key, item := range meta {
		fixed := map[string]string{"name": into.GetName(), "namespace": into.GetNamespace()}[key]
		if key != "labels" && key != "annotations" && item != nil && item != fixed {
			r.warn("%s.metadata.%s is not used: the ServiceMonitor is %s/%s", refField, quoteKey(key), into.GetNamespace(), into.GetName())
		}
	}
	return nil
}

// quoteKey prints a key of user input, on one line and not too long.
func quoteKey(key string) string { return strings.Trim(quote(key), `"`) }

// words decodes a map of strings with legal keys.
func words(given any, field string, check func(string) []string) (map[string]string, *plan.Problem) {
	if given == nil {
		return nil, nil
	}
	m, ok := given.(map[string]any)
	if !ok {
		return nil, refProblem(field, "", "is not a map of strings")
	}
	out := make(map[string]string, len(m))
	for _, key := range sortedKeys(m) {
		text, ok := m[key].(string)
		switch {
		case !ok:
			return nil, refProblem(field+"."+quoteKey(key), "", "is not a string")
		case len(validation.IsQualifiedName(key)) > 0:
			return nil, refProblem(field, quote(key), "is not a legal key")
		case check != nil && len(check(text)) > 0:
			return nil, refProblem(field+"."+quoteKey(key), quote(text), "is not a legal value")
		}
		out[key] = text
	}
	return out, nil
}

// mergeEndpoint merges an endpoint field by field. A field takes out the default of those that exclude it, since
// Prometheus refuses an endpoint with both.
func mergeEndpoint(base, over map[string]any) map[string]any {
	exclusive := [][]string{{"port", "targetPort"}, {"targetPort", "port"}}
	for _, auth := range []string{"authorization", "basicAuth", "oauth2", "bearerTokenSecret"} {
		exclusive = append(exclusive, []string{auth, "bearerTokenFile"})
	}
	out := mergeMaps(base, over)
	for _, pair := range exclusive {
		if over[pair[0]] != nil && over[pair[1]] == nil {
			delete(out, pair[1])
		}
	}
	if over["scrapeTimeout"] == nil {
		fitTimeout(out)
	}
	return out
}

// mergeMaps returns base with over merged into it as a JSON merge patch (RFC 7386): maps are merged, null removes, and
// anything else, lists included, replaces.
func mergeMaps(base, over map[string]any) map[string]any {
	out := make(map[string]any, len(base)+len(over))
	for key, item := range base {
		out[key] = item
	}
	for key, item := range over {
		m, isMap := item.(map[string]any)
		switch {
		case item == nil:
			delete(out, key)
		case isMap:
			below, _ := out[key].(map[string]any)
			out[key] = mergeMaps(below, m)
		default:
			out[key] = item
		}
	}
	return out
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

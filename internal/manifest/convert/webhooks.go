package convert

import "strings"

// webhooks fills in what v1beta1 assumed and v1 asks for or assumes otherwise: without a word a failing webhook was
// passed over, rules matched their own API version only, a call could take 30 seconds and was made as v1beta1.
//
// v1 wants to be told that a call has no side effects, or none in a dry run. One that said nothing was never called in
// dry runs; it will be now.
func webhooks(o *object, _ string) error {
	var changed []string
	for _, w := range mapsAt(o.content, "webhooks") {
		fill(w, "failurePolicy", "Ignore")
		fill(w, "matchPolicy", "Exact")
		fill(w, "timeoutSeconds", int64(30))
		if versions, _ := w["admissionReviewVersions"].([]any); len(versions) == 0 {
			w["admissionReviewVersions"] = []any{"v1beta1"}
		}
		if effects := w["sideEffects"]; effects != "None" && effects != "NoneOnDryRun" {
			name, _ := w["name"].(string)
			w["sideEffects"] = "None"
			changed = append(changed, name)
		}
	}
	if len(changed) > 0 {
		o.warn("sideEffects of %s was not None, which v1 asks for, and is now: dry runs call these webhooks too",
			strings.Join(changed, ", "))
	}
	return nil
}

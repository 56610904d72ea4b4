package convert

// disruptionBudget drops an empty selector: in v1beta1 it selected no pod, in v1 it selects every pod of the namespace.
// No selector selects none in both.
func disruptionBudget(o *object, _ string) error {
	spec := mapAt(o.content, "spec")
	selector, isMap := spec["selector"].(map[string]any)
	if !isMap || !emptySelector(selector) {
		return nil
	}
	delete(spec, "selector")
	o.warn("its empty selector is removed: it protected no pod in v1beta1 and would protect all of them in v1. " +
		"Give it a selector, or remove the object")
	return nil
}

// emptySelector says that a label selector asks for nothing.
func emptySelector(selector map[string]any) bool {
	labels, _ := selector["matchLabels"].(map[string]any)
	expressions, _ := selector["matchExpressions"].([]any)
	return len(labels) == 0 && len(expressions) == 0
}

package convert

import "k8s.io/apimachinery/pkg/runtime"

// workload fills in the selector, which apps/v1 asks for and the versions before it took from the labels of the
// template, and drops the fields that they had and apps/v1 has not: rollbackTo was a command to the controller,
// templateGeneration its counter.
func workload(o *object, _ string) error {
	spec := mapAt(o.content, "spec")
	if spec == nil {
		return nil
	}
	delete(spec, "rollbackTo")
	delete(spec, "templateGeneration")
	selector, _ := spec["selector"].(map[string]any)
	labels := mapAt(spec, "template", "metadata", "labels")
	if emptySelector(selector) && len(labels) > 0 {
		spec["selector"] = map[string]any{"matchLabels": runtime.DeepCopyJSON(labels)}
	}
	return nil
}

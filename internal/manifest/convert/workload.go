package convert

import "k8s.io/apimachinery/pkg/runtime"

// oneByOne is what a Deployment of extensions/v1beta1 assumed of its rolling update; apps/v1 assumes a quarter of the replicas.
const oneByOne = int64(1)

// onDelete is a strategy that replaces a pod only when somebody deletes it.
const onDelete = "OnDelete"

// deploymentOfExtensions is a Deployment whose rolling update replaces one pod after the other.
func deploymentOfExtensions(o *object, _ string) error {
	spec := workload(o)
	if spec == nil {
		return nil
	}
	strategy := childAt(spec, "strategy")
	fill(strategy, "type", "RollingUpdate")
	if strategy["type"] == "RollingUpdate" {
		update := childAt(strategy, "rollingUpdate")
		fill(update, "maxUnavailable", oneByOne)
		fill(update, "maxSurge", oneByOne)
	}
	return nil
}

// updatedOnDelete is a workload whose version v1beta1, unlike apps/v1, left its pods alone when its template changed.
func updatedOnDelete(o *object, old string) error {
	spec := workload(o)
	if spec == nil || old != "v1beta1" {
		return nil
	}
	if strategy := childAt(spec, "updateStrategy"); absent(strategy, "type") {
		strategy["type"] = onDelete
		o.warn("its pods are replaced only when they are deleted, as %s assumed: set spec.updateStrategy.type to RollingUpdate "+
			"to have a changed template replace them", old)
	}
	return nil
}

// sameWorkload is a workload whose versions mean the same.
func sameWorkload(o *object, _ string) error {
	workload(o)
	return nil
}

// workload fills in the selector, which apps/v1 asks for and the versions before it took from the labels of the
// template, and drops the fields that they had and apps/v1 has not: rollbackTo was a command to the controller,
// templateGeneration its counter. It returns the spec; nil where there is none.
func workload(o *object) map[string]any {
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
	return spec
}

package convert

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// autoscalers is the kind of an autoscaler, in whatever version.
var autoscalers = schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}

// retarget points the references of an autoscaler to the API that replaced the one that they name. Its controller looks the target
// up by group and kind: an autoscaler of a Deployment of extensions/v1beta1 would never scale it, without being unhealthy.
func (c Converter) retarget(u *unstructured.Unstructured) *unstructured.Unstructured {
	if u.GroupVersionKind().GroupKind() != autoscalers || len(c.outdated(u.Object)) == 0 {
		return u
	}
	out := u.DeepCopy()
	for _, ref := range c.outdated(out.Object) {
		ref["apiVersion"] = c.ruleOf(kindOf(ref)).to.String()
	}
	return out
}

// outdated are the references of an autoscaler to a removed API that another one replaced.
func (c Converter) outdated(content map[string]any) []map[string]any {
	spec := mapAt(content, "spec")
	refs := []map[string]any{mapAt(spec, "scaleTargetRef")}
	for _, metric := range mapsAt(spec, "metrics") {
		refs = append(refs, mapAt(metric, "object", "describedObject"))
	}
	var out []map[string]any
	for _, ref := range refs {
		if gvk := kindOf(ref); superseded(gvk) && !c.Served(gvk) && c.ruleOf(gvk) != nil {
			out = append(out, ref)
		}
	}
	return out
}

// kindOf is the kind that a reference names.
func kindOf(ref map[string]any) schema.GroupVersionKind {
	apiVersion, _ := ref["apiVersion"].(string)
	kind, _ := ref["kind"].(string)
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// autoscaler puts the metrics of v2beta1 into the shape of v2, in which every metric has an identifier and a target.
func autoscaler(o *object, _ string) error {
	for i, metric := range mapsAt(mapAt(o.content, "spec"), "metrics") {
		kind, _ := metric["type"].(string)
		var err error
		switch kind {
		case "Resource":
			err = resourceMetric(metric, "resource")
		case "ContainerResource":
			err = resourceMetric(metric, "containerResource")
		case "Pods":
			err = podsMetric(metric)
		case "Object":
			err = objectMetric(metric)
		case "External":
			err = externalMetric(metric)
		default:
			err = fmt.Errorf("the type of metric %d is not known: correct spec.metrics", i+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// source is the part of a metric that its type names.
func source(metric map[string]any, name string) (map[string]any, error) {
	m := mapAt(metric, name)
	if m == nil {
		return nil, fmt.Errorf("a metric of spec.metrics has no field %s, which its type asks for: correct it", name)
	}
	return m, nil
}

// targets puts the targets of v2beta1 into one, by the first of these fields that is there. Each is the name of an old
// field, of the type of target that it means, and of the new field.
func targets(m map[string]any, fields ...[3]string) map[string]any {
	target := map[string]any{}
	for _, f := range fields {
		if len(target) == 0 && !absent(m, f[0]) {
			target["type"] = f[1]
			target[f[2]] = m[f[0]]
		}
		delete(m, f[0])
	}
	return target
}

var (
	utilization  = [3]string{"targetAverageUtilization", "Utilization", "averageUtilization"}
	averageValue = [3]string{"targetAverageValue", "AverageValue", "averageValue"}
	value        = [3]string{"targetValue", "Value", "value"}
	// average is how the metric of an object called its average.
	average = [3]string{"averageValue", "AverageValue", "averageValue"}
)

func resourceMetric(metric map[string]any, name string) error {
	m, err := source(metric, name)
	if err == nil {
		m["target"] = targets(m, utilization, averageValue)
	}
	return err
}

// identify moves the name and the selector of a metric into its identifier.
func identify(m map[string]any, selector string) {
	identifier := map[string]any{}
	move(m, "metricName", identifier, "name")
	move(m, selector, identifier, "selector")
	m["metric"] = identifier
}

func podsMetric(metric map[string]any) error {
	m, err := source(metric, "pods")
	if err == nil {
		identify(m, "selector")
		m["target"] = targets(m, averageValue)
	}
	return err
}

func objectMetric(metric map[string]any) error {
	m, err := source(metric, "object")
	if err == nil {
		identify(m, "selector")
		move(m, "target", m, "describedObject")
		// An average counts where both are there: targetValue could not be left out in v2beta1.
		m["target"] = targets(m, average, value)
	}
	return err
}

func externalMetric(metric map[string]any) error {
	m, err := source(metric, "external")
	if err == nil {
		identify(m, "metricSelector")
		m["target"] = targets(m, value, averageValue)
	}
	return err
}

package kustomize

import (
	"bytes"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// hiddenPrefix is put before the name of a field of spec while kustomize works on it.
const hiddenPrefix = "mlkeeper-hidden-"

// hideFields hides two fields from the image transformer, which ends with an error where it finds another shape than that
// of a workload:
//
// spec.template of a custom resource that is a string (the instance of an Istio adapter names its template there), since
// it looks for spec.template.spec.containers in every kind;
//
// spec.volumes of a PodSecurityPolicy, a list of kinds of volumes, since it looks for images among the volumes.
//
// kustomize v3.2.0 passed over both. The result is nil when nothing has to be hidden.
func hideFields(docs []*yaml.Node) ([]byte, error) {
	hidden := false
	for _, doc := range docs {
		if len(doc.Content) == 1 && hideFieldsOf(doc.Content[0]) {
			hidden = true
		}
	}
	if !hidden {
		return nil, nil
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	for _, doc := range docs {
		unfold(doc)
		if err := encoder.Encode(doc); err != nil {
			return nil, err
		}
	}
	err := encoder.Close()
	return out.Bytes(), err
}

func hideFieldsOf(object *yaml.Node) bool {
	_, spec := field(object, "spec")
	_, kind := field(object, "kind")
	if spec == nil || kind == nil {
		return false
	}
	hidden := false
	key, template := field(spec, "template")
	if template != nil && template.Kind == yaml.ScalarNode && template.Tag == "!!str" {
		key.Value, hidden = hiddenPrefix+key.Value, true
	}
	if key, volumes := field(spec, "volumes"); volumes != nil && kind.Value == "PodSecurityPolicy" {
		key.Value, hidden = hiddenPrefix+key.Value, true
	}
	return hidden
}

// restoreFields gives the hidden fields their names back.
func restoreFields(u *unstructured.Unstructured) {
	spec, ok := u.Object["spec"].(map[string]any)
	if !ok {
		return
	}
	for _, name := range []string{"template", "volumes"} {
		if value, hidden := spec[hiddenPrefix+name]; hidden {
			delete(spec, hiddenPrefix+name)
			spec[name] = value
		}
	}
}

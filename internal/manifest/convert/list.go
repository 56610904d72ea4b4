package convert

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ConvertAll converts objects, and tells of those that are left out: one that cannot be converted goes with a warning, since
// the others do not depend on it more than on any that waits.
func (c Converter) ConvertAll(objects []*unstructured.Unstructured) (out []*unstructured.Unstructured, warnings []string) {
	for _, o := range objects {
		converted, told, err := c.Convert(o)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("%s %s is left out: %v", o.GetKind(), o.GetName(), err))
			continue
		}
		warnings = append(warnings, told...)
		if converted != nil {
			out = append(out, converted)
		}
	}
	return out, warnings
}

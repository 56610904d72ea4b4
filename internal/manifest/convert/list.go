package convert

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/manifest/bounded"
)

// ConvertAll converts objects. One that cannot be converted fails them all: without it they would be something else than was
// declared, and the object itself, where it exists, would count as no longer declared.
func (c Converter) ConvertAll(objects []*unstructured.Unstructured) (out []*unstructured.Unstructured, warnings bounded.Warnings, err error) {
	failed := 0
	for _, o := range objects {
		converted, told, wrong := c.Convert(o)
		if wrong != nil {
			if failed++; failed == 1 {
				err = wrong
			}
			continue
		}
		warnings.Add(told...)
		if converted != nil {
			out = append(out, converted)
		}
	}
	if failed > 1 {
		err = fmt.Errorf("%w (and %d objects more)", err, failed-1)
	}
	if err != nil {
		return nil, bounded.Warnings{}, err
	}
	return out, warnings, nil
}

package kustomize

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"path"
	"sort"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	kyaml "sigs.k8s.io/yaml"
)

// FieldError says which of the Adjustments cannot be applied.
type FieldError struct{ Field, Value, Why string }

// Error implements error.
func (e *FieldError) Error() string { return fmt.Sprintf("%s (%s): %s", e.Field, e.Value, e.Why) }

// Adjust applies patches to what something else than kustomize has rendered, and then sets metadata, as the post-renderers of Flux do
// (fluxcd/helm-controller, internal/postrender/build.go). The objects stay in their order. The error is a FieldError.
func (a *Adjustments) Adjust(objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if len(a.Patches) > 0 {
		out, err := patched(objects, a.Patches)
		if err != nil {
			return nil, a.wrongPatch(objects, err)
		}
		objects = out
	}
	out, err := a.finish(objects)
	if err != nil {
		return nil, &FieldError{Field: "commonMetadata", Why: err.Error()}
	}
	return out, nil
}

// wrongPatch is the error of the first patch that cannot be applied after those before it; why is that of all patches together.
func (a *Adjustments) wrongPatch(objects []*unstructured.Unstructured, why error) error {
	n := sort.Search(len(a.Patches), func(n int) bool {
		_, err := patched(objects, a.Patches[:n])
		if err != nil {
			why = err
		}
		return err != nil
	})
	if n == 0 {
		return &FieldError{Field: "patches", Why: "what is rendered cannot be patched, whatever the patch is: " + why.Error()}
	}
	return &FieldError{Field: fmt.Sprintf("patches[%d]", n-1), Value: truncate(a.Patches[n-1].Patch), Why: why.Error()}
}

// objectsFile is the file of the objects, beside the kustomization that is generated for them.
const objectsFile = "objects.yaml"

// patched are objects as a kustomization with patches has them that has them as its resources.
func patched(objects []*unstructured.Unstructured, patches []Patch) (out []*unstructured.Unstructured, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("kustomize gave up on it (%v)", cause)
		}
	}()
	k := types.Kustomization{
		TypeMeta:  types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		Resources: []string{objectsFile},
	}
	t := newTree(embed.FS{}, ".")
	if err := (&Adjustments{Patches: patches}).into(&k, t, ""); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	for _, o := range objects {
		if err := encoder.Encode(o.Object); err != nil {
			return nil, err
		}
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	kustomization, err := kyaml.Marshal(k)
	if err != nil {
		return nil, err
	}
	t.written[path.Join(generated, objectsFile)], t.written[path.Join(generated, kustomizationFile)] = text.Bytes(), kustomization
	result, err := build(t, generated, krusty.ReorderOptionNone)
	if err != nil {
		return nil, errors.New(repositoryPaths(err))
	}
	return collect(result)
}

package kustomize

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
)

// namespaceKind finds what may be a Namespace object, in YAML or JSON. It may find too much, which changes nothing.
var namespaceKind = regexp.MustCompile(`kind["']?\s*:\s*["']?Namespace\b`)

// defaultSpecs is where kustomize puts the namespace besides metadata.namespace and the subjects of bindings, without
// the name of a Namespace.
var defaultSpecs = []types.FieldSpec{
	{
		Gvk:  resid.Gvk{Group: "apiregistration.k8s.io", Kind: "APIService"},
		Path: "spec/service/namespace", CreateIfNotPresent: true,
	},
	{
		Gvk:  resid.Gvk{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
		Path: "spec/conversion/webhook/clientConfig/service/namespace",
	},
}

// keepNamespaces replaces the field namespace of a kustomization that has Namespaces below it by a transformer that does
// the same but for renaming them. Renamed, they would all become the KfDef's own namespace, which its application then
// owns and takes along when it is pruned; kustomize v3.2.0 left them alone. A Component works on the objects of whoever
// includes it, so that its own folder does not tell.
//
// The transformer runs after those of the other fields of the kustomization, not among them. That is the same unless a
// JSON patch beside it sets a namespace, which is why kustomizations without a Namespace keep the field.
func keepNamespaces(v *visit) {
	if v.k.Namespace == "" || (!v.namespaces && v.k.Kind != types.ComponentKind) {
		return
	}
	specs := slices.Clone(defaultSpecs)
	for _, s := range v.specs {
		if s.Path != types.MetadataNamePath {
			specs = append(specs, s)
		}
	}
	transformer, err := json.Marshal(map[string]any{
		"apiVersion": "builtin",
		"kind":       "NamespaceTransformer",
		"metadata":   map[string]any{"name": "namespace", "namespace": v.k.Namespace},
		"fieldSpecs": specs,
	})
	if err != nil {
		return
	}
	v.k.Namespace = ""
	v.k.Transformers = append([]string{string(transformer)}, v.k.Transformers...)
	v.changed = true
}

// maxNamespaces bounds the Namespaces below a prefix: each costs a look at every object.
const maxNamespaces = 64

// affixNamespaces gives the Namespaces below a kustomization its namePrefix and nameSuffix, as kustomize v3.2.0 did and today's does
// not. Patches above know a Namespace by that name only, such as those that remove that of Kubeflow 1.3's notebook-controller.
func affixNamespaces(v *visit) error {
	if v.k.NamePrefix == "" && v.k.NameSuffix == "" || len(v.namespaceNames) == 0 {
		return nil
	}
	if len(v.namespaceNames) > maxNamespaces {
		return fmt.Errorf("namePrefix and nameSuffix change the names of more than %d Namespaces: split it", maxNamespaces)
	}
	// The longest first, since the new name of one may be the present one of another.
	names := slices.Sorted(maps.Keys(v.namespaceNames))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	clear(v.namespaceNames)
	for _, name := range names {
		affixed := v.k.NamePrefix + name + v.k.NameSuffix
		v.namespaceNames[affixed] = true
		patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/metadata/name", "value": affixed}})
		if err != nil {
			return err
		}
		transformer, err := json.Marshal(map[string]any{
			"apiVersion": "builtin",
			"kind":       "PatchTransformer",
			"metadata":   map[string]any{"name": "mlkeeper-namespace-" + name},
			"target":     map[string]any{"version": "v1", "kind": "Namespace", "name": regexp.QuoteMeta(name)},
			"patch":      string(patch),
		})
		if err != nil {
			return err
		}
		v.k.Transformers = append(v.k.Transformers, string(transformer))
	}
	v.changed = true
	return nil
}

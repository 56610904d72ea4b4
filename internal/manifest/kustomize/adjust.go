package kustomize

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
)

// Adjustments change what an application renders, as the fields of Flux's Kustomization do. kfctl had none of them.
type Adjustments struct {
	// Components are folders of the repository with Components.
	Components []string
	// Patches are applied to what the application renders.
	Patches []Patch
	// TargetNamespace is the namespace that every object is put into; empty for none.
	TargetNamespace string
	// NamePrefix and NameSuffix are added to names, and to what refers to them.
	NamePrefix, NameSuffix string
	// Labels and Annotations are set on every object.
	Labels, Annotations map[string]string
	// Substitute are the variables that are replaced in what was rendered; nil where none are looked for.
	Substitute map[string]string
}

// Patch is a strategic merge patch or a JSON patch.
type Patch struct {
	Patch  string
	Target *Selector
}

// Selector selects the objects of a patch.
type Selector struct {
	Group, Version, Kind, Namespace, Name, AnnotationSelector, LabelSelector string
}

// fields are those that are used, in the words of the KfDef.
func (a *Adjustments) fields() []string {
	var out []string
	for _, f := range []struct {
		name string
		used bool
	}{
		{"kustomizeConfig.components", len(a.Components) > 0},
		{"patches", len(a.Patches) > 0},
		{"targetNamespace", a.TargetNamespace != ""},
		{"namePrefix", a.NamePrefix != ""},
		{"nameSuffix", a.NameSuffix != ""},
		{"commonMetadata", len(a.Labels)+len(a.Annotations) > 0},
		{"postBuild", a.Substitute != nil},
	} {
		if f.used {
			out = append(out, f.name)
		}
	}
	return out
}

// Any says that there are some.
func (a *Adjustments) Any() bool { return len(a.fields()) > 0 }

// around says that a kustomization around the application is needed.
func (a *Adjustments) around() bool {
	return len(a.Components)+len(a.Patches) > 0 || a.TargetNamespace+a.NamePrefix+a.NameSuffix != ""
}

// into completes the kustomization around an application, whose folder is elsewhere in the tree.
func (a *Adjustments) into(k *types.Kustomization, t *tree, repo string) error {
	k.Namespace, k.NamePrefix, k.NameSuffix = a.TargetNamespace, a.NamePrefix, a.NameSuffix
	for _, component := range a.Components {
		folder, err := inside("kustomizeConfig.components", component)
		if err != nil {
			return err
		}
		if !t.IsDir(path.Join(mount, folder)) {
			return fmt.Errorf("repository %q has no folder %q: correct kustomizeConfig.components", repo, component)
		}
		k.Components = append(k.Components, path.Join("..", mount, folder))
	}
	for _, p := range a.Patches {
		patch := types.Patch{Patch: p.Patch}
		if s := p.Target; s != nil {
			patch.Target = &types.Selector{
				ResId:              resid.ResId{Gvk: resid.Gvk{Group: s.Group, Version: s.Version, Kind: s.Kind}, Name: s.Name, Namespace: s.Namespace},
				AnnotationSelector: s.AnnotationSelector, LabelSelector: s.LabelSelector,
			}
		}
		k.Patches = append(k.Patches, patch)
	}
	return nil
}

// finish replaces variables and sets metadata, in the order of Flux.
func (a *Adjustments) finish(objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if err := errors.Join(validateLabels(a.Labels), validateAnnotations(a.Annotations)); err != nil {
		return nil, fmt.Errorf("commonMetadata %w", err)
	}
	objects, err := substitute(objects, a.Substitute)
	if err != nil {
		return nil, fmt.Errorf("postBuild: %w", err)
	}
	for _, o := range objects {
		if len(a.Labels) > 0 {
			o.SetLabels(merged(o.GetLabels(), a.Labels))
		}
		if len(a.Annotations) > 0 {
			o.SetAnnotations(merged(o.GetAnnotations(), a.Annotations))
		}
	}
	return objects, nil
}

// merged are two maps, of which the second wins.
func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(b)
	for name, value := range a {
		if _, set := out[name]; !set {
			out[name] = value
		}
	}
	return out
}

func validateLabels(labels map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if wrong := append(validation.IsQualifiedName(name), validation.IsValidLabelValue(labels[name])...); len(wrong) > 0 {
			return fmt.Errorf("has the label %q, which cannot be: %s", name, strings.Join(wrong, "; "))
		}
	}
	return nil
}

func validateAnnotations(annotations map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if wrong := validation.IsQualifiedName(strings.ToLower(name)); len(wrong) > 0 {
			return fmt.Errorf("has the annotation %q, which cannot be: %s", name, strings.Join(wrong, "; "))
		}
	}
	return nil
}

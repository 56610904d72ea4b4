package cli

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// definitions are CustomResourceDefinitions by kind.
type definitions map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition

// loadDefinitions reads bases/*.yaml; nil holds none.
func loadDefinitions(files fs.FS) (definitions, error) {
	out := definitions{}
	if files == nil {
		return out, nil
	}
	names, err := fs.Glob(files, "*/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(raw, crd); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		out[schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}] = crd
	}
	return out, nil
}

// served are the served versions of a kind; the stored one alone where there is no definition.
func (d definitions) served(stored schema.GroupVersionKind) []string {
	crd := d[stored.GroupKind()]
	if crd == nil {
		return []string{stored.Version}
	}
	var out []string
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Served {
			out = append(out, crd.Spec.Versions[i].Name)
		}
	}
	return out
}

// gate does to a custom resource of one version what the API server does at admission.
type gate struct {
	namespaced bool
	status     bool
	schema     *structuralschema.Structural
	validator  schemavalidation.SchemaValidator
	rules      *schemacel.Validator
}

// gate returns the gate of a version, or nil where there is no definition.
func (d definitions) gate(gvk schema.GroupVersionKind) (*gate, error) {
	crd := d[gvk.GroupKind()]
	if crd == nil {
		return nil, nil
	}
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == gvk.Version
	})
	if at < 0 || crd.Spec.Versions[at].Schema == nil {
		return nil, fmt.Errorf("the CustomResourceDefinition of %s has no schema for version %s", gvk.Kind, gvk.Version)
	}
	v := crd.Spec.Versions[at]
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		v.Schema.OpenAPIV3Schema, props, nil); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", gvk, err)
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", gvk, err)
	}
	validator, _, err := schemavalidation.NewSchemaValidator(props)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", gvk, err)
	}
	return &gate{
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		status:     v.Subresources != nil && v.Subresources.Status != nil,
		schema:     structural, validator: validator,
		rules: schemacel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// admit drops unknown fields, applies defaults and validates, in place and in the order of the API server
// (apiextensions-apiserver pkg/registry/customresource/strategy.go). old is the live object, or nil for a new one.
func (g *gate) admit(ctx context.Context, u, old *unstructured.Unstructured) (warnings []string, errs field.ErrorList) {
	if g.status {
		delete(u.Object, "status")
	}
	unknown := pruning.PruneWithOptions(u.Object, g.schema, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		warnings = append(warnings, fmt.Sprintf("unknown field %q is dropped", strings.TrimPrefix(path, ".")))
	}
	if err := objectmeta.Coerce(nil, u.Object, g.schema, true, false); err != nil {
		return warnings, field.ErrorList{err}
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, g.schema)
	defaulting.Default(u.Object, g.schema)

	errs = apivalidation.ValidateObjectMetaAccessor(u, g.namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, schemavalidation.ValidateCustomResource(nil, u.UnstructuredContent(), g.validator)...)
	errs = append(errs, objectmeta.Validate(ctx, nil, u.Object, g.schema, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, g.schema, u.Object)...)
	// A rule is not evaluated on an object whose shape is wrong, as in the API server.
	if len(errs) > 0 || g.rules == nil {
		return warnings, errs
	}
	var before any
	if old != nil {
		before = old.Object
	}
	broken, _ := g.rules.Validate(ctx, nil, g.schema, u.Object, before, celconfig.RuntimeCELCostBudget)
	return warnings, append(errs, broken...)
}

// clusterScoped says that the objects of a kind have no namespace.
func (d definitions) clusterScoped(gk schema.GroupKind) bool {
	crd := d[gk]
	return crd != nil && crd.Spec.Scope == apiextensionsv1.ClusterScoped
}

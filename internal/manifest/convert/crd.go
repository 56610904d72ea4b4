package convert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mlkeeper.dev/internal/manifest/bounded"
)

// crdScheme knows the versions of CustomResourceDefinition, their defaults and the way between them, all of it as the
// API server has it.
var crdScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return scheme
}()

// unapproved is what the API server asks for in groups of the Kubernetes community since v1, and takes without an
// approval.
const unapproved = "unapproved, converted from apiextensions.k8s.io/v1beta1"

// maxDefinition bounds the values of a definition, of which each may become a schema that takes half a kilobyte, several times over. The
// largest of Kubeflow 1.2 has 4,500.
const maxDefinition = 50_000

// customResourceDefinition takes a definition through the API server's own conversion and makes its schemas such that v1
// takes them. Its metadata stays as it is.
func customResourceDefinition(o *object, _ string) error {
	if bounded.Values(o.content) > maxDefinition {
		return fmt.Errorf("it has more than %d values: make its schemas smaller", maxDefinition)
	}
	raw, err := json.Marshal(o.content)
	if err != nil {
		return err
	}
	old := &apiextensionsv1beta1.CustomResourceDefinition{}
	if err := json.Unmarshal(raw, old); err != nil {
		return mistyped(err)
	}
	crdScheme.Default(old)
	kept := old.Spec.PreserveUnknownFields == nil || *old.Spec.PreserveUnknownFields
	var between apiextensions.CustomResourceDefinition
	var out apiextensionsv1.CustomResourceDefinition
	if err := crdScheme.Convert(old, &between, nil); err != nil {
		return err
	}
	if err := crdScheme.Convert(&between, &out, nil); err != nil {
		return err
	}
	crdScheme.Default(&out)
	// v1 prunes what no schema declares. Where a definition relied on nothing being pruned, its schemas say so themselves.
	out.Spec.PreserveUnknownFields = false
	var replaced []string
	var first string
	for i := range out.Spec.Versions {
		v := &out.Spec.Versions[i]
		schema, reason := acceptable(v.Schema, kept)
		v.Schema = schema
		if reason != "" {
			replaced = append(replaced, v.Name)
			first = cmp.Or(first, reason)
		}
	}
	if len(replaced) > 0 {
		o.warn("the schema of %s is not structural, as v1 asks for (%s), and is replaced by one that takes everything: "+
			"the API server no longer checks these objects", strings.Join(replaced, ", "), first)
	}
	return o.takeSpec(&out)
}

// mistyped names the field of a definition that has another type than v1beta1 gives it.
func mistyped(err error) error {
	field := "a field"
	if at := new(json.UnmarshalTypeError); errors.As(err, &at) {
		field = at.Field
	}
	return fmt.Errorf("%s has a value that it cannot have: correct the field", field)
}

// takeSpec replaces the spec by the converted one.
func (o *object) takeSpec(converted *apiextensionsv1.CustomResourceDefinition) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(converted)
	if err != nil {
		return err
	}
	o.content["spec"] = content["spec"]
	metadata := mapAt(o.content, "metadata")
	if metadata == nil {
		return nil
	}
	if absent(metadata, "creationTimestamp") {
		delete(metadata, "creationTimestamp")
	}
	if apihelpers.IsProtectedCommunityGroup(converted.Spec.Group) {
		annotations := mapAt(metadata, "annotations")
		if annotations == nil {
			annotations = map[string]any{}
			metadata["annotations"] = annotations
		}
		fill(annotations, apiextensionsv1.KubeAPIApprovedAnnotation, unapproved)
	}
	return nil
}

// acceptable returns a schema that v1 takes. Without one, or with one that is not structural, it is the one that takes
// everything; in the second case the reason says what is wrong.
func acceptable(
	validation *apiextensionsv1.CustomResourceValidation, kept bool,
) (*apiextensionsv1.CustomResourceValidation, string) {
	yes := true
	everything := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: &yes,
	}}
	if validation == nil || validation.OpenAPIV3Schema == nil {
		return everything, ""
	}
	out := validation.DeepCopy()
	if reason := notStructural(out.OpenAPIV3Schema); reason != "" {
		return everything, reason
	}
	if kept {
		preserve(out.OpenAPIV3Schema, true)
	}
	return out, ""
}

// notStructural says what keeps a schema from being structural; nothing when it is.
func notStructural(schema *apiextensionsv1.JSONSchemaProps) string {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, &internal, nil); err != nil {
		return err.Error()
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return err.Error()
	}
	problems := structuralschema.ValidateStructural(nil, structural)
	switch len(problems) {
	case 0:
		return ""
	case 1:
		return withoutValue(problems[0])
	}
	// The problems come out of a map, in an order that changes.
	first := withoutValue(problems[0])
	for _, p := range problems {
		first = min(first, withoutValue(p))
	}
	return fmt.Sprintf("%s, and %d more", first, len(problems)-1)
}

// withoutValue is the text of a problem without the value that it quotes.
func withoutValue(p *field.Error) string { return fmt.Sprintf("%s: %s: %s", p.Field, p.Type, p.Detail) }

// preserve marks every object of a structural schema as taking more than it declares. An object with free names checks
// their values already and drops none. The metadata of a resource, which the root is and an embedded one, has a schema of
// its own that nothing may be added to.
func preserve(schema *apiextensionsv1.JSONSchemaProps, resource bool) {
	if schema == nil {
		return
	}
	if schema.Type == "object" && schema.AdditionalProperties == nil && schema.XPreserveUnknownFields == nil {
		yes := true
		schema.XPreserveUnknownFields = &yes
	}
	for name, inner := range schema.Properties {
		if name == "metadata" && (resource || schema.XEmbeddedResource) {
			continue
		}
		preserve(&inner, false)
		schema.Properties[name] = inner
	}
	if schema.AdditionalProperties != nil {
		preserve(schema.AdditionalProperties.Schema, false)
	}
	if schema.Items != nil {
		preserve(schema.Items.Schema, false)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// definition is what a CustomResourceDefinition says of a kind.
type definition struct {
	Spec struct {
		Group string
		Scope string
		Names struct {
			Kind, Plural string
			ShortNames   []string
		}
		Versions []version
	}
}

// version is one version of a kind.
type version struct {
	Name    string
	Storage bool
	Schema  struct {
		OpenAPIV3Schema *schema
	}
}

// schema is what a version says of a field, as far as the reference shows it.
type schema struct {
	Type, Format, Description, Pattern string
	Default                            json.RawMessage
	Enum                               []json.RawMessage
	Minimum, Maximum                   *float64
	MinLength, MaxLength               *int64
	MinItems, MaxItems                 *int64
	MinProperties, MaxProperties       *int64
	Required                           []string
	Properties                         map[string]*schema
	Items                              *schema
	AdditionalProperties               *schema
	IntOrString                        bool   `json:"x-kubernetes-int-or-string"`
	AnyFields                          bool   `json:"x-kubernetes-preserve-unknown-fields"`
	Rules                              []rule `json:"x-kubernetes-validations"`
}

// rule is a condition in CEL that the API server checks.
type rule struct {
	Rule, Message string
}

// definitions reads the CustomResourceDefinitions of config/crd, by the paths of their files.
func definitions(root string) ([]definition, error) {
	files, err := filepath.Glob(filepath.Join(root, "config/crd/*/*_*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []definition
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var one definition
		if err := yaml.Unmarshal(raw, &one); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if _, err := one.stored(); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no CustomResourceDefinition: run make generate", filepath.Join(root, "config/crd"))
	}
	slices.SortFunc(out, func(a, b definition) int { return strings.Compare(a.Spec.Names.Kind, b.Spec.Names.Kind) })
	return out, nil
}

// stored is the version in which objects are stored. The page of a kind shows it for all versions, so that they must be the same.
func (d definition) stored() (version, error) {
	at := slices.IndexFunc(d.Spec.Versions, func(v version) bool { return v.Storage })
	if at < 0 {
		return version{}, fmt.Errorf("%s has no version that is stored", d.Spec.Names.Kind)
	}
	want, err := json.Marshal(d.Spec.Versions[at].Schema)
	if err != nil {
		return version{}, err
	}
	for _, v := range d.Spec.Versions {
		got, err := json.Marshal(v.Schema)
		if err != nil {
			return version{}, err
		}
		if string(got) != string(want) {
			return version{}, fmt.Errorf("the schemas of %s %s and %s differ: write a page for each", d.Spec.Names.Kind, v.Name, d.Spec.Versions[at].Name)
		}
	}
	return d.Spec.Versions[at], nil
}

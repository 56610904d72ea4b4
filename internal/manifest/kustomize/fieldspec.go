package kustomize

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

var (
	// specLists are the lists of field specifications of a transformer configuration.
	specLists = []string{
		"namePrefix", "nameSuffix", "namespace", "commonLabels", "labels", "templateLabels", "volumeClaimTemplateLabels",
		"commonAnnotations", "varReference", "images", "replicas",
	}
	specFields      = []string{"group", "version", "kind", "path", "create"}
	referenceFields = []string{"group", "version", "kind", "fieldSpecs"}
)

// configuration cleans a transformer configuration.
type configuration struct {
	dropped []string
	specs   []types.FieldSpec
}

// cleanConfiguration drops the two things in a transformer configuration that kustomize v3.2.0 passed over and today's
// refuses, and says what it dropped. It also returns the specifications for namespaces.
//
// An unknown field (apiGroup, apiVersion: Open Data Hub has many) was not looked at then and is an error of the decoder
// now. A path with a number in it (containers/0/env) was meant as an index, which neither version has: then it matched
// nothing, now it is an error at the first object that has a list there.
func cleanConfiguration(content []byte) ([]byte, []types.FieldSpec, []string, error) {
	var raw map[string]any
	if err := yaml.Unmarshal(content, &raw); err != nil {
		return nil, nil, nil, err
	}
	c := &configuration{}
	for _, name := range sortedKeys(raw) {
		switch {
		case slices.Contains(specLists, name):
			raw[name] = c.fieldSpecs(name, raw[name])
		case name == "nameReference":
			raw[name] = c.references(raw[name])
		default:
			delete(raw, name)
			c.drop("field %s", name)
		}
	}
	cleaned, err := yaml.Marshal(raw)
	return cleaned, c.specs, c.dropped, err
}

func (c *configuration) references(value any) any {
	items, ok := value.([]any)
	if !ok {
		return value
	}
	for _, item := range items {
		if reference, ok := item.(map[string]any); ok {
			c.prune("nameReference", reference, referenceFields)
			if specs, found := reference["fieldSpecs"]; found {
				reference["fieldSpecs"] = c.fieldSpecs("nameReference", specs)
			}
		}
	}
	return value
}

func (c *configuration) fieldSpecs(name string, value any) any {
	items, ok := value.([]any)
	if !ok {
		return value
	}
	kept := []any{}
	for _, item := range items {
		spec, ok := item.(map[string]any)
		if !ok {
			kept = append(kept, item)
			continue
		}
		c.prune(name, spec, specFields)
		text, _ := spec["path"].(string)
		if slices.ContainsFunc(strings.Split(text, "/"), isNumber) {
			c.drop("%s path %s", name, text)
			continue
		}
		if name == "namespace" {
			c.namespace(spec, text)
		}
		kept = append(kept, spec)
	}
	return kept
}

func (c *configuration) namespace(spec map[string]any, text string) {
	out := types.FieldSpec{Path: text}
	out.Group, _ = spec["group"].(string)
	out.Version, _ = spec["version"].(string)
	out.Kind, _ = spec["kind"].(string)
	out.CreateIfNotPresent, _ = spec["create"].(bool)
	c.specs = append(c.specs, out)
}

func (c *configuration) prune(list string, spec map[string]any, known []string) {
	for _, field := range sortedKeys(spec) {
		if !slices.Contains(known, field) {
			delete(spec, field)
			c.drop("%s field %s", list, field)
		}
	}
}

// drop records what was dropped, once: the same mistake is often made on every line of a file.
func (c *configuration) drop(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(c.dropped, text) {
		c.dropped = append(c.dropped, text)
	}
}

func isNumber(segment string) bool {
	if segment == "" {
		return false
	}
	return strings.Trim(segment, "0123456789") == ""
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

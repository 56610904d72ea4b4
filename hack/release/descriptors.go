package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// The kinds of fields that OpenShift's console knows (openshift/console, frontend/packages/operator-lifecycle-manager/src/components/descriptors/
// reference/reference.md).
const (
	uiDescriptor         = "urn:alm:descriptor:com.tectonic.ui:"
	kubernetesDescriptor = "urn:alm:descriptor:io.kubernetes:"
	linkDescriptor       = "urn:alm:descriptor:org.w3:link"
	conditionsDescriptor = "urn:alm:descriptor:io.kubernetes.conditions"
	phaseDescriptor      = "urn:alm:descriptor:io.kubernetes.phase"
)

// describe completes the list of owned kinds: each served version of each definition, with what its schema says of the fields.
func (o *olm) describe() error {
	owned, _ := at(o.csv, "spec", "customresourcedefinitions", "owned").([]any)
	names := map[any]any{}
	for _, one := range owned {
		names[at(one, "name")] = at(one, "displayName")
	}
	var out []any
	for _, definition := range o.definitions {
		displayName := names[named(definition)]
		if displayName == nil {
			return fmt.Errorf("%s/clusterserviceversion.yaml has no displayName for %s", olmFolder, named(definition))
		}
		delete(names, named(definition))
		for _, version := range at(definition, "spec", "versions").([]any) {
			if at(version, "served") != true {
				continue
			}
			schema := at(version, "schema", "openAPIV3Schema")
			described := object{
				"name": named(definition), "version": at(version, "name"), "kind": at(definition, "spec", "names", "kind"),
				"displayName": displayName, "description": sentence(at(schema, "description")),
			}
			for part, kind := range map[string]func(string, any) []any{"spec": specField, "status": statusField} {
				if fields := descriptors(at(schema, "properties", part, "properties"), kind); len(fields) > 0 {
					described[part+"Descriptors"] = fields
				}
			}
			out = append(out, described)
		}
	}
	for missing := range names {
		return fmt.Errorf("%s/clusterserviceversion.yaml names %v, which install.yaml does not have", olmFolder, missing)
	}
	set(o.csv, out, "spec", "customresourcedefinitions", "owned")
	return nil
}

// descriptors describes the fields of spec or status.
func descriptors(properties any, kind func(name string, schema any) []any) []any {
	fields, _ := properties.(object)
	var out []any
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		out = append(out, object{
			"path": field, "displayName": title(field), "description": sentence(at(fields[field], "description")), "x-descriptors": kind(field, fields[field]),
		})
	}
	return out
}

// specField returns how the console shows a field of the spec in its form.
func specField(name string, schema any) []any {
	enum, _ := at(schema, "enum").([]any)
	switch typ := at(schema, "type"); {
	case name == "replicas":
		return []any{uiDescriptor + "podCount"}
	case name == "resources":
		return []any{uiDescriptor + "resourceRequirements"}
	case name == "imagePullPolicy":
		return []any{uiDescriptor + "imagePullPolicy"}
	case name == "serviceAccountName":
		return []any{kubernetesDescriptor + "ServiceAccount"}
	case name == "secretName":
		return []any{kubernetesDescriptor + "Secret"}
	case name == "configMap":
		return []any{kubernetesDescriptor + "ConfigMap"}
	case len(enum) > 0:
		var out []any
		for _, value := range enum {
			out = append(out, fmt.Sprintf("%sselect:%v", uiDescriptor, value))
		}
		return out
	case typ == "boolean":
		return []any{uiDescriptor + "booleanSwitch"}
	case typ == "integer":
		return []any{uiDescriptor + "number"}
	case typ == "string":
		return []any{uiDescriptor + "text"}
	default:
		return []any{uiDescriptor + "advanced"}
	}
}

// statusField is the same of a field of the status.
func statusField(name string, _ any) []any {
	switch name {
	case "conditions":
		return []any{conditionsDescriptor}
	case "phase":
		return []any{phaseDescriptor}
	case "url", "externalURL":
		return []any{linkDescriptor}
	default:
		return []any{uiDescriptor + "text"}
	}
}

// title makes words of the name of a field: serviceAccountName is Service Account Name, and externalURL External URL.
func title(field string) string {
	var out []rune
	for i, r := range []rune(field) {
		if i > 0 && unicode.IsUpper(r) && !unicode.IsUpper([]rune(field)[i-1]) {
			out = append(out, ' ')
		}
		if i == 0 {
			r = unicode.ToUpper(r)
		}
		out = append(out, r)
	}
	return string(out)
}

// sentence is a description on one line.
func sentence(description any) string {
	text, _ := description.(string)
	return strings.Join(strings.Fields(text), " ")
}

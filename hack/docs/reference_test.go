package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../.."

func TestTheReferenceIsCurrent(t *testing.T) {
	want, err := reference(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range want {
		got, err := os.ReadFile(filepath.Join(root, referenceFolder, name))
		if err != nil || string(got) != string(content) {
			t.Errorf("%s is not what make manifests writes: %v", name, err)
		}
	}
	there, err := os.ReadDir(filepath.Join(root, referenceFolder))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range there {
		if want[file.Name()] == nil {
			t.Errorf("%s is in %s, and make manifests does not write it", file.Name(), referenceFolder)
		}
	}
}

// TestEveryFieldIsInTheReference reads the definitions without the types of this package.
func TestEveryFieldIsInTheReference(t *testing.T) {
	pages, err := reference(root)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "config/crd/*/*_*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd map[string]any
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			t.Fatal(err)
		}
		spec := crd["spec"].(map[string]any)
		kind := spec["names"].(map[string]any)["kind"].(string)
		page := string(pages[strings.ToLower(kind)+".md"])
		for _, v := range spec["versions"].([]any) {
			top := v.(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)
			for _, part := range []string{"spec", "status"} {
				for _, field := range fieldsOf(part, top[part]) {
					seen++
					if !strings.Contains(page, "| `"+field+"` |") {
						t.Errorf("the page of %s does not name %s", kind, field)
					}
				}
			}
		}
	}
	if seen < 500 {
		t.Errorf("only %d fields were looked for", seen)
	}
}

// fieldsOf are the paths of the fields below one, but those of Kubernetes' own types.
func fieldsOf(path string, of any) []string {
	s, _ := of.(map[string]any)
	var out []string
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		out = append(out, path+"."+name)
		if kubernetes[name] == "" {
			out = append(out, fieldsOf(path+"."+name, properties[name])...)
		}
	}
	out = append(out, fieldsIn(path+"[]", s["items"])...)
	return append(out, fieldsIn(path+".*", s["additionalProperties"])...)
}

func fieldsIn(path string, of any) []string {
	if of == nil {
		return nil
	}
	return fieldsOf(path, of)
}

func TestLimits(t *testing.T) {
	for text, want := range map[string]string{
		"{type: integer, minimum: 0, maximum: 1000}":         "0 to 1000",
		"{type: integer, minimum: 1}":                        "at least 1",
		"{type: string, maxLength: 63}":                      "at most 63 characters",
		"{type: array, minItems: 1, maxItems: 8}":            "1 to 8 items",
		"{type: string, enum: [Plain, Secured]}":             "`Plain`, `Secured`",
		`{type: string, minLength: 1, pattern: '^[a-z]|b$'}`: "at least 1 characters; matches `^[a-z]|b$`",
		"{type: object, maxProperties: 4}":                   "at most 4 entries",
		"{type: boolean}":                                    "",
	} {
		var s schema
		if err := yaml.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(limits(&s), "; "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	for text, want := range map[string]string{
		"{default: 8500, description: 'the default is its own, 8500.'}":                     "`8500`",
		"{description: 'a is the key of the ConfigMap; the default is models.conf.'}":       "models.conf",
		"{description: 'a is how many; the default is 1. It needs b.'}":                     "1",
		"{description: 'a is b; the default is the operator''s --image, and with GPUs c.'}": "the operator's --image",
		"{description: 'a says what happens: Delete, the default, deletes them.'}":          "Delete",
		"{description: 'a is b.'}": "",
	} {
		var s schema
		if err := yaml.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if got := standard(&s); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestVersionsThatDifferAreRefused holds that one page is enough for all versions of a kind.
func TestVersionsThatDifferAreRefused(t *testing.T) {
	var d definition
	err := yaml.Unmarshal([]byte(`
spec:
  names: {kind: Example}
  versions:
    - {name: v1, storage: true, schema: {openAPIV3Schema: {properties: {spec: {properties: {a: {type: string}}}}}}}
    - {name: v2, schema: {openAPIV3Schema: {properties: {spec: {properties: {b: {type: string}}}}}}}
`), &d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.stored(); err == nil || !strings.Contains(err.Error(), "v2 and v1 differ") {
		t.Errorf("%v", err)
	}
}

// TestRightsAreThoseOfTheRoles looks for each rule of each role of config, by reading it as a map.
func TestRightsAreThoseOfTheRoles(t *testing.T) {
	raw, err := rightsPage(root)
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	roles, err := filepath.Glob(filepath.Join(root, "config/rbac/*/role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	components, err := filepath.Glob(filepath.Join(root, "config/components/*/role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, part := range rightsOf {
		listed[filepath.Join(root, "config", part.file)] = true
	}
	seen := 0
	for _, file := range append(roles, components...) {
		if !listed[file] {
			t.Errorf("the page has no section for %s", file)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r map[string]any
		if err := yaml.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		for _, rule := range r["rules"].([]any) {
			seen++
			var resources, verbs []string
			for _, name := range rule.(map[string]any)["resources"].([]any) {
				resources = append(resources, fmt.Sprint(name))
			}
			for _, name := range rule.(map[string]any)["verbs"].([]any) {
				verbs = append(verbs, fmt.Sprint(name))
			}
			if !strings.Contains(page, "| "+strings.Join(resources, ", ")) || !strings.Contains(page, " | "+strings.Join(verbs, ", ")+" | ") {
				t.Errorf("%s: the page does not have %v %v", file, verbs, resources)
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d rules were looked for", seen)
	}
	for _, want := range []string{
		"| core | services named kubernetes | get | Sources are not fetched from the addresses of nodes",
		"| rbac.authorization.k8s.io | clusterroles named mlkeeper-trustyai-proxy | bind | The proxy of a Secured service asks",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

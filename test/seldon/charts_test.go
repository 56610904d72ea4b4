package seldon

import (
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// variable is the name of an environment variable in a template: by itself, and in a list in braces.
var variable = regexp.MustCompile(`name: ([A-Z][A-Z0-9_]+)(\{\{[^}]*\}\})?`)

// TestTheChartsHaveTheVariablesOfTheOriginals compares the charts of make demo with the names that were recorded of the real ones, so
// that no test finds in a variable what Seldon's programs do not read there.
func TestTheChartsHaveTheVariablesOfTheOriginals(t *testing.T) {
	raw, err := os.ReadFile("testdata/environment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string][]string{}
	if err := yaml.UnmarshalStrict(raw, &recorded); err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, chart := range []string{"seldon-deploy", "seldon-core-operator"} {
		for name, file := range files(t, chart) {
			known, ok := recorded[path.Base(name)]
			if !ok {
				continue
			}
			read[path.Base(name)] = true
			for _, match := range variable.FindAllStringSubmatch(string(file.Data), -1) {
				prefix := match[2] != ""
				if !slices.ContainsFunc(known, func(k string) bool { return k == match[1] || prefix && strings.HasPrefix(k, match[1]) }) {
					t.Errorf("%s has the variable %s, which the real chart does not have", name, match[1])
				}
			}
		}
	}
	for name := range maps.Keys(recorded) {
		if !read[name] {
			t.Errorf("no chart has a template %s", name)
		}
	}
}

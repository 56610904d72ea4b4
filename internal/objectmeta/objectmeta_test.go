package objectmeta

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestCheck has what kubectl and Helm refuse, and what they take.
func TestCheck(t *testing.T) {
	for metadata, want := range map[string]string{
		"{labels: {enforce: restricted, rev: 1}}":         "metadata.labels.rev is a number: write it in quotes",
		"{labels: {b: 1.5, a: true}}":                     "metadata.labels.a is a boolean: write it in quotes",
		"{annotations: {keep: yes, x/y: [a]}}":            "metadata.annotations.keep is a boolean: write it in quotes",
		"{annotations: {x/y: [a]}}":                       "metadata.annotations.x/y is a list: make it a text",
		"{annotations: {x/y: {a: b}}}":                    "metadata.annotations.x/y is a map: make it a text",
		"{labels: [a]}":                                   "metadata.labels is a list: make it a map of texts",
		"{labels: a}":                                     "metadata.labels is a text: make it a map of texts",
		"{annotations: 3}":                                "metadata.annotations is a number: make it a map of texts",
		"{labels: {a: '1', b: null}, annotations: null}":  "",
		"{name: a}":                                       "",
		"text":                                            "",
		"{labels: {" + strings.Repeat("a", 400) + ": 1}}": "metadata.labels." + strings.Repeat("a", maxName) + "… is a number: write it in quotes",
	} {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte("spec: {template: {metadata: {labels: {a: 1}}}}\nmetadata: "+metadata), &object); err != nil {
			t.Fatal(err)
		}
		err := Check(object)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v; want %q", metadata, err, want)
		}
	}
}

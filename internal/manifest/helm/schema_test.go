package helm

import (
	"fmt"
	"strings"
	"testing"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
)

// TestWhatDoesNotFitIsToldInOneOrder holds that values with several errors are told with the same text each time: a status that tells another
// one after each rendering is written each time.
func TestWhatDoesNotFitIsToldInOneOrder(t *testing.T) {
	values, properties := map[string]any{}, []string{}
	for c := 'a'; c <= 'j'; c++ {
		values[string(c)], values["more"+string(c)] = "text", 1
		properties = append(properties, fmt.Sprintf(`"%c": {"type": "integer"}`, c))
	}
	for name, schema := range map[string]string{
		"values": `{"properties": {` + strings.Join(properties, ", ") + `}, "additionalProperties": false}`,
		"schema": `{"properties": {` + strings.ReplaceAll(strings.Join(properties, ", "), "integer", "number of pods") + `}}`,
	} {
		c := &chartv2.Chart{Metadata: &chartv2.Metadata{Name: "chart"}, Schema: []byte(schema)}
		told := map[string]bool{}
		for range 20 {
			told[strings.Join(validate(c, values), "; ")] = true
		}
		if len(told) != 1 {
			t.Errorf("%s: %d texts", name, len(told))
		}
		for text := range told {
			if strings.Index(text, "/a'") > strings.Index(text, "/b'") || !strings.Contains(text, "/j'") || strings.Count(text, "more") != 0 && !strings.Contains(text, "'morea', 'moreb'") {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}

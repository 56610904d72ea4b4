package bundle

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/wiring"
)

// WireLabel marks the ConfigMaps of others into which bundles put lines.
const WireLabel = "wire.test.mlkeeper.dev/lines"

// Wire keeps one line per bundle in the key "lines" of ConfigMaps of others.
func Wire() wiring.Wire {
	return wiring.Wire{
		Name: "lines", GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, LabelSelector: WireLabel,
		Wanted: func(_ *unstructured.Unstructured, alive []client.Object) []wiring.Entry {
			var out []wiring.Entry
			for _, o := range alive {
				b, ok := o.(*Bundle)
				if ok && b.Spec.Wire != "" {
					id := fmt.Sprintf("%s.%s/%s/%s", GVK.Kind, GVK.Group, b.Namespace, b.Name)
					out = append(out, wiring.Entry{Owner: id, Value: b.Spec.Wire})
				}
			}
			return out
		},
		Edit: editLines,
	}
}

func editLines(
	live *unstructured.Unstructured, recorded, wanted []wiring.Entry,
) (*unstructured.Unstructured, []wiring.Outcome, error) {
	text, _, err := unstructured.NestedString(live.Object, "data", "lines")
	if err != nil {
		return nil, nil, err
	}
	before := strings.Fields(text)
	lines := slices.DeleteFunc(slices.Clone(before), func(line string) bool {
		return holds(recorded, line) && !holds(wanted, line)
	})
	var outcomes []wiring.Outcome
	for _, e := range wanted {
		there := slices.Contains(lines, e.Value)
		if !there {
			lines = append(lines, e.Value)
		}
		outcomes = append(outcomes, wiring.Outcome{
			Entry: e, Wired: true, Record: !there || slices.Contains(recorded, e), Reason: "Wired",
		})
	}
	if slices.Equal(before, lines) {
		return nil, outcomes, nil
	}
	out := live.DeepCopy()
	return out, outcomes, unstructured.SetNestedField(out.Object, strings.Join(lines, "\n"), "data", "lines")
}

func holds(entries []wiring.Entry, line string) bool {
	return slices.ContainsFunc(entries, func(e wiring.Entry) bool { return e.Value == line })
}

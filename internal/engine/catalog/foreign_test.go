package catalog

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
)

// TestCRDWithAConversionWebhookIsForeign shows that a CustomResourceDefinition with the conversion webhook of another operator is
// reported, also when only the webhook changes.
func TestCRDWithAConversionWebhookIsForeign(t *testing.T) {
	c := newWithClock(nil, nil, logr.Discard(), testclock.NewFakeClock(time.Unix(0, 0)))
	changes := 0
	c.OnChange(func(schema.GroupKind, bool) { changes++ })
	service := map[string]any{"service": map[string]any{"namespace": "theirs", "name": "webhook", "path": "/convert"}}
	for i, step := range []struct {
		conversion any
		want       string
	}{
		{nil, ""},
		{map[string]any{"strategy": "Webhook", "webhook": map[string]any{"clientConfig": service}}, "theirs/webhook"},
		{map[string]any{"strategy": "Webhook", "webhook": map[string]any{"clientConfig": map[string]any{"url": "https://there"}}}, "https://there"},
		{map[string]any{"strategy": "Webhook"}, "unknown"},
		{map[string]any{"strategy": "None"}, ""},
	} {
		out, err := transformCRD(&unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "widgets.example.com"},
			"spec": map[string]any{
				"group": widget.Group, "scope": "Namespaced", "conversion": step.conversion,
				"versions": []any{map[string]any{"name": "v1", "served": true}},
			},
			"status": map[string]any{
				"acceptedNames": map[string]any{"kind": widget.Kind, "plural": "widgets"},
				"conditions":    []any{map[string]any{"type": "Established", "status": "True"}},
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		c.setCRD(out, false)
		foreign := c.ForeignCRDError(widget)
		if (foreign == nil) != (step.want == "") || foreign != nil && !strings.Contains(foreign.Error(), "widgets.example.com is another operator's") {
			t.Errorf("%v: %v", step.conversion, foreign)
		}
		if foreign != nil && !strings.Contains(foreign.Error(), step.want) {
			t.Errorf("%v does not name %s", foreign, step.want)
		}
		if changes != i+1 {
			t.Errorf("%v: OnChange was called %d times", step.conversion, changes)
		}
	}
}

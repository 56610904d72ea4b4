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

// TestADefinitionWithAWebhookIsForeign tells a definition that another operator's webhook converts from MLKeeper's, also when
// that changes and nothing else does.
func TestADefinitionWithAWebhookIsForeign(t *testing.T) {
	c := newWithClock(nil, nil, logr.Discard(), testclock.NewFakeClock(time.Unix(0, 0)))
	told := 0
	c.OnChange(func(schema.GroupKind, bool) { told++ })
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
		out, err := reduceDefinition(&unstructured.Unstructured{Object: map[string]any{
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
		c.setDefinition(out, false)
		foreign := c.Foreign(widget)
		if (foreign == nil) != (step.want == "") || foreign != nil && !strings.Contains(foreign.Error(), "widgets.example.com is another operator's") {
			t.Errorf("%v: %v", step.conversion, foreign)
		}
		if foreign != nil && !strings.Contains(foreign.Error(), step.want) {
			t.Errorf("%v does not name %s", foreign, step.want)
		}
		if told != i+1 {
			t.Errorf("%v: the engine was told %d times", step.conversion, told)
		}
	}
}

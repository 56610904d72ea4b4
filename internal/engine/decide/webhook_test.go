package decide

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// webhookScene is a plan of a webhook configuration, the Service that it calls and the Deployment behind that, the last
// two as declared and ready.
type webhookScene struct{ hook, service, workload Item }

func newWebhookScene(t *testing.T) *webhookScene {
	t.Helper()
	item := func(gvk schema.GroupVersionKind, content map[string]any) Item {
		key := keyFor(gvk, "server")
		o := desired(gvk, key)
		for name, value := range content {
			o.Desired.Object[name] = value
		}
		st, err := plan.Stamp(digest.Key{}, o, stack, self, 0)
		if err != nil {
			t.Fatal(err)
		}
		th := thing{uid: "u", marked: true, id: stack.ID(), digest: st.Digest, health: health.Current}
		return Item{Stamped: st, Observed: th.observed(gvk, key), Served: true, Synced: true}
	}
	s := &webhookScene{
		hook: item(schema.GroupVersionKind{
			Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration",
		}, map[string]any{"webhooks": []any{
			map[string]any{"clientConfig": map[string]any{"url": "https://elsewhere.example.com"}},
			map[string]any{"clientConfig": map[string]any{"service": map[string]any{"namespace": "ns", "name": "server"}}},
		}}),
		service: item(schema.GroupVersionKind{Version: "v1", Kind: "Service"}, map[string]any{
			"spec": map[string]any{"selector": map[string]any{"app": "server"}},
		}),
		workload: item(deployments, map[string]any{"spec": map[string]any{"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "server", "more": "x"}},
		}}}),
	}
	s.hook.Observed = nil
	return s
}

// TestAWebhookWaitsForItsServer tests invariant 14: made before its server answers, it would refuse what the server consists of.
func TestAWebhookWaitsForItsServer(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*webhookScene)
		want   string
	}{
		{"its server is ready", func(*webhookScene) {}, ""},
		{"it is there already", func(s *webhookScene) { s.hook.Observed, s.workload.Observed = s.service.Observed, nil }, ""},
		{"no Service yet", func(s *webhookScene) { s.service.Observed = nil }, "Service ns/server to exist"},
		{"no workload yet", func(s *webhookScene) { s.workload.Observed = nil }, "Deployment ns/server to be ready"},
		{
			"the workload is not ready", func(s *webhookScene) { s.workload.Observed.Health.Status = health.InProgress },
			"Deployment ns/server to be ready",
		},
		{
			"the workload is ready, but as it was", func(s *webhookScene) { s.workload.Digest = "next" },
			"Deployment ns/server to be ready",
		},
		{
			"the Service selects nothing of the plan", func(s *webhookScene) {
				s.workload.Observed = nil
				_ = unstructured.SetNestedField(s.service.Desired.Object, "else", "spec", "selector", "app")
			}, "",
		},
		{
			"the Service has no selector", func(s *webhookScene) {
				s.workload.Observed = nil
				unstructured.RemoveNestedField(s.service.Desired.Object, "spec", "selector")
			}, "",
		},
		{"the Service is somebody else's", func(s *webhookScene) { s.service.Key.Name, s.service.Observed = "other", nil }, ""},
		{
			"the workload is in another namespace", func(s *webhookScene) {
				s.workload.Key.Namespace, s.workload.Observed = "other", nil
			}, "",
		},
		{"it is no webhook", func(s *webhookScene) { s.hook.Key.Group, s.workload.Observed = "x.io", nil }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newWebhookScene(t)
			c.change(s)
			stages := []Stage{{Items: []Item{s.hook, s.service}}, {Items: []Item{s.workload}}}
			got := ServerOf(stages, s.hook)
			if got != c.want {
				t.Fatalf("waits for %q", got)
			}
			if s.hook.Observed != nil {
				return
			}
			// What it waits for holds back itself alone.
			stages[0].Items[0].Waits = got
			for _, a := range Decide(Input{Stack: stack, Owners: []plan.Owner{self}, Stages: stages}) {
				waits := a.Verb == Wait && a.Reason == ReasonDependency
				if waits != (got != "" && a.Key == s.hook.Key) {
					t.Errorf("%s %s %s", a.Verb, a.Key, a.Detail)
				}
			}
		})
	}
}

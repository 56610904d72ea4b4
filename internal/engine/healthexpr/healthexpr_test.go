package healthexpr

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
)

func issuer(status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": map[string]any{"name": "a", "generation": int64(2)}, "status": status,
	}}
}

func ready(value string) map[string]any {
	return map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": value}}}
}

// TestOf takes the expressions of Flux's page on ClusterIssuers.
func TestOf(t *testing.T) {
	rules, err := Compile([]keeper.HealthCheckExpr{{
		APIVersion: "cert-manager.io/v1", Kind: "ClusterIssuer",
		Failed:  "status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'False')",
		Current: "status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True')",
	}})
	if err != nil {
		t.Fatal(err)
	}
	old := ready("True")
	old["observedGeneration"] = int64(1)
	for name, c := range map[string]struct {
		object  *unstructured.Unstructured
		want    health.Status
		message string
	}{
		"current":      {issuer(ready("True")), health.Current, ""},
		"failed":       {issuer(ready("False")), health.Failed, ""},
		"in between":   {issuer(ready("Unknown")), health.InProgress, "current is false"},
		"not observed": {issuer(old), health.InProgress, "latest change"},
		"no status":    {issuer(map[string]any{}), health.InProgress, "cannot be evaluated"},
	} {
		if got, _, ok := rules.Of(c.object); !ok || got.Status != c.want || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	other := issuer(ready("True"))
	other.SetKind("Issuer")
	if _, _, ok := rules.Of(other); ok {
		t.Error("another kind has the health of a rule")
	}
	if _, _, ok := rules.Of(nil); ok {
		t.Error("no object has a health")
	}
}

// TestExpressionsAreBounded: what an author writes costs the operator neither time nor memory.
func TestExpressionsAreBounded(t *testing.T) {
	items := make([]any, 200)
	for i := range items {
		items[i] = map[string]any{"type": "x"}
	}
	u := issuer(map[string]any{"conditions": items})
	costly := "status.conditions.all(a, status.conditions.all(b, status.conditions.all(c, a.type == b.type || b.type == c.type)))"
	rules, err := Compile([]keeper.HealthCheckExpr{{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Current: costly}})
	if err != nil {
		t.Fatal(err)
	}
	if got, cost, _ := rules.Of(u); got.Status != health.InProgress || !strings.Contains(got.Message, "cost limit exceeded") || cost < maxCost {
		t.Errorf("%+v, at a cost of %d", got, cost)
	}
	items = items[:2]
	if got, cost, _ := rules.Of(issuer(map[string]any{"conditions": items})); got.Status != health.Current || cost < 8 || cost > maxCost/100 {
		t.Errorf("%+v, at a cost of %d", got, cost)
	}
	quotes := compiled(t, `status[status.text] == 1`)
	if got, _, _ := quotes.Of(issuer(map[string]any{"text": strings.Repeat("x", 100_000)})); len(got.Message) > maxMessage+3 {
		t.Errorf("a message of %d bytes", len(got.Message))
	}
}

// TestCompile names the expression that is wrong.
func TestCompile(t *testing.T) {
	for text, want := range map[string]string{
		"status.conditions.":   "Syntax error",
		"object.status == 'a'": "undeclared reference",
		"'a'":                  "no true or false",
		strings.Repeat("(", 40) + "true" + strings.Repeat(")", 40): "recursion",
		"'" + strings.Repeat("a", maxSize) + "' == 'a'":            "size",
	} {
		_, err := Compile([]keeper.HealthCheckExpr{{Current: "true"}, {Current: "true", Failed: text}})
		if err == nil || err.Field != "[1].failed" || !strings.Contains(err.Message, want) {
			t.Errorf("%.40s: %+v", text, err)
		}
	}
}

package helm

import (
	"errors"
	"strings"
	"testing"

	"mlkeeper.dev/internal/manifest/kustomize"
)

// adjustable has an object in each place: in the folder crds, as a hook, as one that is left out, and among the templates, whose order is not that of
// their kinds.
const adjustable = `-- crds/crd.yaml --
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.x.io}}
-- templates/a.yaml --
{apiVersion: v1, kind: Service, metadata: {name: web, labels: {app.kubernetes.io/managed-by: Helm}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: hook, annotations: {helm.sh/hook: post-install}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: test, annotations: {helm.sh/hook: test}}}
`

// TestAdjustments holds what Helm 4 passes to a post-renderer (pkg/action, renderResources): hooks with the templates, and no folder crds. What
// is a hook is told afterwards.
func TestAdjustments(t *testing.T) {
	in := input(chartOf(t, adjustable), nil)
	in.Adjustments = kustomize.Adjustments{
		Patches: []kustomize.Patch{
			{Patch: "- {op: add, path: /metadata/annotations, value: {helm.sh/hook: pre-install}}", Target: &kustomize.Selector{Kind: "ConfigMap"}},
			{Patch: "{apiVersion: batch/v1, kind: Job, metadata: {name: hook}, spec: {backoffLimit: 1}}"},
			{Patch: "{apiVersion: v1, kind: Pod, metadata: {name: test}, spec: {nodeName: n}}"},
			{Patch: "- {op: remove, path: /metadata}", Target: &kustomize.Selector{Kind: "CustomResourceDefinition"}},
		},
		Labels: map[string]string{"team": "a"},
	}
	out, err := Render(t.Context(), in)
	if err != nil || len(out.Definitions) != 1 || len(out.Before) != 1 || len(out.Objects) != 1 || len(out.After) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	before, service, after := out.Before[0], out.Objects[0], out.After[0]
	if before.GetName() != "web" || before.GetLabels()["team"] != "a" || service.GetLabels()["team"] != "a" || service.GetLabels()[managedBy] != "mlkeeper" {
		t.Errorf("%v, %v", before.Object, service.Object)
	}
	spec, _ := after.Object["spec"].(map[string]any)
	if spec["backoffLimit"] != int64(1) || after.GetLabels()["team"] != "a" || out.Definitions[0].GetLabels() != nil {
		t.Errorf("%v, %v", after.Object, out.Definitions[0].Object)
	}
}

// TestAdjustmentsThatAreWrong holds that the error of a patch comes out of the process as one, without what may be secret.
func TestAdjustmentsThatAreWrong(t *testing.T) {
	in := input(chartOf(t, adjustable), nil)
	in.Adjustments.Patches = []kustomize.Patch{{Patch: "- {op: remove, path: /none}", Target: &kustomize.Selector{Kind: "Service"}}}
	for secret, why := range map[bool]string{false: "nonexistent key: none", true: "why is left out"} {
		in.Secret = secret
		var wrong *kustomize.FieldError
		if _, err := Render(t.Context(), in); !errors.As(err, &wrong) || wrong.Field != "patches[0]" || !strings.Contains(wrong.Why, why) {
			t.Errorf("secret %t: %v", secret, err)
		}
	}
	in.Chart = chartOf(t, "-- templates/a.yaml --\n{apiVersion: v1, kind: Service, metadata: {name: web, labels: {a: 1, b: c}}}\n")
	in.Adjustments = kustomize.Adjustments{Labels: map[string]string{"team": "a"}}
	if _, err := Render(t.Context(), in); err == nil || !strings.Contains(err.Error(), "templates/a.yaml: Service web: metadata.labels.a is a number") {
		t.Errorf("%v", err)
	}
}

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

const (
	resource = `{apiVersion: trustyai.opendatahub.io/v1, kind: TrustyAIService, metadata: {name: example}, spec: {storage: {format: PVC, folder: /a, size: 1Gi},
data: {filename: a.csv, format: CSV}, metrics: {schedule: 5s}}}`
	password = "{apiVersion: v1, kind: Secret, metadata: {name: given}, stringData: {key: value}}"
)

// referring renders a ConfigMap with what the Secret "given" has.
func referring(read controller.Reader, cr *v1.TrustyAIService) (plan.Plan, error) {
	found, err := read.Referenced(nil, secretGVK, cr.Namespace, "given") //nolint:staticcheck // the reader without a cluster uses no context
	if err != nil || found == nil {
		return plan.Plan{Problems: []plan.Problem{{Class: plan.Waiting, Reason: "Unreachable", Field: "spec.x", Message: "the server does not answer"}}}, err
	}
	data, _, _ := unstructured.NestedString(found.Object, "data", "key")
	return plan.Plan{Stages: []plan.Stage{{Name: "only", Objects: []plan.Object{{
		Desired: object(configGVK, cr.Namespace, "out", map[string]any{"data": map[string]any{"key": data}}),
	}}}}}, nil
}

func TestRenderTakesWhatTheFileRefersTo(t *testing.T) {
	env := environment(fakeController{render: referring}, nil)
	env.Connection = &Connection{}
	folder := t.TempDir()
	for name, text := range map[string]string{"b.yaml": resource, "a.yml": password, "c.yaml": "# nothing yet\n", "notes.txt": "no manifest"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, args := range map[string][]string{
		"one file":  {"-f", "-"},
		"two files": {"-f", filepath.Join(folder, "b.yaml"), "-f", filepath.Join(folder, "a.yml")},
		"folder":    {"-f", folder},
	} {
		stdout, stderr, err := run(t, NewRenderCommand(env), password+"\n---\n"+resource, args...)
		if err != nil || !strings.Contains(stdout, "key: dmFsdWU=") {
			t.Errorf("%s: %v\n%s%s", name, err, stdout, stderr)
		}
	}
	for name, one := range map[string]struct{ stdin, want string }{
		"no custom resource":   {password, "no controller for kind \"Secret\""},
		"kind that is unknown": {password + "\n---\n" + strings.Replace(resource, "TrustyAIService", "TrustyAIServer", 1), "no controller for kind \"TrustyAIServer\""},
		"object without name":  {"{apiVersion: v1, kind: Secret}\n---\n" + resource, "has no name"},
	} {
		if _, _, err := run(t, NewRenderCommand(env), one.stdin, "-f", "-"); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := run(t, NewRenderCommand(env), "", "-f", filepath.Join(folder, "c.yaml")); err == nil || !strings.Contains(err.Error(), "c.yaml: there is no object") {
		t.Errorf("nothing but comments: %v", err)
	}
	if _, _, err := run(t, NewRenderCommand(env), "", "-f", t.TempDir()); err == nil || !strings.Contains(err.Error(), "no file that ends with .yaml") {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestRenderTellsWhatItCouldNotFetch leaves the Secret out: the source that needs it cannot be fetched.
func TestRenderTellsWhatItCouldNotFetch(t *testing.T) {
	env := environment(fakeController{render: referring}, nil)
	env.Connection = &Connection{}
	_, stderr, err := run(t, NewRenderCommand(env), resource, "-f", "-")
	if status(err) != 3 || !strings.Contains(err.Error(), "could not be rendered yet") || !strings.Contains(stderr, "pending: ") {
		t.Errorf("%v\n%s", err, stderr)
	}
}

package cli

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
)

const manifest = `apiVersion: trustyai.opendatahub.io/v1alpha1
kind: TrustyAIService
metadata:
  name: example
spec:
  storage: {format: PVC, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  trustyaiMetrics: {schedule: 5s}
`

func renderOffline(t *testing.T, r fakeController, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	env := environment(r, nil)
	return run(t, NewRenderCommand(env), stdin, append([]string{"-f", "-"}, args...)...)
}

func TestRenderYAML(t *testing.T) {
	stdout, stderr, err := renderOffline(t, fakeController{}, manifest, "-n", "models")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "render.golden.yaml", stdout)
	if !strings.Contains(stderr, "warning: TrustyAIService models/example: replicas: 1") {
		t.Errorf("the defaults of the definition are not applied: %s", stderr)
	}
}

func TestRenderJSON(t *testing.T) {
	stdout, _, err := renderOffline(t, fakeController{}, manifest, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "render.golden.json", stdout)
}

// TestRenderPrintsNotes holds that how a plan was made is said, in every format, and fails nothing.
func TestRenderPrintsNotes(t *testing.T) {
	noted := fakeController{render: func(read controller.Reader, cr *v1.TrustyAIService) (plan.Plan, error) {
		p, err := simplePlan(read, cr)
		p.Notes = []string{"rendering Kustomize, since I say so"}
		return p, err
	}}
	for _, format := range []string{"yaml", "json"} {
		_, stderr, err := renderOffline(t, noted, manifest, "-n", "models", "-o", format)
		if err != nil || !strings.Contains(stderr, "note: TrustyAIService models/example: rendering Kustomize, since I say so\n") {
			t.Errorf("%s: %v, %s", format, err, stderr)
		}
	}
}

func TestRenderHidesSecrets(t *testing.T) {
	for _, format := range []string{"yaml", "json"} {
		stdout, stderr, err := renderOffline(t, fakeController{}, manifest, "-o", format)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(stdout+stderr, "hunter2") || strings.Contains(stdout+stderr, "aHVudGVyMg==") {
			t.Errorf("%s shows a secret:\n%s", format, stdout)
		}
		stdout, _, err = renderOffline(t, fakeController{}, manifest, "-o", format, "--show-secrets")
		if err != nil || !strings.Contains(stdout, "hunter2") || !strings.Contains(stdout, "aHVudGVyMg==") {
			t.Errorf("%s does not show a secret when asked to: %v\n%s", format, err, stdout)
		}
	}
}

func TestRedact(t *testing.T) {
	for name, data := range map[string]any{"map": map[string]any{"a": "s3cret"}, "odd": "s3cret", "list": []any{"s3cret"}} {
		u := object(secretGVK, "ns", "x", map[string]any{"data": data, "stringData": data})
		redact(u)
		raw, err := u.MarshalJSON()
		if err != nil || strings.Contains(string(raw), "s3cret") {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
	}
	other := object(schema.GroupVersionKind{Group: "x.io", Version: "v1", Kind: "Secret"}, "ns", "x", map[string]any{"data": "shown"})
	redact(other)
	if other.Object["data"] != "shown" {
		t.Error("a foreign kind named Secret is redacted")
	}
}

func TestRenderLeavesOutWhatIsNotServed(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		served bool
	}{
		"all":           {nil, true},
		"none":          {[]string{"--all-apis=false"}, false},
		"named":         {[]string{"--api", "route.openshift.io/v1/Route"}, true},
		"another":       {[]string{"--api", "x.io/v1/X"}, false},
		"another + all": {[]string{"--api", "x.io/v1/X", "--all-apis"}, true},
	} {
		stdout, stderr, err := renderOffline(t, fakeController{}, manifest, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(stdout, "kind: Route") != c.served || strings.Contains(stderr, "skipped: ") == c.served {
			t.Errorf("%s: served is not %v:\n%s%s", name, c.served, stdout, stderr)
		}
		if !strings.Contains(stdout, "kind: Deployment") {
			t.Errorf("%s: a built-in kind is left out", name)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		args []string
		want []string
	}{
		"another kind": {"apiVersion: v1\nkind: Pod\nmetadata: {name: \"x\\e[31m\"}", nil, []string{
			`no controller for kind "Pod" of apiVersion "v1"`, "TrustyAIService (trustyai.opendatahub.io/v1)",
			"TrustyAIService (trustyai.opendatahub.io/v1alpha1)",
		}},
		"another version": {strings.Replace(manifest, "v1alpha1", "v9", 1), nil, []string{`apiVersion "trustyai.opendatahub.io/v9"`}},
		"schema": {strings.Replace(manifest, "format: PVC", "format: FLOPPY", 1), nil, []string{
			"spec.storage.format", `"FLOPPY"`, `"PVC", "DATABASE"`,
		}},
		"rule": {strings.Replace(manifest, "  data: {filename: data.csv, format: CSV}\n", "", 1), nil, []string{
			"spec.data is required with spec.trustyaiMetrics",
		}},
		"name":            {strings.Replace(manifest, "example", "Exam_ple", 1), nil, []string{"metadata.name", "RFC 1123"}},
		"no name":         {strings.Replace(manifest, "name: example", "labels: {}", 1), nil, []string{"metadata.name"}},
		"twice":           {manifest + "---\n" + manifest, nil, []string{"the input contains it twice"}},
		"other namespace": {strings.Replace(manifest, "name: example", "{name: example, namespace: a}", 1), []string{"-n", "b"}, []string{`"a" and --namespace is "b"`}},
		"output":          {manifest, []string{"-o", "xml"}, []string{"use yaml or json"}},
		"api":             {manifest, []string{"--api", "v1/Route"}, []string{"use GROUP/VERSION/KIND"}},
	} {
		stdout, _, err := renderOffline(t, fakeController{}, c.in, c.args...)
		if err == nil || stdout != "" {
			t.Errorf("%s: no error, output %q", name, stdout)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error lacks %q: %v", name, want, err)
			}
		}
	}
	_, _, err := renderOffline(t, fakeController{}, "kind: A\napiVersion: v1\n---\nkind: B\napiVersion: v1\n")
	if err == nil || !strings.Contains(err.Error(), `"A"`) || !strings.Contains(err.Error(), `"B"`) {
		t.Errorf("not every refused document is named: %v", err)
	}
}

func TestRenderDropsUnknownFieldsWithAWarning(t *testing.T) {
	_, stderr, err := renderOffline(t, fakeController{}, manifest+"  bogus: 1\nstatus: {phase: Ready}\n")
	if err != nil || !strings.Contains(stderr, `unknown field "spec.bogus" is dropped`) {
		t.Errorf("%v\n%s", err, stderr)
	}
}

func TestRenderProblems(t *testing.T) {
	problem := func(class plan.Class) fakeController {
		return fakeController{render: func(_ controller.Reader, _ *v1.TrustyAIService) (plan.Plan, error) {
			return plan.Plan{Problems: []plan.Problem{{
				Class: class, Reason: "Absent", Field: "spec.storage.pv", Value: "my\x1bpv", Message: "is not there", Remedy: "make it",
			}}}, nil
		}}
	}
	_, stderr, err := renderOffline(t, problem(plan.Terminal), manifest)
	want := `problem: TrustyAIService default/example: Absent: spec.storage.pv (my\u001bpv): is not there; make it`
	if err == nil || !strings.Contains(stderr, want) {
		t.Errorf("%v\n%s", err, stderr)
	}
	_, stderr, err = renderOffline(t, problem(plan.Waiting), manifest)
	if err != nil || !strings.Contains(stderr, "pending: ") {
		t.Errorf("offline, where nothing exists, waiting is no failure: %v\n%s", err, stderr)
	}
	c, _ := fakeCluster(t, []schema.GroupVersionKind{serviceKind})
	if _, _, err = run(t, NewRenderCommand(environment(problem(plan.Waiting), c)), manifest, "-f", "-"); err == nil {
		t.Error("with a cluster, waiting is a problem")
	}
}

// siblingsController returns a controller that renders nothing and notes the siblings of each custom resource in a warning.
func siblingsController() fakeController {
	return fakeController{render: func(read controller.Reader, cr *v1.TrustyAIService) (plan.Plan, error) {
		var names []string
		for _, s := range read.Siblings() {
			order := "younger"
			if s.GetCreationTimestamp().Time.Before(cr.CreationTimestamp.Time) {
				order = "older"
			}
			names = append(names, order+" "+s.GetName())
		}
		return plan.Plan{Warnings: []string{"siblings: " + strings.Join(names, ", ")}}, nil
	}}
}

func TestRenderKnowsTheOthersOfTheFile(t *testing.T) {
	other := strings.Replace(manifest, "name: example", "name: other", 1)
	elsewhere := strings.Replace(manifest, "name: example", "{name: far, namespace: far}", 1)
	_, stderr, err := renderOffline(t, siblingsController(), manifest+"---\n"+other+"---\n"+elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"default/example: siblings: younger other\n", "default/other: siblings: older example\n", "far/far: siblings: \n",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is missing in:\n%s", want, stderr)
		}
	}
}

func TestRenderIsYoungerThanTheCluster(t *testing.T) {
	c, _ := fakeCluster(t, []schema.GroupVersionKind{serviceKind}, liveService("old", "f", now.Format(time.RFC3339)))
	_, stderr, err := run(t, NewRenderCommand(environment(siblingsController(), c)), manifest, "-f", "-")
	if err != nil || !strings.Contains(stderr, "siblings: older old\n") {
		t.Errorf("%v\n%s", err, stderr)
	}
}

func liveService(name, uid, created string) *unstructured.Unstructured {
	u := object(serviceKind, "default", name, map[string]any{"spec": map[string]any{
		"storage":         map[string]any{"format": "PVC", "folder": "/inputs", "size": "1Gi", "pv": "one"},
		"data":            map[string]any{"filename": "data.csv", "format": "CSV"},
		"trustyaiMetrics": map[string]any{"schedule": "5s"},
	}, "status": map[string]any{"phase": "Ready"}})
	_ = unstructured.SetNestedField(u.Object, uid, "metadata", "uid")
	_ = unstructured.SetNestedField(u.Object, created, "metadata", "creationTimestamp")
	return u
}

func TestRenderAgainstACluster(t *testing.T) {
	config := object(configGVK, "default", "config", map[string]any{"data": map[string]any{"a": "b"}})
	config.SetLabels(map[string]string{"keeper.mlkeeper.dev/controller": "trustyai"})
	c, _ := fakeCluster(t, []schema.GroupVersionKind{serviceKind, configGVK, deployGVK},
		liveService("example", "1", "2025-01-01T00:00:00Z"), liveService("old", "2", "2020-01-01T00:00:00Z"), config)
	r := fakeController{
		wires: []wiring.Wire{{Name: "w", GVK: configGVK}},
		render: func(read controller.Reader, cr *v1.TrustyAIService) (plan.Plan, error) {
			first, err := read.Referenced(t.Context(), configGVK, "default", "config")
			if err != nil || first == nil {
				t.Errorf("Referenced: %v, %v", first, err)
			}
			absent, err := read.Referenced(t.Context(), configGVK, "default", "absent")
			if err != nil || absent != nil {
				t.Errorf("Referenced of an absent object: %v, %v", absent, err)
			}
			if o := read.Child(configGVK, "default", "config"); o == nil || o.Name != "config" {
				t.Errorf("Child: %v", o)
			}
			if !read.Serves(configGVK) || read.Serves(routeGVK) {
				t.Error("Serves does not tell what the cluster serves")
			}
			if all := read.Targets("w", "default"); len(all) != 1 {
				t.Errorf("Targets: %v", all)
			}
			if all := read.Siblings(); len(all) != 1 || all[0].GetName() != "old" {
				t.Errorf("Siblings: %v", all)
			}
			if cr.UID != "1" || cr.Status.Phase != "Ready" {
				t.Errorf("the live identity and status are not kept: %s, %s", cr.UID, cr.Status.Phase)
			}
			return simplePlan(read, cr)
		},
	}
	same := strings.Replace(manifest, "size: 1Gi", "size: 1Gi, pv: one", 1)
	stdout, stderr, err := run(t, NewRenderCommand(environment(r, c)), same, "-f", "-")
	if err != nil || strings.Contains(stdout, "kind: Route") || !strings.Contains(stderr, "route.openshift.io/v1 is not served") {
		t.Errorf("%v\n%s%s", err, stdout, stderr)
	}
	_, _, err = run(t, NewRenderCommand(environment(r, c)), strings.Replace(same, "pv: one", "pv: two", 1), "-f", "-")
	if err == nil || !strings.Contains(err.Error(), "spec.storage.pv must stay one") {
		t.Errorf("a change that the API server refuses is rendered: %v", err)
	}
}

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/plan"
)

// written is a child as the engine would have written it, by a POST, for the service.
func written(t *testing.T, owner *unstructured.Unstructured, o plan.Object, fields string) *unstructured.Unstructured {
	t.Helper()
	stack := plan.Stack{Controller: "trustyai", GVK: serviceKind, Namespace: owner.GetNamespace(), Name: owner.GetName(), UID: owner.GetUID()}
	stamped, err := plan.Stamp(digest.Key{}, o, stack, plan.Owner{
		APIVersion: serviceKind.GroupVersion().String(), Kind: serviceKind.Kind, Name: owner.GetName(), UID: owner.GetUID(),
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	u := stamped.Desired
	u.SetUID("of-" + u.GetUID())
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "mlkeeper", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: u.GetAPIVersion(), FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields),
	}})
	return u
}

// declared is what the controller of these tests declares: a Secret, a Deployment and a ConfigMap.
func declared(_ controller.Reader, cr *v1.TrustyAIService) (plan.Plan, error) {
	return plan.Plan{Stages: []plan.Stage{{Name: "all", Objects: []plan.Object{
		{Desired: object(secretGVK, cr.Namespace, "secret", map[string]any{
			"data": map[string]any{"same": "c2FtZQ==", "other": "bmV3"}, "stringData": map[string]any{"plain": "hunter2"},
		})},
		{Desired: object(deployGVK, cr.Namespace, "d", map[string]any{"spec": map[string]any{"replicas": int64(2)}})},
		{Desired: object(configGVK, cr.Namespace, "new", map[string]any{"data": map[string]any{"a": "1"}})},
		{Desired: object(configGVK, cr.Namespace, "theirs", map[string]any{"data": map[string]any{"a": "1"}})},
		{Optional: true, Desired: object(routeGVK, cr.Namespace, "r", nil)},
	}}}}, nil
}

const metaFields = `"f:metadata":{"f:annotations":{"f:keeper.mlkeeper.dev/applied-hash":{},"f:keeper.mlkeeper.dev/owner":{}},` +
	`"f:labels":{"f:keeper.mlkeeper.dev/controller":{},"f:keeper.mlkeeper.dev/stack":{}}}`

// compared is a cluster that differs from what is declared.
func compared(t *testing.T) (*cluster, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	u := liveService("s", "1", "2026-01-01T03:04:05Z")
	u.SetResourceVersion("7")
	secret := written(t, u, plan.Object{Desired: object(secretGVK, "default", "secret", map[string]any{
		"data": map[string]any{"same": "c2FtZQ==", "other": "b2xk", "gone": "Z29uZQ=="},
	})}, `{"f:data":{"f:same":{},"f:other":{},"f:gone":{}},`+metaFields+`}`)
	d := written(t, u, plan.Object{Desired: object(deployGVK, "default", "d", map[string]any{
		"spec": map[string]any{"replicas": int64(1), "paused": true},
	})}, `{"f:spec":{"f:replicas":{}},`+metaFields+`}`)
	// Somebody else paused it.
	d.SetManagedFields(append(d.GetManagedFields(), metav1.ManagedFieldsEntry{
		Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:paused":{}}}`),
	}))
	old := written(t, u, plan.Object{Desired: object(configGVK, "default", "old", map[string]any{"data": map[string]any{"b": "2"}})},
		`{"f:data":{"f:b":{}},`+metaFields+`}`)
	theirs := object(configGVK, "default", "theirs", map[string]any{"data": map[string]any{"c": "3"}})
	c, dyn := fakeCluster(t, statusKinds, u, secret, d, old, theirs)
	return c, dyn
}

// tried answers dry runs as an API server does, and fails the test at any other write.
func tried(t *testing.T, dyn *dynamicfake.FakeDynamicClient, answer func(*unstructured.Unstructured) (runtime.Object, error)) {
	t.Helper()
	for _, verb := range []string{"create", "patch", "delete", "delete-collection"} {
		dyn.PrependReactor(verb, "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
			return true, nil, errors.New("nothing is written")
		})
	}
	dyn.PrependReactor("update", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		update := a.(clienttesting.UpdateActionImpl)
		if len(update.UpdateOptions.DryRun) != 1 || update.UpdateOptions.DryRun[0] != metav1.DryRunAll {
			t.Errorf("an update that is no dry run: %+v", update.UpdateOptions)
		}
		out, err := answer(update.GetObject().(*unstructured.Unstructured).DeepCopy())
		return true, out, err
	})
}

func status(err error) int {
	var exit *Exit
	if errors.As(err, &exit) {
		return exit.Status
	}
	if err != nil {
		return 1
	}
	return 0
}

func TestDiff(t *testing.T) {
	c, dyn := compared(t)
	tried(t, dyn, func(u *unstructured.Unstructured) (runtime.Object, error) {
		if u.GetKind() == "Deployment" {
			// What the API server defaults is no difference.
			u.Object["spec"].(map[string]any)["revisionHistoryLimit"] = int64(10)
		}
		return u, nil
	})
	env := environment(fakeController{render: declared}, c)
	stdout, stderr, err := run(t, NewDiffCommand(env), "", "tas/s")
	if status(err) != exitDifferent || err.Error() != "" || stderr != "skipped: TrustyAIService default/s: Route default/r, since route.openshift.io/v1 is not served\n" {
		t.Errorf("%v\n%s", err, stderr)
	}
	golden(t, "diff.golden.txt", stdout)
	for _, value := range []string{"hunter2", "aHVudGVyMg==", "bmV3", "b2xk", "Z29uZQ", "c2FtZQ"} {
		if strings.Contains(stdout, value) {
			t.Errorf("the value %s of a Secret is printed", value)
		}
	}
	stdout, _, err = run(t, NewDiffCommand(env), "", "tas/s", "-o", "json")
	var report DiffReport
	if status(err) != exitDifferent || json.Unmarshal([]byte(stdout), &report) != nil || len(report.Objects) != 6 {
		t.Errorf("%v\n%s", err, stdout)
	}
	env.Terminal = &Terminal{colorAlways}
	stdout, _, err = run(t, NewDiffCommand(env), "", "tas/s", "-o", "summary")
	if status(err) != exitDifferent || strings.Contains(stdout, "@@") || !strings.Contains(stdout, "\x1b[31m") {
		t.Errorf("%v\n%s", err, stdout)
	}
}

func TestDiffWithoutTheRightToTry(t *testing.T) {
	c, dyn := compared(t)
	tried(t, dyn, func(u *unstructured.Unstructured) (runtime.Object, error) {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: strings.ToLower(u.GetKind())}, u.GetName(), errors.New("no"))
	})
	stdout, stderr, err := run(t, NewDiffCommand(environment(fakeController{render: declared}, c)), "", "tas/s")
	if status(err) != exitDifferent || !strings.Contains(stderr, "no dry run of Deployments is possible") {
		t.Errorf("%v\n%s", err, stderr)
	}
	golden(t, "diff-forbidden.golden.txt", stdout)
}

func TestDiffOfWhatTheAPIServerWouldRefuse(t *testing.T) {
	c, dyn := compared(t)
	tried(t, dyn, func(u *unstructured.Unstructured) (runtime.Object, error) {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: u.GetKind()}, u.GetName()+" hunter2", nil)
	})
	stdout, stderr, err := run(t, NewDiffCommand(environment(fakeController{render: declared}, c)), "", "tas/s")
	if status(err) != exitFailed || !strings.Contains(err.Error(), "Deployment default/d: the API server would refuse it") {
		t.Errorf("%v\n%s", err, stderr)
	}
	for line := range strings.Lines(stdout + err.Error()) {
		if strings.Contains(line, "Secret") && strings.Contains(line, "hunter2") {
			t.Errorf("an answer about a Secret is quoted: %s", line)
		}
	}
}

func TestDiffOfWhatIsAsDeclared(t *testing.T) {
	u := liveService("s", "1", "2026-01-01T03:04:05Z")
	u.SetResourceVersion("7")
	render := func(_ controller.Reader, cr *v1.TrustyAIService) (plan.Plan, error) {
		return plan.Plan{Stages: []plan.Stage{{Name: "all", Objects: []plan.Object{
			{Desired: object(configGVK, cr.Namespace, "c", map[string]any{"data": map[string]any{"a": "1"}})},
		}}}}, nil
	}
	p, _ := render(nil, &v1.TrustyAIService{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}})
	child := written(t, u, p.Stages[0].Objects[0], `{"f:data":{"f:a":{}},`+metaFields+`}`)
	c, dyn := fakeCluster(t, statusKinds, u, child)
	tried(t, dyn, func(u *unstructured.Unstructured) (runtime.Object, error) { return u, nil })
	stdout, stderr, err := run(t, NewDiffCommand(environment(fakeController{render: render}, c)), "", "tas/s")
	if err != nil || stderr != "" || !strings.Contains(stdout, "0 created, 0 changed, 0 deleted, 1 unchanged") {
		t.Errorf("%v\n%s%s", err, stderr, stdout)
	}
}

// What the engine lets stay is not shown as deleted, nor what is suspended as changed.
func TestDiffOfWhatStays(t *testing.T) {
	config := func(name, value string) plan.Object {
		return plan.Object{Desired: object(configGVK, "default", name, map[string]any{"data": map[string]any{"a": value}})}
	}
	misspelled := plan.Object{Desired: object(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMapp"}, "default", "new", nil)}
	for name, c := range map[string]struct {
		stage   plan.Stage
		deleted string
	}{
		"replaced":                        {plan.Stage{Name: "all", Objects: []plan.Object{config("new", "1")}}, "1 created, 0 changed, 1 deleted"},
		"of a kind that is not served":    {plan.Stage{Name: "all", Objects: []plan.Object{misspelled}}, " 0 changed, 0 deleted"},
		"of a stage that renders nothing": {plan.Stage{Name: "all", KeepsPruned: true}, "0 created, 0 changed, 0 deleted"},
		"suspended":                       {plan.Stage{Name: "all", Suspended: true, Objects: []plan.Object{config("old", "2")}}, "0 created, 0 changed, 0 deleted"},
		"suspended, and not served":       {plan.Stage{Name: "all", Suspended: true, Objects: []plan.Object{misspelled}}, " 0 changed, 1 deleted"},
	} {
		u := liveService("s", "1", "2026-01-01T03:04:05Z")
		u.SetResourceVersion("7")
		old := written(t, u, config("old", "1"), `{"f:data":{"f:a":{}},`+metaFields+`}`)
		dynamic, dyn := fakeCluster(t, statusKinds, u, old)
		tried(t, dyn, func(u *unstructured.Unstructured) (runtime.Object, error) { return u, nil })
		render := func(controller.Reader, *v1.TrustyAIService) (plan.Plan, error) {
			return plan.Plan{Stages: []plan.Stage{c.stage}}, nil
		}
		stdout, stderr, err := run(t, NewDiffCommand(environment(fakeController{render: render}, dynamic)), "", "tas/s", "-o", "summary")
		if status(err) == exitFailed || !strings.Contains(stdout, c.deleted) {
			t.Errorf("%s: %v\n%s%s", name, err, stderr, stdout)
		}
	}
}

// The operator records hashes with a key that nobody else has. Who may only read is told of no difference nevertheless, and of no dry run that
// is not possible, and a Job that has completed and is gone is not shown as created.
func TestDiffOfWhatIsRecordedWithAKey(t *testing.T) {
	u := liveService("s", "1", "2026-01-01T03:04:05Z")
	u.SetResourceVersion("7")
	jobGVK := schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	config := plan.Object{Desired: object(configGVK, "default", "c", map[string]any{"data": map[string]any{"a": "1"}})}
	job := plan.Object{Desired: object(jobGVK, "default", "j", map[string]any{"spec": map[string]any{"parallelism": int64(1)}})}
	child := written(t, u, config, `{"f:data":{"f:a":{}},`+metaFields+`}`)
	entry := func(gvk schema.GroupVersionKind, name string, completed bool) any {
		return map[string]any{
			"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind, "namespace": "default", "name": name, "uid": "u", "completed": completed,
			"appliedHash": "keyed:12345678:0123", "ownedFieldsHash": "keyed:12345678:4567",
		}
	}
	if err := unstructured.SetNestedSlice(u.Object, []any{entry(configGVK, "c", false), entry(jobGVK, "j", true)}, "status", "inventory", "entries"); err != nil {
		t.Fatal(err)
	}
	render := func(controller.Reader, *v1.TrustyAIService) (plan.Plan, error) {
		return plan.Plan{Stages: []plan.Stage{{Name: "all", Objects: []plan.Object{config, job}}}}, nil
	}
	c, dyn := fakeCluster(t, append(slices.Clone(statusKinds), jobGVK), u, child)
	tried(t, dyn, func(u *unstructured.Unstructured) (runtime.Object, error) {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: strings.ToLower(u.GetKind())}, u.GetName(), errors.New("no"))
	})
	stdout, stderr, err := run(t, NewDiffCommand(environment(fakeController{render: render}, c)), "", "tas/s")
	if err != nil || stderr != "" || !strings.Contains(stdout, "0 created, 0 changed, 0 deleted, 2 unchanged") {
		t.Errorf("%v\n%s%s", err, stderr, stdout)
	}
}

// The key of the digests is the operator's alone: a diff takes the live digests, and shows a new one redacted.
func TestDiffShowsNoDigestThatItCannotCompute(t *testing.T) {
	u := liveService("s", "1", "2026-01-01T03:04:05Z")
	u.SetResourceVersion("7")
	deployment := func(name string, annotations map[string]any) plan.Object {
		return plan.Object{Desired: object(deployGVK, "default", name, map[string]any{
			"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": annotations}}},
		})}
	}
	var read controller.Reader
	render := func(r controller.Reader, _ *v1.TrustyAIService) (plan.Plan, error) {
		read = r
		password := map[string][]byte{"password": []byte("hunter2")}
		return plan.Plan{Stages: []plan.Stage{{Name: "all", Objects: []plan.Object{
			deployment("same", map[string]any{"credentials": r.Digest(password), "stars": "***"}),
			deployment("new", map[string]any{"credentials": r.Digest(password)}),
		}}}}, nil
	}
	child := written(t, u, deployment("same", map[string]any{"credentials": "0123abcd", "stars": "***"}),
		`{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:credentials":{},"f:stars":{}}}}},`+metaFields+`}`)
	c, dyn := fakeCluster(t, statusKinds, u, child)
	tried(t, dyn, func(u *unstructured.Unstructured) (runtime.Object, error) { return u, nil })
	stdout, stderr, err := run(t, NewDiffCommand(environment(fakeController{render: render}, c)), "", "tas/s")
	if status(err) != exitDifferent || !strings.Contains(stdout, "1 created, 0 changed, 0 deleted, 1 unchanged") ||
		!strings.Contains(stdout, "credentials: '***'") {
		t.Errorf("%v\n%s%s", err, stderr, stdout)
	}
	if got := read.Digest(map[string][]byte{"password": []byte("another")}); got != read.Digest() {
		t.Errorf("a digest without the key is %s", got)
	}
}

func TestDiffOfAFile(t *testing.T) {
	c, dyn := fakeCluster(t, statusKinds)
	tried(t, dyn, func(u *unstructured.Unstructured) (runtime.Object, error) { return u, nil })
	stdout, _, err := run(t, NewDiffCommand(environment(fakeController{render: declared}, c)), adrManifest, "-f", "-", "-n", "models")
	if status(err) != exitDifferent || !strings.Contains(stdout, "4 created, 0 changed, 0 deleted, 0 unchanged, 1 skipped") ||
		!strings.Contains(stdout, "+  replicas: 2") {
		t.Errorf("%v\n%s", err, stdout)
	}
	for _, args := range [][]string{{}, {"-f", "-", "tas/s"}, {"-o", "nothing", "tas/s"}, {"--nonsense"}, {"tas/absent"}, {"a", "b"}} {
		if _, _, err := run(t, NewDiffCommand(environment(fakeController{render: declared}, c)), "", args...); status(err) != exitFailed {
			t.Errorf("%v: %v", args, err)
		}
	}
}

const adrManifest = `
apiVersion: trustyai.opendatahub.io/v1alpha1
kind: TrustyAIService
metadata: {name: s}
spec:
  storage: {format: PVC, folder: /inputs, pv: mypv, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  trustyaiMetrics: {schedule: 15s}
`

func TestUnified(t *testing.T) {
	lines := func(text string) []string {
		if text == "" {
			return nil
		}
		return strings.Split(text, " ")
	}
	for _, c := range []struct{ a, b, want string }{
		{"", "", ""},
		{"a b", "a b", ""},
		{"", "a b", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"a b", "", "@@ -1,2 +0,0 @@\n-a\n-b\n"},
		{"a b c", "a x c", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"1 2 3 4 5 6 7 8 9", "1 2 3 4 x 6 7 8 9", "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"},
		{"a 1 2 3 4 5 6 7 8 b", "x 1 2 3 4 5 6 7 8 y", "@@ -1,4 +1,4 @@\n-a\n+x\n 1\n 2\n 3\n@@ -7,4 +7,4 @@\n 6\n 7\n 8\n-b\n+y\n"},
		{"a 1 2 3 4 5 6 b", "x 1 2 3 4 5 6 y", "@@ -1,8 +1,8 @@\n-a\n+x\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+y\n"},
	} {
		if got := unified(lines(c.a), lines(c.b)); got != c.want {
			t.Errorf("%q and %q:\n%s", c.a, c.b, got)
		}
	}
	var a, b []string
	for i := range 3000 {
		a, b = append(a, fmt.Sprint("a", i)), append(b, fmt.Sprint("b", i))
	}
	if got := unified(a, b); !strings.HasPrefix(got, "@@ -1,3000 +1,3000 @@\n-a0\n") {
		t.Errorf("of texts that are too long to be compared: %.60q", got)
	}
}

func TestWithin(t *testing.T) {
	small := map[string]any{"a": "1", "l": []any{map[string]any{"b": int64(2)}}}
	large := map[string]any{"a": "1", "l": []any{map[string]any{"b": int64(2), "c": "default"}}, "d": true}
	if !isSubset(small, large) || isSubset(large, small) || isSubset([]any{"a"}, []any{"a", "b"}) || isSubset("a", map[string]any{}) {
		t.Error("what holds what is not seen")
	}
}

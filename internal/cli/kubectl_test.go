package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

func TestKindAndNameMayStandApart(t *testing.T) {
	c, _ := fakeCluster(t, explainKinds, statusObjects()...)
	env := environment(fakeController{}, c)
	for name, create := range map[string]func(Environment) *cobra.Command{
		"tree": NewTreeCommand, "explain": NewExplainCommand, "wait": NewWaitCommand, "diff": NewDiffCommand, "events": NewEventsCommand, "logs": NewLogsCommand,
		"suspend": NewSuspendCommand, "resume": NewResumeCommand, "reconcile": NewReconcileCommand,
	} {
		for _, args := range [][]string{{"tas/absent"}, {"tas", "absent"}} {
			if _, stderr, err := run(t, create(env), "", args...); err == nil || !strings.Contains(err.Error()+stderr, `"absent"`) {
				t.Errorf("%s %v: %v", name, args, err)
			}
		}
		for _, args := range [][]string{{"tas/a", "b"}, {"tas"}, {"tas", "a", "b"}} {
			if _, _, err := run(t, create(env), "", args...); err == nil {
				t.Errorf("%s %v is taken", name, args)
			}
		}
	}
}

func TestReportsHaveEveryFormat(t *testing.T) {
	c, _ := fakeCluster(t, statusKinds, statusObjects()...)
	env := environment(fakeController{}, c)
	for output, want := range map[string]string{
		"yaml":                        "stacks:\n  - apiVersion: trustyai.opendatahub.io/v1\n",
		"json":                        "{\n  \"stacks\": [\n",
		"name":                        "trustyaiservice.trustyai.opendatahub.io/",
		"jsonpath={.stacks[*].kind}":  "TrustyAIService ",
		"jsonpath=.stacks[0].nothing": "\n",
	} {
		stdout, _, err := run(t, NewStatusCommand(env), "", "-A", "-o", output)
		if err != nil || !strings.Contains(stdout, want) {
			t.Errorf("status -o %s: %v\n%s", output, err, stdout)
		}
	}
	for name, create := range map[string]func(Environment) *cobra.Command{"tree": NewTreeCommand, "explain": NewExplainCommand, "events": NewEventsCommand} {
		c, _ := fakeCluster(t, explainKinds, statusObjects()...)
		for _, output := range []string{"yaml", "json", "jsonpath={.warnings}"} {
			if stdout, _, err := run(t, create(environment(fakeController{}, c)), "", "tas/ready", "-o", output); err != nil || stdout == "" {
				t.Errorf("%s -o %s: %v", name, output, err)
			}
		}
		for _, output := range []string{"xml", "jsonpath={.warnings"} {
			if _, _, err := run(t, create(environment(fakeController{}, c)), "", "tas/ready", "-o", output); err == nil || !strings.Contains(err.Error(), "--output") {
				t.Errorf("%s -o %s: %v", name, output, err)
			}
		}
	}
	if stdout, _, err := run(t, NewVersionCommand(), "", "-o", "json"); err != nil || !strings.Contains(stdout, `"goVersion"`) {
		t.Errorf("version -o json: %v\n%s", err, stdout)
	}
}

func TestStatusTellsByItsExitCode(t *testing.T) {
	ready := withReady(liveService("s", "1", "2026-01-01T03:04:05Z"), "True", "AllComponentsReady", "fine")
	waits := withReady(liveService("t", "2", "2026-01-01T03:04:05Z"), "False", "ComponentsNotReady", "waits")
	for _, one := range []struct {
		objects []*unstructured.Unstructured
		args    []string
		want    int
	}{
		{[]*unstructured.Unstructured{ready}, []string{"--exit-code"}, 0},
		{[]*unstructured.Unstructured{ready, waits}, []string{"--exit-code"}, 1},
		{[]*unstructured.Unstructured{ready, waits}, []string{"--exit-code", "-o", "json"}, 1},
		{[]*unstructured.Unstructured{ready, waits}, nil, 0},
	} {
		c, _ := fakeCluster(t, statusKinds, one.objects...)
		if _, _, err := run(t, NewStatusCommand(environment(fakeController{}, c)), "", one.args...); status(err) != one.want {
			t.Errorf("%d resources, %v: %v", len(one.objects), one.args, err)
		}
	}
}

// read reads the custom resource as it is.
func (c *cluster) read(ctx context.Context, t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	r := &resolver{cluster: c, controllers: environment(fakeController{}, c).Controllers()}
	s, err := r.find(ctx, name, "default")
	if err != nil {
		t.Fatal(err)
	}
	return s.live
}

func TestSuspendAndResume(t *testing.T) {
	_, objects := waiting()
	c, dyn := fakeCluster(t, explainKinds, objects...)
	env := environment(fakeController{}, c)
	if stdout, stderr, err := run(t, NewSuspendCommand(env), "", "deployment/d"); err != nil || !strings.Contains(stdout, "TrustyAIService default/s is suspended") {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	if got := c.read(t.Context(), t, "tas/s").GetAnnotations()[keeper.SuspendAnnotation]; got != "true" {
		t.Errorf("the annotation is %q", got)
	}
	if _, _, err := run(t, NewReconcileCommand(env), "", "tas/s"); err == nil || !strings.Contains(err.Error(), "mlkeeper resume trustyaiservice/s -n default") {
		t.Errorf("a suspended one is to be reconciled: %v", err)
	}
	if _, _, err := run(t, NewResumeCommand(env), "", "tas/s"); err != nil {
		t.Fatal(err)
	}
	if _, found := c.read(t.Context(), t, "tas/s").GetAnnotations()[keeper.SuspendAnnotation]; found {
		t.Error("the annotation stays")
	}
	for _, a := range dyn.Actions() {
		if !slices.Contains([]string{"get", "list", "patch"}, a.GetVerb()) || a.GetVerb() == "patch" && a.GetResource() != serviceGVR {
			t.Errorf("%s of %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// TestReconcileSaysThatNobodyHandlesIt has a custom resource that is Ready, and no manager.
func TestReconcileSaysThatNobodyHandlesIt(t *testing.T) {
	u, objects := waiting()
	withReady(u, "True", "AllComponentsReady", "fine")
	c, _ := fakeCluster(t, explainKinds, objects...)
	_, _, err := run(t, NewReconcileCommand(environment(fakeController{}, c)), "", "tas/s", "--wait", "--timeout", "2s")
	if err == nil || strings.Contains(err.Error(), "is not Ready") {
		t.Fatalf("it is Ready: %v", err)
	}
	for _, want := range []string{"was not reconciled within 2s", "What to do: Check that a manager runs", "There is no lease of a manager"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q: %v", want, err)
		}
	}
}

// TestReconcileWaitsUntilItIsHandled has a custom resource that is Ready before the manager sees the request.
func TestReconcileWaitsUntilItIsHandled(t *testing.T) {
	u, objects := waiting()
	withReady(u, "True", "AllComponentsReady", "fine")
	c, dyn := fakeCluster(t, explainKinds, objects...)
	handles := prompt{"is to be reconciled", func(ctx context.Context) {
		go func() {
			// The manager takes a moment, in which the custom resource is Ready all the same.
			time.Sleep(3 * time.Second)
			live := c.read(ctx, t, "tas/s")
			_ = unstructured.SetNestedField(live.Object, live.GetAnnotations()[keeper.ReconcileAtAnnotation], "status", "lastHandledReconcileAt")
			mustUpdate(ctx, t, dyn, serviceGVR, live)
		}()
	}}
	stdout, err := runPrompted(t, NewReconcileCommand(environment(fakeController{}, c)), []prompt{handles}, "tas/s", "--wait", "--timeout", "60s")
	if err != nil || !strings.Contains(stdout, "is Ready") {
		t.Fatalf("%v\n%s", err, stdout)
	}
	if live := c.read(t.Context(), t, "tas/s"); !handled(live) || live.GetAnnotations()[keeper.ReconcileAtAnnotation] == "" {
		t.Errorf("it ended before the request was handled: %v", live.Object)
	}
}

func TestEventsAreThoseOfTheCustomResourceAndItsObjects(t *testing.T) {
	u, objects := waiting()
	about := func(apiVersion, kind, name, reason, at string) *unstructured.Unstructured {
		return object(eventKind, "default", strings.ToLower(name+"-"+reason), map[string]any{
			"involvedObject": map[string]any{"apiVersion": apiVersion, "kind": kind, "namespace": "default", "name": name},
			"type":           "Warning", "reason": reason, "message": "text of " + reason, "lastTimestamp": at,
		})
	}
	objects = append(objects,
		about("v1", "Pod", "d-7c9f-abcde", "Third", "2026-01-02T03:03:05Z"),
		about(u.GetAPIVersion(), u.GetKind(), "s", "First", "2026-01-02T03:01:05Z"),
		about("apps/v1", "Deployment", "d", "Second", "2026-01-02T03:02:05Z"),
		about("v1", "Pod", "other-1", "Foreign", "2026-01-02T03:02:05Z"),
		about("apps/v1", "Deployment", "d-2", "AlsoForeign", "2026-01-02T03:02:05Z"),
		about("apps/v1", "ReplicaSet", "d-2-7c9f", "AlsoForeign", "2026-01-02T03:02:05Z"),
		about("v1", "Pod", "d-2-7c9f-abcde", "AlsoForeign", "2026-01-02T03:02:05Z"),
	)
	c, _ := fakeCluster(t, explainKinds, objects...)
	stdout, _, err := run(t, NewEventsCommand(environment(fakeController{}, c)), "", "tas/s")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "events.golden.txt", stdout)
	stdout, stderr, err := run(t, NewEventsCommand(environment(fakeController{}, c)), "", "tas/s", "--types", "Normal")
	if err != nil || stdout != "" || !strings.Contains(stderr, "no events") {
		t.Errorf("no events: %v\n%s%s", err, stdout, stderr)
	}
	// As kubectl does, whatever the case, and no other.
	if stdout, _, err := run(t, NewEventsCommand(environment(fakeController{}, c)), "", "tas/s", "--types", "warning"); err != nil || !strings.Contains(stdout, "Third") {
		t.Errorf("--types warning: %v\n%s", err, stdout)
	}
	if _, _, err := run(t, NewEventsCommand(environment(fakeController{}, c)), "", "tas/s", "--types", "Warnings"); err == nil || !strings.Contains(err.Error(), "use Normal or Warning") {
		t.Errorf("--types Warnings: %v", err)
	}
}

// TestEventsAreToldOnce has a custom resource in the namespace default with an object in no namespace, whose events are there as well.
func TestEventsAreToldOnce(t *testing.T) {
	objects := append(statusObjects(), object(eventKind, "default", "one", map[string]any{
		"involvedObject": map[string]any{"apiVersion": serviceKind.GroupVersion().String(), "kind": serviceKind.Kind, "namespace": "default", "name": "ready"},
		"type":           "Warning", "reason": "Once", "lastTimestamp": "2026-01-02T03:03:05Z",
	}))
	for _, u := range objects {
		if u.GetKind() == inventoryKind.Kind {
			u.SetLabels(map[string]string{keeper.StackLabel: plan.Stack{GVK: serviceKind, Namespace: "default", Name: "ready"}.Hash()})
		}
	}
	c, _ := fakeCluster(t, explainKinds, objects...)
	stdout, stderr, err := run(t, NewEventsCommand(environment(fakeController{}, c)), "", "tas/ready")
	if err != nil || strings.Count(stdout, "Once") != 1 {
		t.Errorf("%v\n%s%s", err, stdout, stderr)
	}
}

func TestCompletion(t *testing.T) {
	c, _ := fakeCluster(t, statusKinds, statusObjects()...)
	env := environment(fakeController{}, c)
	for _, one := range []struct{ args, want string }{
		{"tr", "trustyaiservice/"},
		{"tas/rea", "tas/ready"},
		{"tas rea", "ready"},
		{"deployment/x", ""},
		{"tas/ready x", ""},
		{"tas/ready -o j", "json"},
	} {
		root := &cobra.Command{Use: "mlkeeper"}
		cmd := NewTreeCommand(env)
		Complete(env, cmd)
		root.AddCommand(cmd)
		stdout, _, err := run(t, root, "", append([]string{cobra.ShellCompNoDescRequestCmd, "tree"}, strings.Split(one.args, " ")...)...)
		if lines := strings.Split(stdout, "\n"); err != nil || one.want != "" && !slices.Contains(lines, one.want) || one.want == "" && !strings.HasPrefix(lines[0], ":") {
			t.Errorf("tree %s: %v\n%s", one.args, err, stdout)
		}
	}
}

// TestCompletionsDoNotHang has an API server that does not answer while somebody types.
func TestCompletionsDoNotHang(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	env := environment(fakeController{}, nil)
	env.Connection = &Connection{}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	env.Connection.Bind(flags)
	if err := flags.Parse([]string{"--server", server.URL}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	cmd := &cobra.Command{}
	if names, _ := completeNames(cmd, env, namespaceKind, "", "", ""); len(names) > 0 || time.Since(begun) > 3*completionTimeout {
		t.Errorf("%v after %s", names, time.Since(begun))
	}
}

// TestAServerThatHangsIsNotWaitedForForEver bounds the time until an answer begins, and no more: a watch lasts.
func TestAServerThatHangsIsNotWaitedForForEver(t *testing.T) {
	// An answer that begins at once begins within the limit on a busy machine, too.
	const limit, longer = 2 * time.Second, 2500 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			<-r.Context().Done()
			return
		}
		if r.URL.Query().Get("follow") == "true" {
			// A log that says nothing for a while.
			time.Sleep(longer)
		}
		w.(http.Flusher).Flush()
		time.Sleep(longer)
		fmt.Fprint(w, "late")
	}))
	defer server.Close()
	client := http.Client{Transport: answerLimit{http.DefaultTransport, limit}}
	get := func(path string) (string, error) {
		response, err := client.Get(server.URL + path)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	if _, err := get("/hangs"); err == nil || !strings.Contains(err.Error(), "--request-timeout") {
		t.Errorf("%v", err)
	}
	for _, path := range []string{"/streams", "/log?follow=true&tailLines=0"} {
		if body, err := get(path); err != nil || body != "late" {
			t.Errorf("%s, an answer that takes long: %q, %v", path, body, err)
		}
	}
}

// TestKubectlsFlagsReachTheServer impersonates, and asks another server than the kubeconfig names.
func TestKubectlsFlagsReachTheServer(t *testing.T) {
	var user, groups string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, groups = r.Header.Get("Impersonate-User"), strings.Join(r.Header.Values("Impersonate-Group"), ",")
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}],
contexts: [{name: c, context: {cluster: c}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	connection := &Connection{}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	connection.Bind(flags)
	if err := flags.Parse([]string{"--kubeconfig", path, "--server", server.URL, "--as", "ann", "--as-group", "a", "--as-group", "b", "--request-timeout", "7s"}); err != nil {
		t.Fatal(err)
	}
	if cfg, err := connection.Config(); err != nil || cfg.Timeout != 7*time.Second {
		t.Errorf("the time limit is not taken: %v", err)
	}
	if _, err := connection.open(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if user != "ann" || groups != "a,b" {
		t.Errorf("the server was asked as %q of %q", user, groups)
	}
}

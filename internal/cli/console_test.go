package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/console"
)

func consoleOf(t *testing.T, objects ...*unstructured.Unstructured) *consoleSource {
	t.Helper()
	c, _ := fakeCluster(t, explainKinds, objects...)
	env := environment(fakeController{}, c)
	r, err := newResolver(env)
	if err != nil {
		t.Fatal(err)
	}
	return newConsoleSource(r, env, "")
}

// feeding runs a view, and returns what a viewer has seen when it is as wanted.
func feeding(t *testing.T, run func(context.Context, *console.Feed) error, wanted func(rows map[string]string) bool) map[string]string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	feed := console.NewFeed()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, feed) }()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		rows := map[string]string{}
		for key, row := range feed.Rows() {
			rows[key] = string(row)
		}
		if wanted(rows) {
			return rows
		}
		select {
		case err := <-ended:
			t.Fatalf("the view ended: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the rows are %v", rows)
		}
	}
}

// overviewOf is the view of the custom resources of a namespace, or of all.
func overviewOf(s *consoleSource, namespace string) func(context.Context, *console.Feed) error {
	return func(ctx context.Context, feed *console.Feed) error { return s.Overview(ctx, namespace, feed) }
}

func TestTheOverviewHasEveryCustomResource(t *testing.T) {
	_, objects := waiting()
	s := consoleOf(t, objects...)
	rows := feeding(t, overviewOf(s, ""), func(rows map[string]string) bool { return len(rows) > 0 })
	for key, row := range rows {
		var got stackRow
		if err := json.Unmarshal([]byte(row), &got); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(key, "/default/s") || got.Kind != "TrustyAIService" || got.Group != serviceKind.Group || got.Reason != "ComponentsNotReady" || !got.Observed {
			t.Errorf("%s: %+v", key, got)
		}
	}
}

func TestAStackHasItsStagesAndObjects(t *testing.T) {
	_, objects := waiting()
	s := consoleOf(t, objects...)
	ref := console.Ref{Group: serviceKind.Group, Kind: serviceKind.Kind, Namespace: "default", Name: "s"}
	rows := feeding(t, func(ctx context.Context, feed *console.Feed) error { return s.Stack(ctx, ref, feed) }, func(rows map[string]string) bool {
		return rows["object/Deployment.apps/default/d"] != "" && rows["object/PersistentVolumeClaim/default/claim"] != ""
	})
	var deployment objectRow
	if err := json.Unmarshal([]byte(rows["object/Deployment.apps/default/d"]), &deployment); err != nil {
		t.Fatal(err)
	}
	if deployment.Group != "apps" || deployment.Name != "d" || deployment.Health != "InProgress" || rows[deployment.Parent] == "" || rows["stack"] == "" {
		t.Errorf("%+v of %v", deployment, rows)
	}
	if err := s.Stack(t.Context(), console.Ref{Group: serviceKind.Group, Kind: serviceKind.Kind, Namespace: "default", Name: "absent"}, console.NewFeed()); err == nil {
		t.Error("what does not exist is shown")
	}
	if err := s.Stack(t.Context(), console.Ref{Kind: "Secret", Namespace: "default", Name: "s"}, console.NewFeed()); err == nil {
		t.Error("a Secret is shown as a custom resource")
	}
}

// TestNoValueOfASecretIsShown has a value in the data of a Secret and in the annotation that kubectl apply writes.
func TestNoValueOfASecretIsShown(t *testing.T) {
	const canary = "hunter2"
	secret := object(secretGVK, "default", "password", map[string]any{"data": map[string]any{"key": canary}})
	secret.SetAnnotations(map[string]string{lastApplied: canary, "shown": "yes"})
	config := object(configGVK, "default", "config", map[string]any{"data": map[string]any{"key": "value"}})
	config.SetAnnotations(map[string]string{lastApplied: canary})
	s := consoleOf(t, secret, config)
	for _, one := range []struct{ kind, name, want string }{{"Secret", "password", "shown: \"yes\""}, {"ConfigMap", "config", "key: value"}} {
		got, err := s.Object(t.Context(), console.Ref{Kind: one.kind, Namespace: "default", Name: one.name})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if text := got.(*objectView).YAML; strings.Contains(string(data), canary) || !strings.Contains(text, one.want) {
			t.Errorf("%s: %s", one.kind, text)
		}
	}
}

func TestActionsOfTheConsole(t *testing.T) {
	_, objects := waiting()
	s := consoleOf(t, objects...)
	ref := console.Ref{Group: serviceKind.Group, Kind: serviceKind.Kind, Namespace: "default", Name: "s"}
	for _, verb := range []string{"suspend", "reconcile", "delete"} {
		if err := s.Act(t.Context(), ref, verb); (err == nil) != (verb == "suspend") {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if s.cluster.read(t.Context(), t, "tas/s").GetAnnotations()[keeper.SuspendAnnotation] != "true" {
		t.Error("it is not suspended")
	}
	s.namespace = "other"
	if err := s.Act(t.Context(), ref, "resume"); err == nil || !strings.Contains(err.Error(), "the namespace other alone") {
		t.Errorf("another namespace: %v", err)
	}
}

func TestWhereTheConsoleMayBeServed(t *testing.T) {
	for args, want := range map[string]string{
		"--address 0.0.0.0": "everybody who reaches it would have your rights",
		"--address ::":      "everybody who reaches it would have your rights",
		"--address console": "use an IP address",
		"--port 70000":      "use 0 to 65535",
		"--user-tokens":     "go together",
		"--tls-cert-file a": "go together",
		"--tls-cert-file a --tls-private-key-file b":                                 "go together",
		"--user-tokens --address 0.0.0.0 --tls-cert-file a --tls-private-key-file b": "--tls-cert-file a: ",
	} {
		c, _ := fakeCluster(t, statusKinds)
		_, _, err := run(t, NewConsoleCommand(environment(fakeController{}, c)), "", append(strings.Fields(args), "--no-open")...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

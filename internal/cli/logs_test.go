package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// asked are the requests for logs.
type asked struct {
	mu  sync.Mutex
	all []string
}

// serve answers with the name of the pod, unless it is one that fails.
func (a *asked) serve(_ context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := namespace + "/" + pod + "/" + o.Container
	if o.Follow {
		text += " follow"
	}
	if o.Previous {
		text += " previous"
	}
	if o.TailLines == nil {
		text += " all"
	}
	if o.SinceSeconds != nil {
		text += " since"
	}
	a.all = append(a.all, text)
	if strings.HasSuffix(pod, "-fails") {
		return nil, errors.New("the kubelet does not answer")
	}
	return io.NopCloser(strings.NewReader("hello from " + pod + "\n" + strings.Repeat("x", maxLogLine+10) + "\n\x1b[31mred")), nil
}

func logsOf(t *testing.T, more ...*unstructured.Unstructured) (Environment, *asked, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	s, dyn := stackSource(t, fakeController{}, more...)
	a := &asked{}
	s.logs = a.serve
	return s.env, a, dyn
}

func TestLogsAreThoseOfThePodsOfTheStack(t *testing.T) {
	env, a, _ := logsOf(t)
	stdout, stderr, err := run(t, NewLogsCommand(env), "", "deployment/d", "--since", "1m")
	if err != nil {
		t.Fatal(err, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 8 || lines[0] != "[d-1-a/c] hello from d-1-a" || lines[3] != `[d-1-a/c] \u001b[31mred` || lines[4] != "[d-1-b/c] hello from d-1-b" {
		t.Errorf("%d lines: %.200q", len(lines), stdout)
	}
	if !slices.Equal(a.all, []string{"default/d-1-a/c since", "default/d-1-b/c since"}) {
		t.Errorf("asked for %v", a.all)
	}
	for args, want := range map[string]string{
		"tas/s -p --tail -1 -c c": "default/d-1-a/c previous all,default/d-1-b/c previous all",
	} {
		env, a, _ := logsOf(t)
		if _, _, err := run(t, NewLogsCommand(env), "", strings.Fields(args)...); err != nil || strings.Join(a.all, ",") != want {
			t.Errorf("%s: %v, asked for %v", args, err, a.all)
		}
	}
	if _, _, err := run(t, NewLogsCommand(env), "", "tas/s", "-c", "absent"); err == nil || !strings.Contains(err.Error(), "mlkeeper explain trustyaiservice/s -n default") {
		t.Errorf("a container that does not exist: %v", err)
	}
	for _, args := range []string{"tas/s --tail -2", "tas/s --since -1s", "tas/s -f -p"} {
		if _, _, err := run(t, NewLogsCommand(env), "", strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), "--") {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestLogsThatCannotBeReadFailTheCommand(t *testing.T) {
	env, _, _ := logsOf(t, podOf("d-1-fails", "replicaset", running(0)))
	stdout, _, err := run(t, NewLogsCommand(env), "", "tas/s")
	if err == nil || !strings.Contains(err.Error(), "the logs of default/d-1-fails, container c: the kubelet does not answer") || !strings.Contains(stdout, "hello from d-1-a") {
		t.Errorf("%v\n%.300s", err, stdout)
	}
}

// TestLogsTellOfAMissingRight has pods that may not be watched: nobody knows whether they logged anything.
func TestLogsTellOfAMissingRight(t *testing.T) {
	env, _, dyn := logsOf(t)
	dyn.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	})
	const want = "Pod may not be watched"
	_, _, err := run(t, NewLogsCommand(env), "", "tas/s")
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "request the rights list and watch") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := NewLogsCommand(env)
	notes := &notesUntil{until: want, found: cancel}
	cmd.SetOut(io.Discard)
	cmd.SetErr(notes)
	cmd.SetArgs([]string{"tas/s", "-f"})
	if err := cmd.ExecuteContext(ctx); err != nil || strings.Count(notes.text.String(), want) != 1 {
		t.Errorf("%v\n%s", err, notes.text.String())
	}
}

// notesUntil is what a command writes until a text is found.
type notesUntil struct {
	text  strings.Builder
	until string
	found func()
}

func (n *notesUntil) Write(p []byte) (int, error) {
	n.text.Write(p)
	if strings.Contains(n.text.String(), n.until) {
		n.found()
	}
	return len(p), nil
}

// TestLogsFollowAContainerThatIsRestarted restarts one more often than there are logs at once: each of its runs is read, and whole.
func TestLogsFollowAContainerThatIsRestarted(t *testing.T) {
	env, a, dyn := logsOf(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := NewLogsCommand(env)
	var notes strings.Builder
	cmd.SetOut(io.Discard)
	cmd.SetErr(&notes)
	cmd.SetArgs([]string{"tas/s", "-f"})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	read := func(text string) int {
		a.mu.Lock()
		defer a.mu.Unlock()
		n := 0
		for _, asked := range a.all {
			if asked == text {
				n++
			}
		}
		return n
	}
	await(t, func() bool { return read("default/d-1-a/c follow") == 1 })
	pods := dyn.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("default")
	for i := range maxLogs + 5 {
		// The first run was begun after two restarts.
		if _, err := pods.Update(ctx, podOf("d-1-a", "replicaset", running(int64(i+3))), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return read("default/d-1-a/c follow all") == i+1 })
	}
	cancel()
	if err := <-ended; err != nil || notes.Len() > 0 {
		t.Errorf("%v\n%s", err, notes.String())
	}
}

// TestLogsFollowPodsThatComeLater creates a pod while logs are followed.
func TestLogsFollowPodsThatComeLater(t *testing.T) {
	env, a, dyn := logsOf(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := NewLogsCommand(env)
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{"tas/s", "-f"})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	has := func(want ...string) func() bool {
		return func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			all := slices.Clone(a.all)
			slices.Sort(all)
			return slices.Equal(all, want)
		}
	}
	await(t, has("default/d-1-a/c follow", "default/d-1-b/c follow"))
	pods := dyn.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("default")
	if _, err := pods.Create(ctx, podOf("d-1-c", "replicaset", running(0)), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, has("default/d-1-a/c follow", "default/d-1-b/c follow", "default/d-1-c/c follow"))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

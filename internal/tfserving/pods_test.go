package tfserving

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/controller/controllertest"
)

// podThat is a pod that is not ready, with a status.
func podThat(t testing.TB, name, status string) unstructured.Unstructured {
	t.Helper()
	return *controllertest.Parse(t, "{apiVersion: v1, kind: Pod, metadata: {name: "+name+", namespace: ns}, status: "+status+"}")
}

// container is the status of the container of the server.
func container(fields string) string {
	return "{containerStatuses: [{name: tfs-main, image: serving, ready: false, restartCount: 0, " + fields + "}]}"
}

// TestPodsTellWhyTheyAreNotReady (finding R24).
func TestPodsTellWhyTheyAreNotReady(t *testing.T) {
	ran := func(ago time.Duration, started string) string {
		return container("started: " + started + `, state: {running: {startedAt: "` + testNow.Add(-ago).Format(time.RFC3339) + `"}}`)
	}
	for name, c := range map[string]struct{ status, reason, text string }{
		"new":      {"{}", "", ""},
		"creating": {container("state: {waiting: {reason: ContainerCreating}}"), "", ""},
		"image": {
			container("state: {waiting: {reason: ErrImagePull, message: no such tag}}"), "ImagePullBackOff", "the image serving of container tfs-main cannot be pulled: no such tag",
		},
		"config": {
			container("state: {waiting: {reason: CreateContainerConfigError, message: 'secret \"x\" not found'}}"), "CreateContainerConfigError", `secret "x" not found`,
		},
		"ended": {
			container(`state: {terminated: {exitCode: 255, reason: Error, message: "Failed to start server.\nError: no"}}`), "CrashLoopBackOff",
			"container tfs-main ended with exit code 255: Failed to start server. Error: no",
		},
		"waits for its restart": {
			strings.Replace(container("state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1}}"), "restartCount: 0", "restartCount: 3", 1),
			"CrashLoopBackOff", "exit code 1: see its log",
		},
		"runs again": {
			strings.Replace(container("state: {running: {}}, lastState: {terminated: {exitCode: 137, reason: Error}}"), "restartCount: 0", "restartCount: 3", 1),
			"CrashLoopBackOff", "spec.startupTimeoutSeconds",
		},
		"memory": {container("state: {terminated: {exitCode: 137, reason: OOMKilled}}"), "OOMKilled", "spec.resources.limits"},
		"GPUs": {
			"{conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/3 nodes are available: 3 Insufficient nvidia.com/gpu.'}]}",
			"Unschedulable", "3 Insufficient nvidia.com/gpu",
		},
		"an init container": {
			"{initContainerStatuses: [{name: tfs-download-0, ready: false, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1, message: 403 Forbidden}}}]}",
			"CrashLoopBackOff", "container tfs-download-0 ended with exit code 1: 403 Forbidden",
		},
		"an init container that has done its work": {
			"{initContainerStatuses: [{name: tfs-download-0, ready: true, restartCount: 0, state: {terminated: {exitCode: 0}}}]}", "", "",
		},
		"loads":              {ran(time.Second, "false"), "", ""},
		"loads for long":     {ran(time.Minute, "false"), "InitialModelsNotLoaded", "gs://bucket/resnet"},
		"is not ready again": {ran(time.Minute, "true"), "", ""},
		"is ready": {
			"{conditions: [{type: Ready, status: 'True'}], containerStatuses: [{name: tfs-main, ready: true, restartCount: 1, lastState: {terminated: {exitCode: 1}}}]}", "", "",
		},
		"endless": {container("state: {terminated: {exitCode: 1, message: '" + strings.Repeat("x", 100000) + "the end'}}"), "CrashLoopBackOff", "the end"},
	} {
		t.Run(name, func(t *testing.T) {
			got := failureOf([]unstructured.Unstructured{podThat(t, "a", c.status)}, testNow, []string{"gs://bucket/resnet"})
			if c.reason == "" {
				if got != nil {
					t.Fatalf("%+v", got)
				}
				return
			}
			if got == nil || got.Reason != c.reason || !strings.HasPrefix(got.Message, "pod a: ") || !strings.Contains(got.Message, c.text) || len(got.Message) > 2*maxPodText {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestTheWorstFailureIsTold(t *testing.T) {
	unschedulable := "{conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable}]}"
	leaving := podThat(t, "c", container("state: {waiting: {reason: ErrImagePull}}"))
	leaving.SetDeletionTimestamp(&metav1.Time{Time: testNow})
	got := failureOf([]unstructured.Unstructured{
		podThat(t, "b", container("state: {terminated: {exitCode: 2}}")), podThat(t, "a", unschedulable), leaving,
		podThat(t, "d", container("state: {terminated: {exitCode: 3}}")),
	}, testNow, nil)
	if got == nil || got.Reason != reasonCrashLoop || !strings.HasPrefix(got.Message, "pod b: ") {
		t.Errorf("%+v", got)
	}
}

// TestPodsAreLookedAtWhileARolloutLasts, and not at its begin: most have come to their end before the third look.
func TestPodsAreLookedAtWhileARolloutLasts(t *testing.T) {
	s := &system{settings: Settings{}.complete()}
	c, cr := controllertest.New(testNow), custom(t, inline)
	live := &listed{pods: pods{podThat(t, "a", container("state: {waiting: {reason: ErrImagePull}}"))}}
	_, p := gatherAndRender(t, c, cr)
	look := func() podsAnswer {
		t.Helper()
		c.Asked = nil
		if _, err := s.Gather(t.Context(), c, cr); err != nil {
			t.Fatal(err)
		}
		if len(c.Asked) != 1 || c.Asked[0].Name != "pods of generation 1" {
			t.Fatalf("asked %+v", c.Asked)
		}
		return c.Asked[0].Job(t.Context(), live).(podsAnswer)
	}
	for range 2 {
		rolledOut(t, c, cr, p, false)
		for range 2 {
			if got := look(); got.failure != nil || got.Retry() != podsEvery || live.times != 0 {
				t.Fatalf("at the begin pods were listed %d times: %+v", live.times, got)
			}
		}
		if got := look(); got.failure == nil || live.times != 1 {
			t.Fatalf("later pods were listed %d times: %+v", live.times, got)
		}
		rolledOut(t, c, cr, p, true)
		c.Asked = nil
		if _, err := s.Gather(t.Context(), c, cr); err != nil {
			t.Fatal(err)
		}
		for _, a := range c.Asked {
			if strings.HasPrefix(a.Name, "pods") {
				t.Error("pods are looked at though all are ready")
			}
		}
		live.times = 0
	}
	rolledOut(t, c, cr, p, false)
	look()
	s.Forget(types.NamespacedName{Namespace: cr.Namespace, Name: cr.Name})
	if len(s.rolls.by) > 0 {
		t.Error("a custom resource that is gone is remembered")
	}
}

// TestReadyHasTheReasonOfThePods, at once, and not after the deadline of the rollout.
func TestReadyHasTheReasonOfThePods(t *testing.T) {
	c, cr := seed(t)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, false)
	if got := verdict(t, c, cr, false); got.Reason != "" {
		t.Errorf("%+v", got)
	}
	c.Answers["pods of generation 1"] = podsAnswer{&PodFailure{reasonCrashLoop, "pod a: container tfs-main ended"}}
	got := verdict(t, c, cr, false)
	if got.Reason != reasonCrashLoop || got.Progress != "pod a: container tfs-main ended" || !got.Failed {
		t.Errorf("%+v", got)
	}
}

// TestAPodThatEndsMakesRoom: TensorFlow Serving takes its whole grace, and the pod in its place has no GPU until then.
func TestAPodThatEndsMakesRoom(t *testing.T) {
	waits := podThat(t, "new", "{conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: 3 Insufficient nvidia.com/gpu}]}")
	crashes := podThat(t, "other", container("state: {terminated: {exitCode: 2}}"))
	loads := podThat(t, "third", container("started: false, state: {running: {startedAt: '"+testNow.Add(-time.Hour).Format(time.RFC3339)+"'}}"))
	ends := func(in time.Duration) unstructured.Unstructured {
		pod := podThat(t, "old", "{}")
		pod.SetDeletionTimestamp(&metav1.Time{Time: testNow.Add(in)})
		return pod
	}
	for name, c := range map[string]struct {
		pods []unstructured.Unstructured
		want string
	}{
		"it ends":                   {[]unstructured.Unstructured{ends(70 * time.Second), waits}, ""},
		"it was to end by now":      {[]unstructured.Unstructured{ends(-time.Second), waits}, reasonUnschedulable},
		"one of two ends":           {[]unstructured.Unstructured{ends(-time.Second), ends(time.Second), waits}, ""},
		"none ends":                 {[]unstructured.Unstructured{waits}, reasonUnschedulable},
		"another crashes meanwhile": {[]unstructured.Unstructured{ends(time.Second), waits, crashes}, reasonCrashLoop},
		"another loads meanwhile":   {[]unstructured.Unstructured{ends(time.Second), waits, loads}, reasonModelsNotLoaded},
	} {
		got := failureOf(c.pods, testNow, nil)
		if (got == nil) != (c.want == "") || got != nil && got.Reason != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestPodsAreJudgedByTheTimeOfTheLook, and not by that of the reconciliation that began it.
func TestPodsAreJudgedByTheTimeOfTheLook(t *testing.T) {
	s := testSystem()
	c, cr := controllertest.New(testNow), custom(t, inline)
	_, p := gatherAndRender(t, c, cr)
	rolledOut(t, c, cr, p, false)
	c.Asked = nil
	if _, err := s.Gather(t.Context(), c, cr); err != nil {
		t.Fatal(err)
	}
	loads := pods{podThat(t, "a", container("started: false, state: {running: {startedAt: '"+testNow.Format(time.RFC3339)+"'}}"))}
	for range 2 {
		c.Asked[0].Job(t.Context(), loads)
	}
	c.Time = c.Time.Add(time.Hour)
	if got := c.Asked[0].Job(t.Context(), loads).(podsAnswer); got.failure == nil || got.failure.Reason != reasonModelsNotLoaded {
		t.Errorf("%+v", got.failure)
	}
}

package tfserving

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
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
	unready := func(ago time.Duration, started string) string {
		since := testNow.Add(-ago).Format(time.RFC3339)
		return "{conditions: [{type: Ready, status: 'False', lastTransitionTime: '" + since + "'}], " + strings.TrimPrefix(ran(time.Hour, started), "{")
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
		"is not ready again": {unready(time.Minute, "true"), "ModelsUnavailable", "probe of model m"},
		"is not ready now":   {unready(29*time.Second, "true"), "", ""},
		"is not ready yet":   {unready(time.Minute, "false"), "InitialModelsNotLoaded", ""},
		"is ready": {
			"{conditions: [{type: Ready, status: 'True'}], containerStatuses: [{name: tfs-main, ready: true, restartCount: 1, lastState: {terminated: {exitCode: 1}}}]}", "", "",
		},
		"endless": {container("state: {terminated: {exitCode: 1, message: '" + strings.Repeat("x", 100000) + "the end'}}"), "CrashLoopBackOff", "the end"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := failureOf([]unstructured.Unstructured{podThat(t, "a", c.status)}, testNow, toServe{paths: []string{"gs://bucket/resnet"}, probed: "probe of model m"})
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
	got, _ := failureOf([]unstructured.Unstructured{
		podThat(t, "b", container("state: {terminated: {exitCode: 2}}")), podThat(t, "a", unschedulable), leaving,
		podThat(t, "d", container("state: {terminated: {exitCode: 3}}")),
	}, testNow, toServe{})
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
	c.Answers["pods of generation 1"] = podsAnswer{failure: &PodFailure{reasonCrashLoop, "pod a: container tfs-main ended"}}
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
		got, _ := failureOf(c.pods, testNow, toServe{})
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

// TestAPodThatIsRefusedIsTold: of one that a quota refuses there is no pod to look at. While another ends, of whose grace TensorFlow Serving takes all,
// the quota has room soon.
func TestAPodThatIsRefusedIsTold(t *testing.T) {
	const refused = `pods "tfs-x1" is forbidden: exceeded quota: small`
	ends := podThat(t, "old", "{}")
	ends.SetDeletionTimestamp(&metav1.Time{Time: testNow.Add(time.Minute)})
	crashes := podThat(t, "a", container("state: {terminated: {exitCode: 2}}"))
	loads := podThat(t, "b", container("started: false, state: {running: {startedAt: '"+testNow.Add(-time.Hour).Format(time.RFC3339)+"'}}"))
	for name, c := range map[string]struct {
		pods pods
		want string
	}{
		"all others are ready":        {nil, reasonFailedCreate},
		"one ends":                    {pods{ends}, ""},
		"another crashes":             {pods{crashes}, reasonCrashLoop},
		"another loads":               {pods{loads}, reasonFailedCreate},
		"another loads, and one ends": {pods{loads, ends}, reasonModelsNotLoaded},
	} {
		s, cr := testSystem(), custom(t, inline)
		cluster := controllertest.New(testNow)
		_, p := gatherAndRender(t, cluster, cr)
		rolledOut(t, cluster, cr, p, true)
		u := cluster.Get(key("Deployment", cr.Name)).DeepCopy()
		status := u.Object["status"].(map[string]any)
		status["updatedReplicas"] = int64(0)
		status["conditions"] = []any{map[string]any{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": refused}}
		cluster.Own(u, ownerOf(cr))
		cluster.Asked = nil
		if facts, err := s.Gather(t.Context(), cluster, cr); err != nil || facts.Failure != nil {
			t.Fatalf("%s: before anybody has looked for one that ends: %+v, %v", name, facts.Failure, err)
		}
		at := slices.IndexFunc(cluster.Asked, func(a controllertest.Asked) bool { return strings.HasPrefix(a.Name, "pods") })
		if at < 0 {
			t.Fatalf("%s: nobody looks at the pods: %+v", name, cluster.Asked)
		}
		look := cluster.Asked[at]
		for range 3 {
			cluster.Answers[look.Name] = look.Job(t.Context(), c.pods)
		}
		facts, err := s.Gather(t.Context(), cluster, cr)
		if err != nil {
			t.Fatal(err)
		}
		got := facts.Failure
		if (got == nil) != (c.want == "") || got != nil && got.Reason != c.want {
			t.Errorf("%s: %+v", name, got)
		}
		if got != nil && got.Reason == reasonFailedCreate && got.Message != "no other pod can be created: pods is forbidden: exceeded quota: small" {
			t.Errorf("%s: message %q", name, got.Message)
		}
	}
}

// TestAPodThatIsNotReadyAgainIsTold, by what its probe asks for, also long after the rollout.
func TestAPodThatIsNotReadyAgainIsTold(t *testing.T) {
	lost := podThat(t, "a", "{conditions: [{type: Ready, status: 'False', lastTransitionTime: '"+testNow.Add(-time.Minute).Format(time.RFC3339)+"'}], "+
		strings.TrimPrefix(container("started: true, state: {running: {startedAt: '"+testNow.Add(-time.Hour).Format(time.RFC3339)+"'}}"), "{"))
	for spec, want := range map[string]string{inline: "model resnet, the first one of the config: look whether gs://bucket/resnet", polling: "the gRPC port"} {
		c, cr := controllertest.New(testNow), custom(t, spec)
		_, p := gatherAndRender(t, c, cr)
		rolledOut(t, c, cr, p, true)
		gatherAndRender(t, c, cr)
		rolledOut(t, c, cr, p, false)
		s := testSystem()
		c.Asked = nil
		if _, err := s.Gather(t.Context(), c, cr); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			c.Answers[c.Asked[0].Name] = c.Asked[0].Job(t.Context(), pods{lost})
		}
		if got := verdict(t, c, cr, false); got.Reason != reasonModelsUnavailable || !strings.Contains(got.Progress, want) {
			t.Errorf("%+v", got)
		}
		if got := meta.FindStatusCondition(cr.Status.Conditions, ConditionModelsAvailable).Message; !strings.HasPrefix(got, "No pod is ready") {
			t.Errorf("the models: %s", got)
		}
	}
}

// TestALookBetweenThePortAndTheFirstProbe: a pod that has loaded for long is not ready for as long, and its first probe comes only when its ports
// are open. It is told when a later look sees it so for a while.
func TestALookBetweenThePortAndTheFirstProbe(t *testing.T) {
	before := func(d time.Duration) string { return testNow.Add(-d).Format(time.RFC3339) }
	loaded := func(started time.Duration) unstructured.Unstructured {
		return podThat(t, "a", "{conditions: [{type: Ready, status: 'False', lastTransitionTime: '"+before(10*time.Minute)+"'}], "+
			strings.TrimPrefix(container("started: true, state: {running: {startedAt: '"+before(started)+"'}}"), "{"))
	}
	c, cr, s := controllertest.New(testNow), custom(t, inline), testSystem()
	_, p := gatherAndRender(t, c, cr)
	rolledOut(t, c, cr, p, false)
	look := func(at, started time.Duration) *PodFailure {
		c.Time, c.Asked = testNow.Add(at), nil
		if _, err := s.Gather(t.Context(), c, cr); err != nil {
			t.Fatal(err)
		}
		return c.Asked[0].Job(t.Context(), pods{loaded(started)}).(podsAnswer).failure
	}
	for range 3 {
		if got := look(0, 9*time.Minute); got != nil {
			t.Errorf("told at the first look: %+v", got)
		}
	}
	if got := look(14*time.Second, 9*time.Minute); got != nil {
		t.Errorf("told before its probes could fail: %+v", got)
	}
	if got := look(15*time.Second, 9*time.Minute); got == nil || got.Reason != reasonModelsUnavailable {
		t.Errorf("not told: %+v", got)
	}
	if got := look(16*time.Second, 8*time.Minute); got != nil {
		t.Errorf("told of a server that has started again: %+v", got)
	}
}

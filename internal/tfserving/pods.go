package tfserving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"mlkeeper.dev/internal/engine/controller"
)

const (
	// maxPodText bounds what a pod says of itself.
	maxPodText = 512
	// podsEvery is the longest pause between two looks at pods that are not ready.
	podsEvery = time.Minute
	// loadingAfter is how long a server runs without a port before its models are named as what it waits for, and unreadyAfter how long one that has
	// opened its ports is not ready before it is told what its probe asks for. A look that sees the open ports first comes after they opened, so that
	// openedAfter, of several probes, is enough from there.
	loadingAfter, unreadyAfter, openedAfter = 30 * time.Second, 30 * time.Second, 15 * time.Second
)

// PodFailure is what keeps pods from being ready, as the worst of them says.
type PodFailure struct{ Reason, Message string }

// podsAnswer is what pods that are not ready say.
type podsAnswer struct {
	failure *PodFailure
	// full says that the pods were looked at, and that none is ending in whose place another may come.
	full bool
}

// Retry implements controller.Retryable: the pods are looked at as long as the rollout is not complete.
func (podsAnswer) Retry() time.Duration { return podsEvery }

// failures looks at the pods of a rollout that is not complete. A Deployment says nothing of why they are not ready before its deadline.
func (g *gathering) failures() {
	running := g.facts.Running
	if running == nil || running.Current {
		g.rolls.end(g.of)
		return
	}
	rollout := fmt.Sprintf("%spods of generation %d", g.track, running.Generation)
	answer, _ := g.read.Background(rollout, podsEvery, g.look(g.of, rollout)).(podsAnswer)
	g.facts.Failure = answer.failure
	if running.Uncreated != "" && answer.full {
		g.facts.Failure = worse(answer.failure, &PodFailure{reasonFailedCreate, "no other pod can be created: " + running.Uncreated})
	}
}

// look lists the pods and says why those are not ready that are not. Its first two runs, at the begin of a rollout and five seconds later,
// do nothing: of a thousand rollouts at once most are complete before the third, ten seconds later, and cost nothing.
func (g *gathering) look(of types.NamespacedName, rollout string) controller.Job {
	now, selector, rolls := g.read.Now, labels.SelectorFromSet(podLabels(g.cr)).String(), g.rolls
	config := g.toServe()
	return func(ctx context.Context, live controller.Live) any {
		if rolls.run(ctx, of, rollout) <= 2 {
			return podsAnswer{}
		}
		pods, err := live.List(ctx, gvkPod, of.Namespace, selector, 5*maxServers)
		if err != nil {
			return nil
		}
		config.opened = rolls.openings(of)
		failure, makesRoom := failureOf(pods, now(), config)
		rolls.seen(ctx, of, config.opened.now)
		return podsAnswer{failure: failure, full: !makesRoom}
	}
}

// toServe is what the servers of pods are to serve.
type toServe struct {
	// paths are the base paths of the models.
	paths []string
	// probed says what the readiness probe asks for, and what to look at where it fails.
	probed string
	// opened says since when servers are known to have opened their ports.
	opened openings
}

// toServe is what pods are judged by.
func (g *gathering) toServe() toServe {
	out, models := toServe{probed: "its readiness probe asks the gRPC port: look at its log, and whether it is too busy to answer"}, g.facts.Serving.Models()
	for _, m := range models {
		out.paths = append(out.paths, m.BasePath)
	}
	if len(models) > 0 && !polls(g.cr, g.facts) {
		out.probed = fmt.Sprintf("its readiness probe asks for the metadata of model %s, the first one of the config: look whether %s has a version that "+
			"loads, at the credentials, and whether the server is too busy to answer", models[0].Name, models[0].BasePath)
	}
	return out
}

// rolls counts, for each custom resource, the looks at the rollout that is under way.
type rolls struct {
	mu sync.Mutex
	by map[types.NamespacedName]looks
}

// looks counts the looks at a rollout.
type looks struct {
	rollout string
	n       int
	// opened is when a look first saw that a server had opened its ports, of those that have not been ready since.
	opened map[string]time.Time
}

// openings are the servers that have opened their ports and have not been ready since their start, before a look and now. No status says when
// they have opened them.
type openings struct{ before, now map[string]time.Time }

// since is when the first look saw it of a server.
func (o openings) since(pod *corev1.Pod, started, now time.Time) time.Time {
	server := fmt.Sprint(pod.UID, started.Unix())
	at, known := o.before[server]
	if !known {
		at = now
	}
	o.now[server] = at
	return at
}

// openings are those of a look that begins.
func (r *rolls) openings(of types.NamespacedName) openings {
	r.mu.Lock()
	defer r.mu.Unlock()
	return openings{before: r.by[of].opened, now: map[string]time.Time{}}
}

// seen remembers what a look has seen, but for one that was cancelled, or whose rollout has ended.
func (r *rolls) seen(ctx context.Context, of types.NamespacedName, opened map[string]time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, under := r.by[of]
	if !under || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	last.opened = opened
	r.by[of] = last
}

// run counts a look, but for one that was cancelled, as when the custom resource has gone.
func (r *rolls) run(ctx context.Context, of types.NamespacedName, rollout string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(ctx.Err(), context.Canceled) {
		return 0
	}
	last := r.by[of]
	if last.rollout != rollout {
		last = looks{rollout: rollout, opened: last.opened}
	}
	last.n++
	if r.by == nil {
		r.by = map[types.NamespacedName]looks{}
	}
	r.by[of] = last
	return last.n
}

func (r *rolls) end(of types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, of)
}

// severity orders the reasons: what waits for room or for a model may pass by itself, the others need a change.
var severity = []string{
	reasonImagePull, reasonContainerConfig, reasonOOMKilled, reasonCrashLoop, reasonFailedCreate, reasonUnschedulable, reasonModelsNotLoaded,
	reasonModelsUnavailable,
}

// worse is the worse of two failures, the first where both are as bad; nil for none.
func worse(a, b *PodFailure) *PodFailure {
	if a == nil || b != nil && slices.Index(severity, b.Reason) < slices.Index(severity, a.Reason) {
		return b
	}
	return a
}

// failureOf is the worst failure of pods that are not ready; nil for none. A pod that has ended, such as one that was evicted, stays, and
// others are in its place. While one is still within its grace, of which TensorFlow Serving takes all, there is to be room for another: it makesRoom.
func failureOf(list []unstructured.Unstructured, now time.Time, config toServe) (worst *PodFailure, makesRoom bool) {
	var pods []corev1.Pod
	for i := range list {
		var pod corev1.Pod
		if runtime.DefaultUnstructuredConverter.FromUnstructured(list[i].Object, &pod) != nil {
			continue
		}
		// The time of the deletion is that of the end of the grace.
		makesRoom = makesRoom || pod.DeletionTimestamp != nil && pod.DeletionTimestamp.After(now)
		if pod.DeletionTimestamp != nil || isReady(&pod) {
			continue
		}
		if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for i := range pods {
		f := failureOfPod(&pods[i], now, config)
		if f != nil && f.Reason == reasonUnschedulable && makesRoom {
			continue
		}
		worst = worse(worst, f)
	}
	return worst, makesRoom
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// failureOfPod says why one pod is not ready.
func failureOfPod(pod *corev1.Pod, now time.Time, config toServe) *PodFailure {
	fails := func(reason, format string, args ...any) *PodFailure {
		return &PodFailure{reason, controller.Cut(fmt.Sprintf("pod %s: ", pod.Name)+fmt.Sprintf(format, args...), 2*maxPodText)}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return fails(reasonUnschedulable, "no node has room for it: %s", said(c.Message))
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil {
			switch w.Reason {
			case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable":
				text := said(cmp.Or(w.Message, w.Reason))
				return fails(reasonImagePull, "the image %s of container %s cannot be pulled: %s", said(c.Image), c.Name, text)
			case "CreateContainerConfigError", "CreateContainerError":
				return fails(reasonContainerConfig, "container %s cannot be started: %s", c.Name, said(cmp.Or(w.Message, w.Reason)))
			}
		}
		end := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
		if end != nil && !c.Ready && (end.ExitCode != 0 || c.RestartCount > 0) {
			reason, text := endOf(c.Name, end)
			return fails(reason, "%s", text)
		}
	}
	if f := loading(pod, now, config.paths, fails); f != nil {
		return f
	}
	return unready(pod, now, config, fails)
}

// endOf says how a container ended.
func endOf(container string, end *corev1.ContainerStateTerminated) (reason, text string) {
	text = said(end.Message)
	switch {
	case end.Reason == "OOMKilled":
		return reasonOOMKilled, fmt.Sprintf("container %s needed more memory than spec.resources.limits allow", container)
	case text == "" && end.ExitCode == 137:
		text = "it was killed, as after spec.startupTimeoutSeconds without an open port"
	case text == "":
		text = "see its log"
	}
	return reasonCrashLoop, fmt.Sprintf("container %s ended with exit code %d: %s", container, end.ExitCode, text)
}

// loading says that a server has run for a while without opening its ports: it waits for its initial models, and for a path that is wrong
// or forbidden for ever, without another word.
func loading(pod *corev1.Pod, now time.Time, paths []string, fails func(reason, format string, args ...any) *PodFailure) *PodFailure {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != mainContainer || c.State.Running == nil || c.Started == nil || *c.Started || c.RestartCount > 0 {
			continue
		}
		if now.Sub(c.State.Running.StartedAt.Time) >= loadingAfter {
			return fails(reasonModelsNotLoaded, "TensorFlow Serving opens its ports when its initial models are loaded; if that takes "+
				"longer than you expect, look at the credentials, and at the paths, for which it waits without an error: %s",
				said(strings.Join(paths, ", ")))
		}
	}
	return nil
}

// unready says that a server has opened its ports and is not ready for a while: readiness is that of one model, and a server that has lost it, or
// does not answer in time, gets no requests for any model. The time of its condition counts where it was ready since its start: before, the
// condition is as old as the pod, which may have loaded for long.
func unready(pod *corev1.Pod, now time.Time, config toServe, fails func(reason, format string, args ...any) *PodFailure) *PodFailure {
	server := slices.IndexFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == mainContainer && c.State.Running != nil && ptr.Deref(c.Started, false) && !c.Ready
	})
	ready := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if server < 0 || ready < 0 {
		return nil
	}
	started := pod.Status.ContainerStatuses[server].State.Running.StartedAt.Time
	since, after := pod.Status.Conditions[ready].LastTransitionTime.Time, unreadyAfter
	if !since.After(started) {
		since, after = config.opened.since(pod, started, now), openedAfter
	}
	if now.Sub(since) < after {
		return nil
	}
	return fails(reasonModelsUnavailable, "the server runs and is not ready; %s", said(config.probed))
}

// said is a text of somebody else within bounds: its end, which says more than its begin.
func said(text string) string {
	text = strings.Join(strings.Fields(clean(text)), " ")
	if len(text) > maxPodText {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxPodText:], "")
	}
	return text
}

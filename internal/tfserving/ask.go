package tfserving

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/room"
)

const (
	// askEvery is how often the servers are asked while something is changing or a pod is not ready.
	askEvery = 5 * time.Second
	// maxServers and maxQuestions bound one round of questions, maxBeside how many are asked at once.
	maxServers, maxQuestions, maxBeside = 20, 200, 8
	// maxVersions is how many versions the status lists.
	maxVersions = 200
)

// ask asks the servers for the state of their models: again and again while the rollout is under way or a version is
// being loaded, and once when it is complete. Before a server is ready nobody answers, since TensorFlow Serving opens its
// ports only when the initial models are available.
func (g *gathering) ask() {
	running := g.facts.Running
	models := g.facts.Config.Models()
	if running == nil || running.Ready == 0 || len(models) == 0 {
		return
	}
	names := make([]string, 0, len(models))
	for _, m := range models {
		names = append(names, m.Name)
	}
	question := g.question(names)
	if !running.Current {
		g.facts.Answer, _ = g.read.Probe("models", askEvery, question).(*Answer)
		return
	}
	name := fmt.Sprintf("models of generation %d", running.Generation)
	every := room.Once
	if changing(g.cr.Status.Models) {
		every = askEvery
	}
	g.facts.Answer, _ = g.read.Probe(name, every, question).(*Answer)
}

// changing says that a version is on its way.
func changing(models []v1alpha1.ModelStatus) bool {
	return slices.ContainsFunc(models, func(m v1alpha1.ModelStatus) bool {
		return m.State == stateStart || m.State == stateLoading || m.State == stateUnloading
	})
}

// question asks the ready pods of the custom resource for every model.
func (g *gathering) question(models []string) room.Question {
	namespace, port := g.cr.Namespace, restPort(g.cr)
	selector := labels.SelectorFromSet(podLabels(g.cr)).String()
	client := g.settings.HTTP
	return func(ctx context.Context, live room.Live) any {
		pods, err := live.List(ctx, gvkPod, namespace, selector, 5*maxServers)
		if err != nil {
			return nil
		}
		var hosts []string
		for i := range pods {
			var pod corev1.Pod
			if runtime.DefaultUnstructuredConverter.FromUnstructured(pods[i].Object, &pod) == nil && answers(&pod) {
				hosts = append(hosts, pod.Status.PodIP)
			}
		}
		slices.Sort(hosts)
		hosts = hosts[:min(len(hosts), maxServers, max(1, maxQuestions/len(models)))]
		said := make([][]saying, len(hosts))
		var wg sync.WaitGroup
		slots := make(chan struct{}, maxBeside)
		for i, host := range hosts {
			said[i] = make([]saying, len(models))
			for j, model := range models {
				wg.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					said[i][j] = askModel(ctx, client, host, port, model)
				})
			}
		}
		wg.Wait()
		return sum(models, said)
	}
}

// answers says that a pod can be asked. One on the network of its node is not: whatever listens there is not the pod's.
func answers(pod *corev1.Pod) bool {
	if pod.Spec.HostNetwork || pod.Status.PodIP == "" || pod.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// sum joins what the servers say of each model. The state of a version is that of the server that is behind.
func sum(models []string, said [][]saying) *Answer {
	out := &Answer{Servers: len(said)}
	var answering [][]saying
	for _, server := range said {
		if slices.ContainsFunc(server, func(s saying) bool { return s.answered }) {
			answering = append(answering, server)
		}
	}
	out.Answered = len(answering)
	if out.Answered == 0 {
		return out
	}
	for j, model := range models {
		versions, available := sumModel(model, j, answering)
		if available {
			out.Available++
		}
		out.Models = append(out.Models, versions...)
	}
	if len(out.Models) > maxVersions {
		out.Models = out.Models[:maxVersions]
	}
	return out
}

// sumModel joins what the servers say of one model, and says whether every one has a version available.
func sumModel(model string, j int, said [][]saying) (versions []v1alpha1.ModelStatus, available bool) {
	available = true
	behind := map[string]version{}
	for _, server := range said {
		some := false
		for _, v := range server[j].versions {
			some = some || v.state == stateAvailable
			if before, seen := behind[v.number]; !seen || rank(v.state) < rank(before.state) {
				behind[v.number] = v
			}
		}
		if len(server[j].versions) == 0 {
			behind[""] = version{state: stateUnknown, message: server[j].failure}
		}
		available = available && some
	}
	for _, v := range behind {
		versions = append(versions, v1alpha1.ModelStatus{Name: room.Cut(model, 253), Version: v.number, State: v.state, Error: v.message})
	}
	slices.SortFunc(versions, func(a, b v1alpha1.ModelStatus) int {
		if c := len(a.Version) - len(b.Version); c != 0 {
			return c
		}
		return strings.Compare(a.Version, b.Version)
	})
	return versions, available
}

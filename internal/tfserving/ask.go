package tfserving

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/parallel"
	"mlkeeper.dev/internal/tfserving/modelconfig"
)

const (
	// maxServers and maxQuestions bound one round of questions, maxBeside how many are asked at once.
	maxServers, maxQuestions, maxBeside = 20, 200, 8
	// maxVersions is how many versions the status lists.
	maxVersions = 200
	// maxModelName is the most bytes of the name of a model in the status.
	maxModelName = 253
	// unknownModel and noVersion are said of a model that a server has read nothing of, or found no version of.
	unknownModel = "the server does not know the model"
	noVersion    = "the server knows of no version yet"
	// unknownVersion is said of a version that a policy lists, of which TensorFlow Serving only logs that it is not there.
	unknownVersion = "the server does not know the version: is its folder below the base path?"
	// notEverywhere is said of a version that some servers have available, and others have not found.
	notEverywhere = "not every server has found the version: each looks by itself, after spec.server.versionPollSeconds"
)

// wanted is a model that the servers are asked for, with the versions that its policy lists, those that have a label or are a canary's,
// and those that a label is to move to.
type wanted struct {
	name                     string
	listed, labelled, moving []int64
}

// ask asks the servers for the state of their models. TensorFlow Serving looks for other versions each second, and tells nobody of
// what it loads or drops, so that the question comes again: with growing pauses until every server has settled, then seldom. It is
// another question, and is asked at once, whenever the Deployment tells of other pods. Before a server is ready nobody answers,
// since TensorFlow Serving opens its ports only when the initial models are available.
func (g *gathering) ask(models []wanted) {
	running := g.facts.Running
	if running == nil || running.Ready == 0 || len(models) == 0 {
		g.hosts.keep(g.of, "")
		return
	}
	question := fmt.Sprintf("models of generation %d", running.Generation)
	if polls(g.cr, g.facts) {
		// The one that is declared counts too: of a label that moves servers are asked at once, also where their config stays as it is.
		files := map[string]string{"live": g.liveText}
		if len(g.facts.Problems) == 0 {
			files["declared"] = g.facts.ConfigText
		}
		question += " with config " + hashOf(files)
	}
	if running.Current {
		question += fmt.Sprintf(", rolled out to %d pods", running.Total)
	}
	if c := promoted(g.cr); c != nil {
		question += fmt.Sprintf(", with version %d of %s", c.Version, c.Model)
	}
	g.hosts.keep(g.of, running.ResourceVersion)
	g.facts.Answer, _ = g.read.Background(g.track+question, g.askEvery(), g.question(running.ResourceVersion, models)).(*Answer)
}

// askEvery is how often servers are asked that have settled. Models that were downloaded before the server started do not change.
func (g *gathering) askEvery() time.Duration {
	if n := len(g.facts.Downloads); n > 0 && n == len(g.facts.Config.Models()) && len(g.facts.Problems) == 0 {
		return controller.Once
	}
	if seconds := g.cr.Spec.ModelStatusSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return g.settings.ModelsEvery
}

// askedOf are the models of a config that are asked for: the first ones of a config that has more, and before them those with a label that
// is to move, since it moves by the answer.
func askedOf(config modelconfig.Config, moving map[string][]int64) []modelconfig.Model {
	models := config.Models()
	if len(models) > maxQuestions {
		stays := func(m modelconfig.Model) int { return 1 - min(len(moving[m.Name]), 1) }
		slices.SortStableFunc(models, func(a, b modelconfig.Model) int { return stays(a) - stays(b) })
	}
	return models[:min(len(models), maxQuestions)]
}

// wantedOf is what servers are asked of each model. The versions with a label are those of the config, and of that which servers
// read now: a label that is held stays at a version of the latter. A canary that is promoted goes when they have its version, as a label moves.
func wantedOf(config, live modelconfig.Config, promoted *v1alpha1.CanarySpec) []wanted {
	listed, labelled := config.Specific(), map[string][]int64{}
	for _, l := range slices.Concat(config.Labels(), live.Labels()) {
		if !slices.Contains(labelled[l.Model], l.Version) {
			labelled[l.Model] = append(labelled[l.Model], l.Version)
		}
	}
	var out []wanted
	moving := movingOf(config, live)
	if promoted != nil {
		labelled[promoted.Model] = append(labelled[promoted.Model], promoted.Version)
		moving[promoted.Model] = append(moving[promoted.Model], promoted.Version)
	}
	for _, m := range askedOf(config, moving) {
		out = append(out, wanted{m.Name, listed[m.Name], labelled[m.Name], moving[m.Name]})
	}
	return out
}

// movingOf are the versions to which labels move from where they are now, by the name of the model.
func movingOf(config, live modelconfig.Config) map[string][]int64 {
	at, out := map[modelconfig.Label]int64{}, map[string][]int64{}
	for _, l := range live.Labels() {
		at[modelconfig.Label{Model: l.Model, Name: l.Name}] = l.Version
	}
	for _, l := range config.Labels() {
		if was, had := at[modelconfig.Label{Model: l.Model, Name: l.Name}]; had && was != l.Version {
			out[l.Model] = append(out[l.Model], l.Version)
		}
	}
	return out
}

// hosts remembers the addresses of the pods that were asked last, for each custom resource. While its Deployment is unchanged, whose status
// counts the ready pods, they are the same, and nobody has to list them again.
type hosts struct {
	mu sync.Mutex
	by map[types.NamespacedName]found
}

// found are the addresses of the pods of a Deployment as of one resourceVersion.
type found struct {
	deployment string
	addresses  []string
}

// get returns the addresses that were found as of a Deployment, and whether there are any.
func (h *hosts) get(of types.NamespacedName, deployment string) ([]string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, known := h.by[of]
	return last.addresses, known && last.deployment == deployment
}

// put remembers addresses, but for a question that was cancelled, as when the custom resource has gone.
func (h *hosts) put(ctx context.Context, of types.NamespacedName, last found) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	if h.by == nil {
		h.by = map[types.NamespacedName]found{}
	}
	h.by[of] = last
}

// keep forgets the addresses of a custom resource that were found as of another Deployment.
func (h *hosts) keep(of types.NamespacedName, deployment string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by[of].deployment != deployment {
		delete(h.by, of)
	}
}

// question asks the ready pods of the custom resource for every model. The pods are those as of a resourceVersion of the Deployment.
func (g *gathering) question(deployment string, models []wanted) controller.Job {
	now, of, port := g.read.Now, g.of, restPort(g.cr)
	selector := labels.SelectorFromSet(podLabels(g.cr)).String()
	client, remembered, longest := g.settings.HTTP, g.hosts, controller.RetryPassing
	ready := int(ptr.Deref(g.facts.Running, Running{}).Ready)
	if every := g.askEvery(); every > 0 {
		// What is not settled is asked for no more seldom than what is.
		longest = min(longest, every)
	}
	// Pods of two configs have different versions, and so may those that have downloaded theirs at different times.
	alike := ptr.Deref(g.facts.Running, Running{}).Current && g.askEvery() != controller.Once
	return func(ctx context.Context, live controller.Live) any {
		addresses, known := remembered.get(of, deployment)
		if !known {
			var err error
			if addresses, err = hostsOf(ctx, live, of.Namespace, selector); err != nil {
				return nil
			}
			remembered.put(ctx, of, found{deployment, addresses})
		}
		n := min(len(addresses), maxServers, max(1, maxQuestions/len(models)))
		said := queryHosts(ctx, client, addresses[:n], port, models)
		out := sum(models, said)
		if alike {
			out.elsewhere(models, said)
		}
		rest := addresses[n:]
		if len(rest) > 0 {
			// Not all pods are listed where there are many.
			out.Unasked = max(len(addresses), ready) - n
		}
		out.confirm(models, len(rest), func(moving []wanted) [][]serverAnswer { return queryHosts(ctx, client, rest, port, moving) })
		out.At, out.longest = now(), longest
		return out
	}
}

// hostsOf are the addresses of the pods that can be asked.
func hostsOf(ctx context.Context, live controller.Live, namespace, selector string) ([]string, error) {
	pods, err := live.List(ctx, gvkPod, namespace, selector, 5*maxServers)
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range pods {
		var pod corev1.Pod
		if runtime.DefaultUnstructuredConverter.FromUnstructured(pods[i].Object, &pod) == nil && answers(&pod) {
			out = append(out, pod.Status.PodIP)
		}
	}
	slices.Sort(out)
	return out, nil
}

// queryHosts asks every host for every model. A panic over the answer of a server, which is a tenant's, is no answer.
func queryHosts(ctx context.Context, client *http.Client, hosts []string, port int32, models []wanted) [][]serverAnswer {
	said := make([][]serverAnswer, len(hosts))
	var questions []*serverAnswer
	for i := range said {
		said[i] = make([]serverAnswer, len(models))
		for j := range said[i] {
			questions = append(questions, &said[i][j])
		}
	}
	failures := parallel.Each(ctx, maxBeside, questions, func(ctx context.Context, n int, to *serverAnswer) error {
		*to = queryModel(ctx, client, hosts[n/len(models)], port, models[n%len(models)])
		return nil
	})
	for n, err := range failures {
		if err != nil {
			*questions[n] = serverAnswer{failure: noAnswer}
		}
	}
	return said
}

// answers says that a pod can be asked. One on the network of its node is not: whatever listens there is not the pod's. Nor is one that is
// on no node, whose status nobody but a user has written. On EKS Fargate a pod that has a node for itself has the node's address.
func answers(pod *corev1.Pod) bool {
	_, err := netip.ParseAddr(pod.Status.PodIP)
	return err == nil && !pod.Spec.HostNetwork && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && isReady(pod)
}

// sum joins what the servers say of each model. The state of a version is that of the server that is behind.
func sum(models []wanted, said [][]serverAnswer) *Answer {
	out := &Answer{Servers: len(said), Asked: len(models), Loaded: map[LoadedVersion]bool{}}
	var answering [][]serverAnswer
	for _, server := range said {
		if slices.ContainsFunc(server, func(s serverAnswer) bool { return s.answered }) {
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
		if out.Answered == out.Servers {
			for _, l := range loaded(model, j, answering) {
				out.Loaded[l] = true
			}
		}
	}
	out.Settled = out.Answered == out.Servers && out.Available == len(models) && !slices.ContainsFunc(out.Models, underway)
	out.Models = trimmed(out.Models)
	return out
}

// elsewhere takes back that a version is available which servers of the same config have not found, of those that know the model: they are asked
// again soon.
func (a *Answer) elsewhere(models []wanted, said [][]serverAnswer) {
	for j, model := range models {
		name := controller.Cut(model.name, maxModelName)
		for i := range a.Models {
			m := &a.Models[i]
			lacks := func(server []serverAnswer) bool {
				return len(server[j].versions) > 0 && !slices.ContainsFunc(server[j].versions, func(v version) bool { return v.number == m.Version })
			}
			if m.Name == name && m.State == stateAvailable && slices.ContainsFunc(said, lacks) {
				m.State, m.Error, a.Settled = stateUnknown, notEverywhere, false
			}
		}
	}
}

// trimmed are as many versions as the status has. Those that ended without an error go first, of which TensorFlow Serving tells for ever.
func trimmed(models []v1alpha1.ModelStatus) []v1alpha1.ModelStatus {
	if len(models) > maxVersions {
		models = slices.DeleteFunc(models, func(m v1alpha1.ModelStatus) bool { return m.State == stateEnd && m.Error == "" })
	}
	return models[:min(len(models), maxVersions)]
}

// confirm asks the rest of the servers for the versions that labels are to move to, where those that were asked before have them. A server
// that reads of such a label before it has the version refuses every config from then on: it counts as loaded only if all have it.
func (a *Answer) confirm(models []wanted, rest int, ask func([]wanted) [][]serverAnswer) {
	var moving []wanted
	missing := map[LoadedVersion]bool{}
	for _, m := range models {
		some := false
		for _, v := range m.moving {
			moves := LoadedVersion{m.name, v}
			some = some || a.Loaded[moves]
			missing[moves] = true
		}
		if some {
			moving = append(moving, wanted{name: m.name, labelled: m.moving})
		}
	}
	if rest > 0 {
		moving = moving[:min(len(moving), max(1, maxQuestions/rest))]
	}
	said := ask(moving)
	for j, m := range moving {
		for _, l := range loaded(m, j, said) {
			if a.Loaded[l] {
				delete(missing, l)
			}
		}
	}
	maps.DeleteFunc(a.Loaded, func(l LoadedVersion, _ bool) bool { return missing[l] })
	a.Settled = a.Settled && len(missing) == 0
}

// underway says that a version will become another one soon, or that a server knows nothing of the model. A version that has ended
// beside one that serves is neither: TensorFlow Serving goes on telling of it.
func underway(m v1alpha1.ModelStatus) bool {
	return m.State != stateAvailable && m.State != stateEnd
}

// Retry implements controller.Retryable: what is not settled is asked again with growing pauses.
func (a *Answer) Retry() time.Duration {
	if a.Settled {
		return 0
	}
	return a.longest
}

// sumModel joins what the servers say of one model, and says whether every one has a version available.
func sumModel(model wanted, j int, said [][]serverAnswer) (versions []v1alpha1.ModelStatus, available bool) {
	available = true
	behind := map[string]version{}
	for _, server := range said {
		some, knows := false, map[string]bool{}
		for _, v := range server[j].versions {
			some, knows[v.number] = some || v.state == stateAvailable, true
			if before, seen := behind[v.number]; !seen || rank(v.state) < rank(before.state) {
				behind[v.number] = v
			}
		}
		if len(server[j].versions) == 0 {
			behind[""] = version{state: stateUnknown, message: server[j].failure}
		}
		for _, listed := range model.listed {
			if number := strconv.FormatInt(listed, 10); some && !knows[number] {
				behind[number] = version{number: number, state: stateUnknown, message: unknownVersion}
			}
		}
		available = available && some
	}
	for _, v := range behind {
		versions = append(versions, v1alpha1.ModelStatus{Name: controller.Cut(model.name, maxModelName), Version: v.number, State: v.state, Error: v.message})
	}
	slices.SortFunc(versions, func(a, b v1alpha1.ModelStatus) int {
		if c := len(a.Version) - len(b.Version); c != 0 {
			return c
		}
		return strings.Compare(a.Version, b.Version)
	})
	return versions, available
}

// loaded are the versions with a label that every server has available.
func loaded(model wanted, j int, said [][]serverAnswer) []LoadedVersion {
	servers := map[string]int{}
	for _, server := range said {
		for _, v := range server[j].versions {
			if v.state == stateAvailable && v.message == "" {
				servers[v.number]++
			}
		}
	}
	var out []LoadedVersion
	for _, v := range model.labelled {
		if servers[strconv.FormatInt(v, 10)] == len(said) {
			out = append(out, LoadedVersion{model.name, v})
		}
	}
	return out
}

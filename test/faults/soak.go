package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// longestWarmup bounds the warm-up: within it everything expires that is kept for a time (mutation.TTL, fieldownership.Window, and the events of
// client-go, for up to twelve minutes).
const longestWarmup = 15 * time.Minute

// atRest is for how long nothing changes in the cluster before a sample is taken.
const atRest = 6 * time.Second

// attempts is how often a custom resource may be made again until it is Ready as in the beginning. Each but the first fails the soak, and so does
// more than one in mostRemade returns that needs everything again: a user may have changed what cannot be changed back, but not so often.
const attempts, mostRemade = 3, 10

// SoakConfig says how long and how fast a soak runs.
type SoakConfig struct {
	// Duration is that of the whole, Pause the mean pause between two actions of one user.
	Duration, Pause time.Duration
	// Folder is where the report goes.
	Folder string
	// Restart kills the API server and starts it again.
	Restart func()
}

// The names of what brings a custom resource back, among the actions. remade is first what is made again once, and then what was not Ready after that.
const returned = "return"

var remade = [2]string{"everything again", "everything once more"}

// restartEvery is in one of how many cycles the API server is restarted, the second one first.
const restartEvery = 10

// soak is a population of custom resources that users change while the operator meets faults, and that comes back to the same state in
// each cycle, in which the figures of the operator are comparable.
type soak struct {
	SoakConfig
	suite    *Suite
	operator *soakProcess
	members  []*member
	random   *rand.Rand

	mu     sync.Mutex
	report soakReport
}

// member is one custom resource of the population, with its user.
type member struct {
	*run
	soak   *soak
	base   *Base
	origin map[string]any
	ops    []Operation
	random *rand.Rand
}

// Soak runs a soak, writes its report, and returns it as a table. The error says why there is none, or what grew.
func (s *Suite) Soak(ctx context.Context, cfg SoakConfig) (string, error) {
	k := &soak{SoakConfig: cfg, suite: s, random: rand.New(rand.NewPCG(uint64(s.Seed), 4))} //nolint:gosec // Users need no cryptographic randomness.
	k.report = soakReport{Seed: s.Seed, Actions: map[string]int{}}
	if err := k.start(); err != nil {
		return "", err
	}
	defer func() { k.operator.stop() }()
	samples, err := k.cycles(ctx)
	k.report.judge(samples)
	k.report.judgeReturns()
	if err != nil {
		k.report.Failed = append(k.report.Failed, err.Error())
	}
	if err := k.report.write(cfg.Folder); err != nil {
		return "", err
	}
	if len(k.report.Failed) > 0 {
		err = errors.New(strings.Join(k.report.Failed, "; "))
	}
	return k.report.String(), err
}

// start starts the operator, and creates the population.
func (k *soak) start() error {
	// A definition that changes ends the watches on its resources.
	k.suite.recorder.tolerate(allResources)
	if err := k.startOperator(); err != nil {
		return err
	}
	for _, kind := range k.suite.kinds {
		for i := range kind.Bases {
			m, err := k.newMember(kind, &kind.Bases[i], uint64(len(k.members)))
			if err != nil {
				return err
			}
			k.members = append(k.members, m)
		}
	}
	return k.each("is created", func(m *member) error {
		_, err := m.place(m.base, m.origin)
		return err
	})
}

func (k *soak) newMember(kind *Kind, b *Base, number uint64) (*member, error) {
	var from *server
	if b.Server {
		from = newServer(func(string, ...any) {})
		own := *b
		own.Manifest = strings.ReplaceAll(b.Manifest, "SERVER", from.http.URL)
		b = &own
	}
	ops, err := k.suite.changesOf(kind, b)
	if err != nil {
		return nil, err
	}
	origin, err := b.spec()
	if err != nil {
		return nil, err
	}
	r := k.suite.newMisrun(kind, b, Plan{Seed: k.suite.Seed, Kind: kind.Name, Workload: b.Name, Campaign: "soak"})
	r.cancel()
	r.ctx, r.cancel = context.WithCancel(k.suite.ctx)
	r.server = from
	random := rand.New(rand.NewPCG(uint64(k.suite.Seed), 5+number)) //nolint:gosec // Users need no cryptographic randomness.
	return &member{run: r, soak: k, base: b, origin: origin, ops: ops, random: random}, nil
}

// startOperator starts an operator, and waits until it is ready.
func (k *soak) startOperator() error {
	var err error
	if k.operator, err = startOperator(k.suite.cluster.Kubeconfig, k.suite.Seed, k.printed); err != nil {
		return err
	}
	deadline := time.Now().Add(k.suite.Patience)
	for {
		err := k.operator.ask(k.suite.ctx, http.MethodGet, "/ready", nil)
		if err == nil {
			return nil
		}
		if died := k.operator.died(); died != nil || time.Now().After(deadline) {
			return fmt.Errorf("the operator is not ready: %w", errors.Join(err, died))
		}
		time.Sleep(20 * look)
	}
}

// printed takes in a panic of the operator.
func (k *soak) printed(line string) {
	if line == "PASS" {
		return // The end of the test program that the operator runs in.
	}
	k.suite.Log("the operator: %s", short(line))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.report.Failed = append(k.report.Failed, "the operator: "+short(line))
}

// cycles runs cycles until the time is over, and returns the samples after the warm-up. The operator is upgraded once, after the first
// cycle: the series are those of one process.
func (k *soak) cycles(ctx context.Context) ([]sample, error) {
	began := time.Now()
	warmup := min(k.Duration/2, longestWarmup)
	var samples []sample
	for cycle := 1; time.Since(began) < k.Duration; cycle++ {
		if err := errors.Join(k.cycle(cycle), ctx.Err()); err != nil {
			return samples, fmt.Errorf("cycle %d: %w", cycle, err)
		}
		if cycle == 1 {
			k.operator.stop()
			if err := errors.Join(k.startOperator(), k.rest()); err != nil {
				return nil, err
			}
		}
		one := sample{At: time.Since(began)}
		if err := k.operator.ask(ctx, http.MethodGet, "/figures", &one.Figures); err != nil {
			return samples, err
		}
		k.report.Cycles = cycle
		if one.At >= warmup {
			samples = append(samples, one)
			k.report.Hours, k.report.Warmup = (one.At - samples[0].At).Hours(), samples[0].At.Hours()
			if err := k.profile(ctx, len(samples)); err != nil {
				return samples, err
			}
		}
		k.suite.Log("seed %d, %s of %s, cycle %d, %d samples: %s, %s, %.0f goroutines, %.0f files", k.suite.Seed, one.At.Round(time.Second), k.Duration,
			cycle, len(samples), amount(heapBytes, one.Figures[heapBytes]), amount(residentBytes, one.Figures[residentBytes]),
			one.Figures[goroutines], one.Figures[openFiles])
	}
	return samples, nil
}

// profile writes the heap profile of the first sample, and that of the last one so far.
func (k *soak) profile(ctx context.Context, n int) error {
	name := "heap-last.pprof"
	if n == 1 {
		name = "heap-first.pprof"
	}
	if err := os.MkdirAll(k.Folder, 0o755); err != nil {
		return err
	}
	return k.operator.profile(ctx, filepath.Join(k.Folder, name))
}

// cycle has users act while requests meet faults, and then brings the population back to its first state.
func (k *soak) cycle(number int) error {
	if err := k.operator.ask(k.suite.ctx, http.MethodPost, "/faults/on", nil); err != nil {
		return err
	}
	k.act("upgrade of a definition", k.upgradeDefinition(number))
	if number%restartEvery == 2 {
		k.Restart()
		k.act("restart of the API server", nil)
	}
	if err := k.each("is used", (*member).use); err != nil {
		return err
	}
	k.report.Faults = map[string]int{}
	if err := k.operator.ask(k.suite.ctx, http.MethodPost, "/faults/off", &k.report.Faults); err != nil {
		return err
	}
	if err := k.each("comes back", (*member).comeBack); err != nil {
		return err
	}
	return k.rest()
}

// each calls f for all members, some at once.
func (k *soak) each(what string, f func(*member) error) error {
	errs := make([]error, len(k.members))
	k.suite.each(k.suite.Parallel, len(k.members), func(i int) {
		if err := f(k.members[i]); err != nil {
			errs[i] = fmt.Errorf("%s/%s %s: %w", k.members[i].kind.Name, k.members[i].base.Name, what, err)
		}
	})
	return errors.Join(append(errs, k.operator.died(), k.suite.recorder.failed())...)
}

// rest waits until nothing changes any more.
func (k *soak) rest() error {
	return k.each("comes to rest", func(m *member) error {
		defer m.history.shorten()
		return m.await("nothing changes", func() error {
			if since := m.idle(); since < atRest {
				return fmt.Errorf("something happened %s ago", since)
			}
			return nil
		})
	})
}

// act counts an action. One that fails is no fault of the operator's: two users may meet.
func (k *soak) act(name string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.suite.Log("%s: %v", name, short(err.Error()))
		name += ", failed"
	}
	k.report.Actions[name]++
}

// upgradeDefinition changes the schema of one definition, as a release does, so that it is established again.
func (k *soak) upgradeDefinition(number int) error {
	kind := k.suite.kinds[k.random.IntN(len(k.suite.kinds))]
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.SetName(kind.Resource)
	patch := fmt.Sprintf(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/description","value":"release %d"}]`, number)
	return k.suite.cluster.Client.Patch(k.suite.ctx, crd, client.RawPatch(types.JSONPatchType, []byte(patch)))
}

// soakCauses are those that stand without the help of the operator's transport.
var soakCauses = []Cause{Quota, Policy, WebhookDown, Retaken, Deleted}

// use does one to three actions of a user, or of somebody else.
func (m *member) use() error {
	for range 1 + m.random.IntN(3) {
		name, err := m.action()
		m.soak.act(name, err)
		if !m.pauseFor(m.soak.Pause/2 + time.Duration(m.random.Int64N(int64(m.soak.Pause)+1))) {
			return m.ctx.Err()
		}
	}
	return nil
}

func (m *member) action() (name string, err error) {
	if m.server != nil && m.random.IntN(3) == 0 {
		return "failing server", m.outage()
	}
	switch m.random.IntN(10) {
	default:
		return "change", m.change()
	case 5:
		return "deletion", m.world.Delete(m.kind.GVK, m.name())
	case 6:
		return "recreation", m.recreate()
	case 7, 8:
		return "drift", m.drifts()
	case 9:
		return "cause", m.suffer()
	}
}

// name is that of the custom resource.
func (m *member) name() string {
	cr, err := m.base.resource(m.origin, m.world.Namespace)
	if err != nil {
		return ""
	}
	return cr.GetName()
}

// change writes a spec with up to three random changes, most of which make no sense.
func (m *member) change() error {
	var edits []Edit
	for range 1 + m.random.IntN(3) {
		edits = append(edits, m.ops[m.random.IntN(len(m.ops))].Edits...)
	}
	spec, err := edited(m.origin, edits)
	if err != nil {
		return err
	}
	_, err = m.replace(m.base, spec, true)
	return client.IgnoreNotFound(err)
}

// recreate deletes the custom resource and creates it again under its name.
func (m *member) recreate() error {
	if err := m.world.Delete(m.kind.GVK, m.name()); err != nil {
		return err
	}
	if err := m.gone(); err != nil {
		return err
	}
	_, err := m.submit(m.base, m.origin)
	return err
}

// gone waits until the custom resource, which is being deleted, is gone.
func (m *member) gone() error {
	return m.await("the custom resource to be gone", func() error {
		if m.history.get(m.kind.Resource, m.name()) != nil {
			return errors.New("it is there")
		}
		return nil
	})
}

// drifts changes one child as somebody else.
func (m *member) drifts() error {
	key, u := m.anyChild()
	if u == nil {
		return nil
	}
	resource, name, _ := strings.Cut(key, "/")
	changes := []Change{OrphanChild, RelabelChild, DeleteChild}
	d := &Drift{Resource: resource, Name: name, Change: changes[m.random.IntN(len(changes))]}
	if err := m.inflict(d, u.DeepCopy()); !errors.Is(err, errNoDrift) {
		return client.IgnoreNotFound(err)
	}
	return nil
}

// suffer has a cause stand on one child for a while.
func (m *member) suffer() error {
	key, u := m.anyChild()
	if u == nil {
		return nil
	}
	resource, name, _ := strings.Cut(key, "/")
	c := causeOf(soakCauses[m.random.IntN(len(soakCauses))])
	if !c.concerns(resource, u) {
		return nil
	}
	m.plan.Standing = &Standing{Resource: resource, Name: name, Cause: c.name}
	end, err := c.begin(m.run, u.DeepCopy())
	m.pauseFor(5 * m.soak.Pause)
	if end != nil {
		err = errors.Join(err, end())
	}
	if errors.Is(err, errNoDrift) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// outages are what the server of a member does at times.
var outages = []Cause{ServerHangs, ServerLate, ServerSlow, ServerGarbage, ServerUntrusted, ServerRedirects}

// outage has the server of the member fail for a while, in which a user requests another fetch, and again afterwards: the pause after an answer that
// makes no sense may be an hour.
func (m *member) outage() error {
	m.plan.Standing = &Standing{Resource: servers, Name: m.base.Name, Cause: outages[m.random.IntN(len(outages))]}
	end, err := m.serve(m.plan.Standing.Cause)
	m.pauseFor(5 * m.soak.Pause)
	err = errors.Join(err, end())
	for _, cr := range m.history.all(m.kind.Resource) {
		err = errors.Join(err, m.ask(cr))
	}
	return client.IgnoreNotFound(err)
}

// anyChild is a random child with its key, or nil.
func (m *member) anyChild() (string, *unstructured.Unstructured) {
	all := m.children()
	if len(all) == 0 {
		return "", nil
	}
	var keys []string
	for key := range all {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	key := keys[m.random.IntN(len(keys))]
	return key, all[key]
}

// putBack gives the custom resource its first spec, or creates it again where a user has deleted it.
func (m *member) putBack() (verdict, error) {
	if u := m.history.get(m.kind.Resource, m.name()); u != nil && u.GetDeletionTimestamp() != nil {
		if err := m.gone(); err != nil {
			return verdict{}, err
		}
	}
	v, err := m.replace(m.base, m.origin, false)
	if apierrors.IsNotFound(err) {
		return m.submit(m.base, m.origin)
	}
	return v, err
}

// comeBack brings the custom resource back to its first state. Everything is made again where its first spec does not lead to Ready: a user may have changed what cannot be changed back.
func (m *member) comeBack() error {
	m.soak.act(returned, nil)
	v, err := m.putBack()
	for attempt := 0; (err != nil || !v.ready()) && attempt < attempts; attempt++ {
		m.suite.Log("%s/%s does not come back, attempt %d: %s, %v", m.kind.Name, m.base.Name, attempt, short(v.String()), err)
		m.soak.act(remade[min(attempt, 1)], nil)
		m.world.clear()
		err = m.await("everything to be gone", func() error {
			for key := range m.history.all("") {
				return fmt.Errorf("%s is left", key)
			}
			return nil
		})
		if err == nil {
			v, err = m.fill(m.base, m.origin)
		}
	}
	if err == nil && !v.ready() {
		err = errors.New(v.String())
	}
	return err
}

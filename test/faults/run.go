package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/engine/shard"
	"mlkeeper.dev/test/harness"
)

// runLabel carries the name of a run's namespace on its goroutines.
const runLabel = "faults.test/run"

// run is one workload with what goes wrong in it, in a namespace of its own.
type run struct {
	suite    *Suite
	kind     *Kind
	workload *Workload
	plan     Plan
	world    *World
	journal  *journal
	history  *history
	ctx      context.Context
	cancel   context.CancelFunc
	start    time.Time

	mu sync.Mutex
	// trap is what the requests meet.
	trap *trap
	// controller is the operator that runs now, or will after the next crash.
	controller harness.Register
	lines      []*line
	operators  int
	// held are until when watches are held, by resource; expired are those that begin anew.
	held    map[string]time.Time
	expires map[string]int
	// stale is shown to the next operator.
	stale   *staleness
	crashes int
	closing bool
	// ended are the operators that are over, to be waited for.
	ended sync.WaitGroup
	notes []string
	// failures are what the run itself saw go wrong, such as a manager that ended by itself.
	failures []Finding
	// allowed are creations and deletions that the plan itself causes, by object.
	allowed map[string]tally
	// remedied is how many faults there were when a user last did what a Stalled custom resource asked for.
	remedied int
	// spared are the paths that the plan itself changed for good, by object.
	spared mask
	// exempt are the objects to which the plan gave another fate than they have in the reference.
	exempt map[string]bool
	// races are what somebody else wrote just before a write of an operator.
	races []race
	// acted is when the last step of the workload began.
	acted time.Time
	// namespaces are those of the run's operators: its own, and that of a guest, which is no matter of the oracles.
	namespaces []string
	// barred answers requests in the place of the API server; nil for those that it lets pass.
	barred func(*http.Request, request) *http.Response
	// stoodUntil is by when an operator that paused while a cause stood has tried again.
	stoodUntil time.Time
	// server is the one that the workload depends on; nil where it depends on none.
	server *server
	// calm is how long nothing may happen after the verdict on an operation.
	calm time.Duration
}

// newRun prepares a run.
func (s *Suite) newRun(k *Kind, w *Workload, p Plan) *run {
	r := &run{
		suite: s, kind: k, workload: w, plan: p, journal: &journal{}, start: time.Now(), trap: newTrap(p.Fault),
		controller: k.Controller, held: map[string]time.Time{}, expires: map[string]int{}, allowed: map[string]tally{},
		spared: mask{}, exempt: map[string]bool{},
	}
	if w.Controller != nil {
		r.controller = w.Controller
	}
	if w.Server != "" {
		r.server = newServer(r.note)
		if k.Asking != nil {
			r.controller = k.Asking(r.server)
		}
	}
	namespace := namespacePrefix + rand.String(8)
	r.world = &World{Namespace: namespace, run: r}
	r.namespaces = []string{namespace}
	r.history = s.recorder.begin(namespace)
	r.ctx, r.cancel = context.WithTimeout(context.Background(), 6*s.Patience)
	return r
}

// close ends what the run started and removes what it made.
func (r *run) close() {
	r.mu.Lock()
	r.closing = true
	r.mu.Unlock()
	r.stopAll()
	r.world.clear()
	r.cancel()
	if r.server != nil {
		r.server.close()
	}
	over := make(chan struct{})
	go func() { r.ended.Wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(r.suite.Patience):
		r.fail("O6", "an operator that was stopped still runs after %s", r.suite.Patience)
	}
	r.suite.recorder.forget(r.world.Namespace)
}

// perform runs the workload up to its end; it returns why it cannot be judged, or did not come to its end.
func (r *run) perform() error {
	if err := r.open(); err != nil {
		return err
	}
	if err := r.steps(r.workload.Setup); err != nil {
		return err
	}
	if len(r.workload.Setup) > 0 {
		if err := r.still(rest1); err != nil {
			return err
		}
	} else if err := r.await("the operator is ready", r.operatorReady); err != nil {
		return err
	}
	if err := r.arm(); err != nil {
		return err
	}
	return r.steps(r.workload.Steps)
}

// open creates the namespace, and starts the operator of the run.
func (r *run) open() error {
	if err := r.createNamespace(); err != nil {
		return err
	}
	return r.boot()
}

// createNamespace creates the namespace of the run.
func (r *run) createNamespace() error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: r.world.Namespace, Labels: map[string]string{keeper.CompositionsLabel: keeper.CompositionsAllowed},
	}}
	if err := r.suite.cluster.Client.Create(r.ctx, ns); err != nil {
		return fmt.Errorf("create the namespace: %w", err)
	}
	return nil
}

// rest1 is how long a run must be still before it is armed, so that it begins as every other does.
const rest1 = 250 * time.Millisecond

func (r *run) steps(steps []Step) error {
	for _, s := range steps {
		r.note("step: %s", s.Name)
		r.acted = time.Now()
		if s.Do != nil {
			if err := s.Do(r.world); err != nil {
				return fmt.Errorf("step %s: %w", s.Name, err)
			}
		}
		until := s.Until
		if until == nil {
			until = (*World).Ready
		}
		if err := r.await("step "+s.Name, func() error { return until(r.world) }); err != nil {
			return err
		}
	}
	return nil
}

// operatorReady says whether the watches of the operators are complete.
func (r *run) operatorReady() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines {
		if l.dead.Load() {
			continue
		}
		if l.ready == nil {
			return errors.New("the operator starts")
		}
		if err := l.ready(); err != nil {
			return err
		}
	}
	return nil
}

// arm has the requests from now on meet the plan's fault.
func (r *run) arm() error {
	r.note("armed")
	r.history.arm()
	r.journal.arm()
	r.mu.Lock()
	r.trap.armed = true
	f := r.plan.Fault
	if f != nil && f.Do.streams() && f.At.Verb == "" {
		r.trap.hit(time.Now())
		r.disturbLocked()
	}
	r.mu.Unlock()
	switch {
	case f == nil:
		return nil
	case f.Do == TwoLeaders:
		r.mu.Lock()
		r.trap.hit(time.Now())
		r.mu.Unlock()
		return r.boot()
	case f.Restart:
		r.stopAll()
		return r.boot()
	}
	return nil
}

// sent notes a request and says what it meets.
func (r *run) sent(l *line, req request) (*entry, Action) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Point{Verb: req.Verb, Resource: req.Resource, Name: lasting(req.Name, r.world.Namespace)}
	p = r.trap.number(p)
	now := time.Now()
	action := r.trap.meets(p, req.counted(), now)
	e := r.journal.add(entry{request: req, Point: p, Operator: l.operator, At: now})
	if action.streams() {
		r.disturbLocked()
		return e, ""
	}
	return e, action
}

// disturbLocked holds, cuts or expires the watches that the plan names.
func (r *run) disturbLocked() {
	f := r.plan.Fault
	until := time.Now().Add(time.Duration(f.For))
	lines := slices.Clone(r.lines)
	switch f.Do {
	case Hold:
		r.held[f.Target] = until
		for _, l := range lines {
			l.watches(f.Target, func(s *stream) { s.hold(until) })
		}
	case Cut:
		for _, l := range lines {
			l.watches(f.Target, func(s *stream) { s.cut(reset()) })
		}
	case Expire:
		r.held[f.Target] = until
		r.expires[f.Target] = 1
		for _, l := range lines {
			l.watches(f.Target, func(s *stream) { s.hold(until) })
		}
		time.AfterFunc(time.Duration(f.For), func() {
			for _, l := range lines {
				l.watches(f.Target, func(s *stream) { s.cut(reset()) })
			}
		})
	}
}

// heldUntil is until when the watches of a resource are held back.
func (r *run) heldUntil(resource string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.plan.Fault == nil || r.plan.Fault.Do != Hold {
		return time.Time{}
	}
	if by, ok := r.held["*"]; ok {
		return by
	}
	return r.held[resource]
}

// expired says that a watch that goes on from a version is told that the version is too old.
func (r *run) expired(resource string, req *http.Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	target := resource
	if _, ok := r.expires["*"]; ok {
		target = "*"
	}
	until, ok := r.held[target]
	if !ok || r.expires[target] == 0 || time.Now().Before(until) || req.URL.Query().Get("sendInitialEvents") == "true" {
		return false
	}
	if target != "*" {
		r.expires[target]--
	}
	return time.Since(until) < time.Second
}

// kill ends an operator at a request, and starts the next one at once.
func (r *run) kill(l *line, e *entry, note string) {
	if note != "" {
		r.journal.done(e, 0, note)
	}
	l.die()
	r.mu.Lock()
	r.crashes++
	if f := r.plan.Fault; f.Back > 0 {
		version := r.history.before(f.Target, f.Back)
		if version > 0 {
			r.stale = &staleness{resource: f.Target, version: version, until: time.Now().Add(time.Duration(f.For))}
		}
	}
	r.mu.Unlock()
	go func() {
		if err := r.boot(); err != nil {
			r.fail("O9", "the operator does not start again: %v", err)
		}
	}()
}

// upgrade replaces the operators by those of the kind.
func (r *run) upgrade() error {
	r.mu.Lock()
	r.controller = r.kind.Controller
	r.mu.Unlock()
	r.stopAll()
	return r.boot()
}

// stopAll ends all operators at once.
func (r *run) stopAll() {
	r.mu.Lock()
	lines := slices.Clone(r.lines)
	r.mu.Unlock()
	for _, l := range lines {
		l.die()
	}
}

// boot starts an operator. It does not wait until it is ready.
func (r *run) boot() error {
	ctx, cancel := context.WithCancel(r.ctx)
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		cancel()
		return nil
	}
	r.ended.Add(1)
	r.operators++
	l := &line{run: r, operator: r.operators, end: cancel, stale: r.stale}
	r.stale = nil
	controller := r.controller
	r.lines = append(r.lines, l)
	r.mu.Unlock()
	var o *harness.Operator
	var done <-chan error
	var err error
	// What it starts carries the name of the run, by which its goroutines are counted.
	pprof.Do(ctx, pprof.Labels(runLabel, r.world.Namespace), func(ctx context.Context) {
		o, done, err = harness.Run(ctx, r.suite.cluster, harness.Options{
			Engine: engine.Options{
				Namespaces: r.namespaces, Concurrency: 4, Shards: shardOf(slices.Clone(r.namespaces)),
			},
			Config: func(cfg *rest.Config) { cfg.Wrap(l.wrap) },
		}, controller)
	})
	if err != nil {
		cancel()
		r.ended.Done()
		return fmt.Errorf("start the operator: %w", err)
	}
	r.mu.Lock()
	l.ready = o.Engine.Ready
	r.mu.Unlock()
	r.note("operator %d starts", l.operator)
	go func() {
		defer r.ended.Done()
		if err := <-done; !l.dead.Load() && r.ctx.Err() == nil {
			r.fail("O9", "the manager ended by itself: %v", err)
		}
	}()
	return nil
}

// shardOf is the shard of an operator that has what is in some namespaces, and the cluster-scoped custom resources that name one of them.
func shardOf(namespaces []string) *shard.Shards {
	return heldBy(func(text string) bool { return slices.Contains(namespaces, ofRun.FindString(text)) })
}

// heldBy is the shard of an operator that has the custom resources whose namespace and name are as a function says.
func heldBy(has func(text string) bool) *shard.Shards {
	out := shard.NewBy(2, func(key types.NamespacedName) int {
		if has(cmp.Or(key.Namespace, key.Name)) {
			return 0
		}
		return 1
	})
	out.Hold(0)
	return out
}

// passDue says whether an operator looks at something of the run again although nothing changes: within a while, which is too soon to tell that
// it is through, or, after a cause that stood, by when the last pause has ended.
func (r *run) passDue(within time.Duration) bool {
	by := time.Now().Add(within)
	r.mu.Lock()
	if r.stoodUntil.After(by) {
		by = r.stoodUntil
	}
	r.mu.Unlock()
	for _, cr := range r.history.all(r.kind.Resource) {
		if harness.PassDue(strings.ToLower(r.kind.GVK.Kind), cr.GetNamespace(), cr.GetName(), by) {
			return true
		}
	}
	for _, inv := range r.history.all(inventories) {
		// They are reconciled by the UID of their owner.
		owner, _, _ := unstructured.NestedStringMap(inv.Object, "spec", "owner")
		if harness.PassDue("inventory", owner["namespace"], owner["uid"], by) {
			return true
		}
	}
	return false
}

// faultsOver is when the last fault of the run ended or will end, and what was to be tried again has been; the zero time where there is none.
func (r *run) faultsOver() time.Time {
	over := r.trapOver()
	r.mu.Lock()
	defer r.mu.Unlock()
	if over.After(r.stoodUntil) {
		return over
	}
	return r.stoodUntil
}

// trapOver is when the last fault that requests meet ended or will end; the zero time where there is none.
func (r *run) trapOver() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trap.overAt()
}

// bar answers a request in the place of the API server; nil where nothing does.
func (r *run) bar(httpRequest *http.Request, req request) *http.Response {
	r.mu.Lock()
	barred := r.barred
	r.mu.Unlock()
	if barred == nil {
		return nil
	}
	return barred(httpRequest, req)
}

// setBar has requests answered in the place of the API server from now on; nil ends it.
func (r *run) setBar(barred func(*http.Request, request) *http.Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.barred = barred
}

// fail notes what the run itself saw go wrong.
func (r *run) fail(oracle, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, Finding{Oracle: oracle, Text: fmt.Sprintf(format, args...)})
}

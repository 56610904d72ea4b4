package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"mlkeeper.dev/test/cluster"
)

// references is how many runs without faults teach what is right.
const references = 3

// Config says what a suite runs.
type Config struct {
	// Seed decides what is sampled, and in which order the plans run.
	Seed int64
	// Long runs every campaign over every workload; otherwise the short form runs.
	Long bool
	// Campaigns restricts the campaigns, Workloads the workloads by "kind/workload"; empty means all.
	Campaigns []string
	Workloads *regexp.Regexp
	// Limit bounds the number of plans of each campaign; 0 leaves it to the form.
	Limit int
	// Parallel is how many plans run at once.
	Parallel int
	// Patience is how long after its last fault a run may take to come to its end. It is long, since a machine may be slow;
	// a run that is right never waits for it.
	Patience time.Duration
	// Settle is how long a cause stands before the operator is watched, Window is how long it is watched.
	Settle, Window time.Duration
	// Stop ends the suite at the first plan that fails.
	Stop bool
	// Folder is where the files of failed plans go.
	Folder string
	// Log prints a line.
	Log func(format string, args ...any)
}

// Suite runs the campaigns on one cluster.
type Suite struct {
	Config
	cluster  *cluster.Cluster
	kinds    []*Kind
	recorder *recorder

	mu   sync.Mutex
	refs map[string]*learned
	// collected is closed once the garbage collector knows the kinds.
	collected chan struct{}
	stopped   bool
	outcomes  []outcome
	// spares are plans of each campaign that were not chosen. They run in the place of those that miss their fault.
	spares map[string][]Plan
	files  int
	// activities are what operators did while causes stood.
	activities []activity
	// operations counts those that were done, by how the custom resource answered.
	operations map[string]int
	// apis are locked by the plans that change them.
	apis locks
	// shared is the operator of the runs without faults, freshes what they are compared with.
	shared  sharedOperator
	freshes freshes
	// ctx is that of the suite.
	ctx context.Context
}

// learned is a reference that is being learned or known.
type learned struct {
	once sync.Once
	ref  *reference
	err  error
}

// wrong is the error of a run without faults in which an oracle found something.
type wrong struct {
	workload string
	findings []Finding
}

// Error names the workload and the first finding.
func (w wrong) Error() string {
	return "the reference of " + w.workload + ": " + w.findings[0].String()
}

// outcome is what became of a plan.
type outcome struct {
	plan     Plan
	findings []Finding
	// missed says that the fault did not take place, since the request that it is keyed by did not come.
	missed bool
	// replaced says that another plan of the campaign ran in its place.
	replaced bool
	took     time.Duration
}

// NewSuite prepares a suite on a cluster with the kinds' definitions installed.
func NewSuite(ctx context.Context, c *cluster.Cluster, cfg Config, kinds ...*Kind) (*Suite, error) {
	for _, name := range cfg.Campaigns {
		if !slices.ContainsFunc(campaigns, func(c campaign) bool { return c.name == name }) {
			return nil, fmt.Errorf("there is no campaign %q: name them with commas between, such as C1,C5", name)
		}
	}
	r, err := record(ctx, c.Config)
	if err != nil {
		return nil, fmt.Errorf("watch the cluster: %w", err)
	}
	s := &Suite{
		Config: cfg, cluster: c, kinds: kinds, recorder: r, ctx: ctx,
		refs: map[string]*learned{}, spares: map[string][]Plan{}, collected: make(chan struct{}),
	}
	s.shared.suite = s
	go func() {
		defer close(s.collected)
		if err := s.awaitCollector(ctx); err != nil && ctx.Err() == nil {
			s.Log("the garbage collector does not know the kinds: %v", err)
		}
	}()
	return s, nil
}

// Run runs the plans of all campaigns and returns a summary.
func (s *Suite) Run() *Report {
	began := time.Now()
	defer s.shared.stop()
	if slices.ContainsFunc(campaigns, func(c campaign) bool { return c.name != misoperation && s.wants(c) }) {
		s.learnAll()
	}
	var plans []Plan
	for _, c := range campaigns {
		if !s.wants(c) {
			continue
		}
		all := c.plans(s)
		chosen, spares := s.choose(c, all)
		s.spares[c.name] = append(s.spares[c.name], spares...)
		s.Log("%s: %d plans of %d", c.name, len(chosen), len(all))
		plans = append(plans, chosen...)
	}
	s.shuffle(plans)
	s.Log("seed %d: %d plans, %d at once; the references took %s", s.Seed, len(plans), s.Parallel,
		time.Since(began).Round(time.Second))
	standing := func(p Plan) bool { return p.Standing != nil }
	changes := func(p Plan) bool { return standing(p) && p.Standing.changesAPI() }
	waiting := slices.DeleteFunc(slices.Clone(plans), func(p Plan) bool { return !standing(p) || changes(p) })
	apis := slices.DeleteFunc(slices.Clone(plans), func(p Plan) bool { return !changes(p) })
	jobs := s.jobs(slices.DeleteFunc(plans, standing))
	s.each(s.Parallel, len(jobs), func(i int) { jobs[i]() })
	// Operators whose causes stand do next to nothing, so that many of them run at once.
	s.each(standingAtOnce*s.Parallel, len(waiting), func(i int) { s.tell(s.one(waiting[i])) })
	// What changes an API changes it for all.
	s.each(s.Parallel, len(apis), func(i int) { s.tell(s.one(apis[i])) })
	return s.report(time.Since(began))
}

// wants says that a campaign was asked for.
func (s *Suite) wants(c campaign) bool {
	return len(s.Campaigns) == 0 || slices.Contains(s.Campaigns, c.name)
}

// count counts an operation by its answer.
func (s *Suite) count(answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.operations == nil {
		s.operations = map[string]int{}
	}
	s.operations[answer]++
}

// jobs are what is to be done for plans: one run each, but for drifts of one workload, which share runs.
func (s *Suite) jobs(plans []Plan) []func() {
	var out []func()
	drifts := map[string][]Plan{}
	for _, p := range plans {
		if p.Drift == nil {
			out = append(out, func() { s.proven(p, s.one) })
			continue
		}
		of := p.Kind + "/" + p.Workload
		if drifts[of] = append(drifts[of], p); len(drifts[of]) == perSeries {
			some := drifts[of]
			out = append(out, func() { s.series(some) })
			drifts[of] = nil
		}
	}
	for _, some := range drifts {
		if len(some) > 0 {
			out = append(out, func() { s.series(some) })
		}
	}
	return out
}

// proven runs a plan, and others of its campaign until the fault of one takes place or none is left. A write of a status that
// came in every reference does not come where a machine is faster or slower, since it tells of more changes at once.
func (s *Suite) proven(p Plan, run func(Plan) outcome) {
	for {
		o := run(p)
		next, replaced := Plan{}, false
		if o.missed && len(o.findings) == 0 {
			next, replaced = s.spare(p.Campaign)
		}
		o.replaced = replaced
		s.tell(o)
		if !replaced {
			return
		}
		p = next
	}
}

// spare takes one of the plans that were not chosen.
func (s *Suite) spare(campaign string) (p Plan, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.spares[campaign]
	if len(left) == 0 || s.stopped {
		return Plan{}, false
	}
	s.spares[campaign] = left[1:]
	return left[0], true
}

// each calls f for the numbers below n, some at once, until the suite is stopped.
func (s *Suite) each(atOnce, n int, f func(int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(atOnce, 1) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		s.mu.Lock()
		stopped := s.stopped
		s.mu.Unlock()
		if stopped {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
}

// eachWorkload calls f for every workload that the suite is to run.
func (s *Suite) eachWorkload(f func(*Kind, *Workload)) {
	for _, k := range s.kinds {
		for i := range k.Workloads {
			w := &k.Workloads[i]
			if s.Workloads != nil {
				if !s.Workloads.MatchString(k.Name + "/" + w.Name) {
					continue
				}
			} else if !s.Long && !w.Short {
				continue
			}
			if w.Server != "" && len(s.Campaigns) > 0 && !slices.Contains(s.Campaigns, "standing") {
				continue
			}
			f(k, w)
		}
	}
}

// learnAll learns the references of all workloads.
func (s *Suite) learnAll() {
	type pair struct {
		k *Kind
		w *Workload
	}
	var all []pair
	s.eachWorkload(func(k *Kind, w *Workload) { all = append(all, pair{k, w}) })
	s.each(s.Parallel, len(all), func(i int) {
		k, w := all[i].k, all[i].w
		ref, err := s.reference(k, w)
		var findings []Finding
		var bad wrong
		switch {
		case errors.As(err, &bad):
			findings = bad.findings
		case err != nil:
			findings = []Finding{{Oracle: "H", Text: err.Error()}}
		default:
			findings = s.alike(k, w, ref)
		}
		if len(findings) > 0 {
			p := Plan{Seed: s.Seed, Kind: k.Name, Workload: w.Name, Campaign: "reference"}
			s.Log("FAILED %s\n  %s", p, strings.Join(texts(findings), "\n  "))
			s.tell(outcome{plan: p, findings: findings})
		}
	})
}

// alike compares the end of a workload with that of another that is to end in the same state (O4).
func (s *Suite) alike(k *Kind, w *Workload, ref *reference) []Finding {
	if w.Same == "" {
		return nil
	}
	_, other := s.find(Plan{Kind: k.Name, Workload: w.Same})
	if other == nil {
		return []Finding{{Oracle: "H", Text: "there is no workload " + w.Same}}
	}
	same, err := s.reference(k, other)
	if err != nil {
		return nil // That is told of the other one.
	}
	diffs := slices.DeleteFunc(compare(same.end, ref.end, same.mask.with(ref.mask)), func(d Diff) bool {
		// The number of a generation tells of the way and not of the state.
		return strings.HasSuffix(d.Path, "bservedGeneration")
	})
	if len(diffs) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d fields differ from the end of %s; the first: %s", len(diffs), w.Same, diffs[0])
	return []Finding{{Oracle: "O4", Text: text, First: &diffs[0]}}
}

// reference returns what is right for a workload. The runs that teach it have no faults, and must be right by every
// oracle that needs no reference.
func (s *Suite) reference(k *Kind, w *Workload) (*reference, error) {
	s.mu.Lock()
	l := s.refs[k.Name+"/"+w.Name]
	if l == nil {
		l = &learned{}
		s.refs[k.Name+"/"+w.Name] = l
	}
	s.mu.Unlock()
	l.once.Do(func() {
		runs := make([]observation, references)
		errs := make([]error, references)
		var wg sync.WaitGroup
		for i := range references {
			wg.Go(func() { runs[i], errs[i] = s.undisturbed(k, w) })
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				l.err = err
				return
			}
		}
		l.ref = refer(runs)
	})
	return l.ref, l.err
}

// undisturbed runs a workload without faults.
func (s *Suite) undisturbed(k *Kind, w *Workload) (observation, error) {
	s.awaitCollected()
	r := s.newRun(k, w, Plan{Seed: s.Seed, Kind: k.Name, Workload: w.Name, Campaign: "reference"})
	defer r.close()
	err := r.perform()
	if err == nil {
		err = r.await("the authority of each webhook", r.verifiable)
	}
	if err == nil {
		err = r.still(700 * time.Millisecond)
	}
	// What is wrong in every run is told also where the run did not come to its end, since it is why.
	findings := append(r.absolute(), r.honest(&reference{})...)
	switch {
	case errors.Is(err, errLate):
		findings = append(findings, Finding{Oracle: "O3", Text: err.Error()})
	case err != nil && len(findings) == 0:
		return observation{}, fmt.Errorf("the reference of %s/%s: %w", k.Name, w.Name, err)
	}
	if len(findings) > 0 {
		s.save(r, findings)
		return observation{}, wrong{k.Name + "/" + w.Name, findings}
	}
	return r.observe(), nil
}

// one runs a plan. A plan whose fault did not take place is tried again, since a request that depends on timing may come
// the next time.
func (s *Suite) one(p Plan) outcome {
	if len(p.Operations) > 0 {
		return s.misoperate(p)
	}
	k, w := s.find(p)
	if w == nil {
		return outcome{plan: p, findings: []Finding{{Oracle: "H", Text: "there is no such workload"}}}
	}
	ref, err := s.reference(k, w)
	if err != nil {
		return outcome{plan: p, findings: []Finding{{Oracle: "H", Text: err.Error()}}}
	}
	s.awaitCollected()
	if p.Standing != nil && p.Standing.changesAPI() {
		defer s.apis.lock(s.custom(ref))()
	}
	if p.Fault == nil && p.Drift == nil && p.Standing == nil {
		// A plan without a fault is the reference itself, which is right as far as it could be learned.
		return outcome{plan: p, findings: s.alike(k, w, ref)}
	}
	var o outcome
	for range 2 {
		began := time.Now()
		r := s.newRun(k, w, p)
		var findings []Finding
		missed := false
		switch {
		case p.Drift != nil:
			findings = r.drift(ref)
		case p.Standing != nil:
			findings, missed = r.stand(ref)
		default:
			findings = r.judge(ref, r.perform(), s.quiet())
			missed = !r.reached()
		}
		o = outcome{plan: p, findings: findings, missed: missed, took: time.Since(began)}
		if len(findings) > 0 {
			s.save(r, findings)
		}
		r.close()
		if len(findings) == 0 {
			o.findings = r.failures
		}
		if !o.missed || len(o.findings) > 0 {
			break
		}
	}
	return o
}

// quiet is how long nothing may happen at the end of a run.
func (s *Suite) quiet() time.Duration {
	if s.Long {
		return 1500 * time.Millisecond
	}
	return 800 * time.Millisecond
}

// find returns the kind and the workload of a plan.
func (s *Suite) find(p Plan) (*Kind, *Workload) {
	for _, k := range s.kinds {
		for i := range k.Workloads {
			if k.Name == p.Kind && k.Workloads[i].Name == p.Workload {
				return k, &k.Workloads[i]
			}
		}
	}
	return nil, nil
}

// Replay runs the plans of files and returns what was found in each.
func (s *Suite) Replay(paths ...string) ([][]Finding, error) {
	defer s.shared.stop()
	plans := make([]Plan, len(paths))
	for i, path := range paths {
		var err error
		if plans[i], err = readPlan(path); err != nil {
			return nil, err
		}
	}
	out := make([][]Finding, len(plans))
	for _, changesAPI := range []bool{false, true} {
		s.each(s.Parallel, len(plans), func(i int) {
			if (plans[i].Standing != nil && plans[i].Standing.changesAPI()) != changesAPI {
				return
			}
			s.Log("replay of %s", plans[i])
			o := s.one(plans[i])
			if o.missed {
				s.Log("%s: the fault did not take place, since the request that it is keyed by did not come", plans[i])
			}
			out[i] = o.findings
		})
	}
	return out, nil
}

// save writes the file of a failed run.
func (s *Suite) save(r *run, findings []Finding) { s.saveFile(r.plan, findings, r.timeline()) }

// saveFile writes the file of a failed plan, with what is wrong and what happened.
func (s *Suite) saveFile(p Plan, findings []Finding, timeline []string) {
	s.mu.Lock()
	s.files++
	n := s.files
	s.mu.Unlock()
	path := filepath.Join(s.Folder, fmt.Sprintf("%s-%s-%03d.json", p.Campaign, p.Workload, n))
	err := os.MkdirAll(s.Folder, 0o755)
	if err == nil {
		err = writePlan(path, planFile{
			Plan: p, Replay: "make faults PLAN=" + path, Findings: findings, Timeline: timeline,
		})
	}
	if err != nil {
		s.Log("the plan file could not be written: %v", err)
		return
	}
	s.Log("FAILED %s\n  %s\n  replay: make faults PLAN=%s", p, strings.Join(texts(findings), "\n  "), path)
}

func texts(findings []Finding) []string {
	out := make([]string, 0, len(findings))
	for _, f := range findings {
		out = append(out, f.String())
	}
	return out
}

// tell takes in an outcome.
func (s *Suite) tell(o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes = append(s.outcomes, o)
	if len(o.findings) > 0 && s.Stop {
		s.stopped = true
	}
	if n := len(s.outcomes); n%100 == 0 {
		go s.Log("%d plans are done", n)
	}
}

// reached says that the fault of the plan took place.
func (r *run) reached() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plan.Fault == nil || r.trap.reached()
}

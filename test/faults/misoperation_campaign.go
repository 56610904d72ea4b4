package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/cluster"
)

// How many operations are in a plan, and how many plans of each sort a kind has at most.
const (
	fieldsPerPlan = 4
	stepsPerWalk  = 6
	perKind       = 100
)

// freshes are the fresh custom resources that were made, by kind, base and spec.
type freshes struct {
	mu  sync.Mutex
	all map[string]*made
}

type made struct {
	once sync.Once
	f    *fresh
	err  error
}

// fresh returns the fresh custom resource of a spec, which it makes once, and once more patiently.
func (s *Suite) fresh(k *Kind, b *Base, spec map[string]any, patient bool) (*fresh, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode a spec: %w", err)
	}
	key := fmt.Sprintf("%s/%s/%t/%s", k.Name, b.Name, patient, raw)
	s.freshes.mu.Lock()
	if s.freshes.all == nil {
		s.freshes.all = map[string]*made{}
	}
	m := s.freshes.all[key]
	if m == nil {
		m = &made{}
		s.freshes.all[key] = m
	}
	s.freshes.mu.Unlock()
	m.once.Do(func() { m.f, m.err = s.freshOf(k, b, spec, patient) })
	return m.f, m.err
}

// findBase returns the kind and the base of a plan.
func (s *Suite) findBase(p Plan) (*Kind, *Base) {
	for _, k := range s.kinds {
		for i := range k.Bases {
			if k.Name == p.Kind && k.Bases[i].Name == p.Workload {
				return k, &k.Bases[i]
			}
		}
	}
	return nil, nil
}

// misoperations are the plans of the campaign: operations of one field each, after each of which the spec is put back, and walks
// of operations of several fields.
func (s *Suite) misoperations() []Plan {
	var out []Plan
	for _, k := range s.kinds {
		var plans []Plan
		all := 0
		for i := range k.Bases {
			b := &k.Bases[i]
			if b.Server || s.Workloads != nil && !s.Workloads.MatchString(k.Name+"/"+b.Name) {
				continue
			}
			ops, err := s.changesOf(k, b)
			if err != nil {
				p := Plan{Seed: s.Seed, Kind: k.Name, Workload: b.Name, Campaign: misoperation}
				s.tell(outcome{plan: p, findings: []Finding{{Oracle: "H", Text: err.Error()}}})
				continue
			}
			all += len(ops)
			plans = append(plans, s.misplans(k, b, ops)...)
		}
		s.shuffle(plans)
		some := plans[:min(len(plans), perKind)]
		if all > 0 {
			s.Log("misoperation: %d plans of %d of %s, with %d of %d changes of one field", len(some), len(plans), k.Name, changesIn(some), all)
		}
		out = append(out, some...)
	}
	return out
}

// changesIn is how many of the changes of one field the plans have.
func changesIn(plans []Plan) int {
	seen := map[string]bool{}
	for _, p := range plans {
		for _, op := range p.Operations {
			for _, name := range strings.Split(op.Name, "; ") {
				if len(op.Edits) > 0 {
					seen[p.Workload+"/"+name] = true
				}
			}
		}
	}
	return len(seen)
}

// changesOf are the operations of every field of a base, in an order that the seed decides.
func (s *Suite) changesOf(k *Kind, b *Base) ([]Operation, error) {
	schema, err := s.schema(b)
	if err != nil {
		return nil, err
	}
	spec, err := b.spec()
	if err != nil {
		return nil, err
	}
	ops := fieldChanges(b, schema, spec)
	if len(ops) == 0 {
		return nil, fmt.Errorf("the schema of %s has no fields", k.Name)
	}
	random := rand.New(rand.NewPCG(uint64(s.Seed), 1)) //nolint:gosec // A sample needs no cryptographic randomness.
	random.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
	return ops, nil
}

// misplans group operations to plans: of one field with the way back, and walks of several.
func (s *Suite) misplans(k *Kind, b *Base, ops []Operation) []Plan {
	var out []Plan
	plan := func(ops []Operation) {
		out = append(out, Plan{Seed: s.Seed, Kind: k.Name, Workload: b.Name, Campaign: misoperation, Operations: ops})
	}
	for some := range slices.Chunk(ops, fieldsPerPlan) {
		var steps []Operation
		for _, op := range some {
			steps = append(steps, op, Operation{Name: "back"})
		}
		plan(steps)
	}
	random := rand.New(rand.NewPCG(uint64(s.Seed), 2)) //nolint:gosec // A sample needs no cryptographic randomness.
	for range len(ops)/fieldsPerPlan/2 + 1 {
		plan(walk(random, ops))
	}
	return out
}

// walk is a sequence of operations that keep the edits of those before, add one to three, and go back now and then.
func walk(random *rand.Rand, ops []Operation) []Operation {
	var out []Operation
	var edits []Edit
	var names []string
	for i := range stepsPerWalk {
		if i == stepsPerWalk-1 {
			return append(out, Operation{Name: "back"})
		}
		if len(edits) > 3 {
			edits, names = nil, nil
		}
		for range 1 + random.IntN(3) {
			op := ops[random.IntN(len(ops))]
			edits, names = append(slices.Clone(edits), op.Edits...), append(slices.Clone(names), op.Name)
		}
		out = append(out, Operation{Name: strings.Join(names, "; "), Edits: edits, Hasty: random.IntN(4) == 0})
	}
	return out
}

// schema is that of the spec in the version of a base's custom resource.
func (s *Suite) schema(b *Base) (apiextensionsv1.JSONSchemaProps, error) {
	objects, err := cluster.Parse(b.Manifest)
	if err != nil {
		return apiextensionsv1.JSONSchemaProps{}, err
	}
	gvk := objects[0].GroupVersionKind()
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := s.cluster.Client.List(s.ctx, &list, &client.ListOptions{}); err != nil {
		return apiextensionsv1.JSONSchemaProps{}, fmt.Errorf("list the definitions: %w", err)
	}
	for _, crd := range list.Items {
		for _, v := range crd.Spec.Versions {
			if crd.Spec.Group == gvk.Group && crd.Spec.Names.Kind == gvk.Kind && v.Name == gvk.Version {
				return v.Schema.OpenAPIV3Schema.Properties["spec"], nil
			}
		}
	}
	return apiextensionsv1.JSONSchemaProps{}, fmt.Errorf("there is no definition of %s", gvk)
}

// misoperate runs a plan of operations. One in which something is found runs again with fewer operations.
func (s *Suite) misoperate(p Plan) outcome {
	k, b := s.findBase(p)
	if b == nil {
		return outcome{plan: p, findings: []Finding{{Oracle: "H", Text: "there is no such base"}}}
	}
	began := time.Now()
	first := s.operate(k, b, p, s.count)
	if len(first.findings) == 0 {
		return outcome{plan: p, took: time.Since(began)}
	}
	smaller, found, recurs := minimize(p, first, func(p Plan) operated { return s.operate(k, b, p, nil) })
	s.saveFile(smaller, found.findings, found.timeline)
	return outcome{plan: smaller, findings: found.findings, missed: !recurs, took: time.Since(began)}
}

// once says that what was found in a plan of operations was not found again.
func (o outcome) once() bool { return o.plan.Campaign == misoperation && o.missed }

// minimize tries plans with fewer operations, and says whether anything is found again, by whatever oracle. What a settled custom resource is found to
// be may only show that it was looked at too early, on a busy machine, so it has to be found again; everything else counts at once.
func minimize(p Plan, first operated, operate func(Plan) operated) (Plan, operated, bool) {
	found := first
	recurs := slices.ContainsFunc(first.findings, func(f Finding) bool { return !slices.Contains([]string{"O3", "O4", "O10"}, f.Oracle) })
	if slices.ContainsFunc(first.findings, func(f Finding) bool { return f.Oracle == "H" }) {
		return p, found, true
	}
	try := func(ops []Operation) bool {
		smaller := p
		smaller.Operations = ops
		again := operate(smaller)
		if len(again.findings) > 0 {
			p, found, recurs = smaller, again, true
		}
		return len(again.findings) > 0
	}
	ops := slices.Clone(p.Operations[:min(first.at+1, len(p.Operations))])
	p.Operations = ops
	for _, n := range []int{1, 2, len(ops), len(ops)} {
		if n <= len(ops) && try(ops[len(ops)-n:]) {
			break
		}
	}
	for i := len(p.Operations) - 2; i >= 0 && len(p.Operations) > 2 && recurs; i-- {
		try(slices.Delete(slices.Clone(p.Operations), i, i+1))
	}
	return p, found, recurs
}

// operated is what a run of a plan of operations came to: what was found, after which operation, and what happened.
type operated struct {
	findings []Finding
	at       int
	timeline []string
}

// operate runs the operations of a plan up to the first that an oracle finds something in. Each answer is counted, unless count is nil.
func (s *Suite) operate(k *Kind, b *Base, p Plan, count func(answer string)) (out operated) {
	r := s.newMisrun(k, b, p)
	defer s.endMisrun(r)
	m := &misrun{run: r, base: b, count: count}
	err := m.begin()
	for err == nil && out.at < len(p.Operations) {
		if out.findings, err = m.step(p.Operations[out.at]); len(out.findings) > 0 || err != nil {
			break
		}
		out.at++
	}
	switch {
	case errors.Is(err, errLate):
		out.findings = append(out.findings, Finding{Oracle: "O3", Text: err.Error()})
	case err != nil:
		out.findings = append(out.findings, Finding{Oracle: "H", Text: err.Error()})
	}
	if failed := s.recorder.failed(); failed != nil {
		out.findings = []Finding{{Oracle: "H", Text: failed.Error()}}
		return out
	}
	if len(out.findings) == 0 {
		out.findings = r.unaided()
	}
	if len(out.findings) > 0 {
		out.timeline = r.timeline()
	}
	return out
}

// misrun is a run of a plan of operations.
type misrun struct {
	*run
	base *Base
	// count counts the answer to an operation; nil for a run that repeats another.
	count func(answer string)
	// origin is the spec of the base; mask is what differs between two fresh custom resources of it.
	origin map[string]any
	mask   mask
	// hasty says that the last operation was not waited for.
	hasty bool
	// usual are the children of a fresh custom resource of the base.
	usual snapshot
	// last are the edits of the last spec that the API server accepted, and stuck says that it could not be carried out.
	last  []Edit
	stuck bool
}

// begin creates the custom resource and waits until it is Ready.
func (m *misrun) begin() error {
	var err error
	if m.origin, err = m.base.spec(); err != nil {
		return err
	}
	one, err := m.suite.fresh(m.kind, m.base, m.origin, false)
	if err != nil {
		return err
	}
	two, err := m.suite.fresh(m.kind, m.base, m.origin, true)
	if err != nil {
		return err
	}
	if !one.verdict.ready() {
		return fmt.Errorf("a fresh %s is %s", m.base.Name, one.verdict)
	}
	m.mask, m.usual = learn([]snapshot{one.state, two.state}), two.state
	_, err = m.create(m.base, m.origin)
	return err
}

// step does one operation and judges what becomes of it.
func (m *misrun) step(op Operation) ([]Finding, error) {
	spec, err := edited(m.origin, op.Edits)
	if err != nil {
		return nil, err
	}
	before, hasty := m.owned(), m.hasty
	m.note("operation: %s", op.Name)
	v, err := m.replace(m.base, spec, op.Hasty)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Name, err)
	}
	unwaited := op.Hasty && v == (verdict{})
	// After a spec that was refused, the operator may still be at the one before.
	m.hasty = unwaited || v.Refused && hasty
	m.counted(op, v, unwaited)
	m.note("%s: %s", op.Name, v)
	switch {
	case unwaited:
		m.last, m.stuck = slices.Concat(m.last, op.Edits), false
		return nil, nil
	case v.Refused:
		findings := explained(v, m.base, m.origin, op.Edits, m.last)
		if len(op.Edits) == 0 && m.stuck {
			findings = append(findings, Finding{Oracle: "O10", Text: "what could not be carried out cannot be put back: " + v.Message})
		}
		return m.prefixed(op, findings), nil
	}
	changed, earlier := slices.Concat(op.Edits, m.last), m.last
	m.last, m.stuck = op.Edits, !v.ready() && !v.Suspended
	if v.Suspended {
		if hasty {
			return nil, nil
		}
		return m.prefixed(op, m.untouched(before, nil, m.mask, op.Edits)), nil
	}
	want, err := m.suite.fresh(m.kind, m.base, spec, false)
	if err == nil && want.verdict.ready() != v.ready() {
		// What one of the two waits for may be another controller.
		if want, err = m.suite.fresh(m.kind, m.base, spec, true); err == nil && want.verdict.ready() && !v.stalled() {
			v, err = m.later(v)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Name, err)
	}
	findings := slices.Clone(want.findings)
	if v.ready() {
		more, err := m.equal(spec, want)
		return m.prefixed(op, append(findings, more...)), err
	}
	if want.verdict.ready() && !v.stalled() {
		findings = append(findings, Finding{Oracle: "O4", Text: fmt.Sprintf("it is %s; a fresh one is %s", v, want.verdict)})
	}
	if !hasty {
		against, err := m.permitted(op, v, want, changed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op.Name, err)
		}
		if !v.stalled() {
			m.withdraw(before, want)
		}
		findings = append(findings, m.untouched(before, against, m.mask, changed)...)
	}
	return m.prefixed(op, append(findings, explained(v, m.base, m.origin, op.Edits, earlier)...)), nil
}

// counted counts the answer to an operation. The first spec that is put back has an answer of its own, unless the API server refuses it.
func (m *misrun) counted(op Operation, v verdict, unwaited bool) {
	answer := v.kind(unwaited)
	if len(op.Edits) == 0 && !v.Refused {
		answer = "back"
	}
	if m.count != nil {
		m.count(answer)
	}
}

// withdraw takes out what neither the base nor the present spec declares: an operation before has added it, and it may go.
func (m *misrun) withdraw(before map[string]*unstructured.Unstructured, want *fresh) {
	for key := range before {
		child := m.inSnapshot(key)
		if m.usual[child] == nil && want.state[child] == nil {
			delete(before, key)
		}
	}
}

// permitted is the fresh custom resource whose children may be there although the spec cannot be carried out; nil for none. Beside edits that are
// complained of, the others may be carried out.
func (m *misrun) permitted(op Operation, v verdict, want *fresh, changed []Edit) (*fresh, error) {
	if v.stalled() && want.verdict.ready() {
		return nil, nil
	}
	if !complainsOf(v, changed) {
		return want, nil
	}
	rest := slices.DeleteFunc(slices.Clone(op.Edits), func(e Edit) bool { return complainsOf(v, []Edit{e}) })
	if len(rest) == 0 || len(rest) == len(op.Edits) {
		return nil, nil
	}
	spec, err := edited(m.origin, rest)
	if err != nil {
		return nil, err
	}
	return m.suite.fresh(m.kind, m.base, spec, false)
}

// later is the verdict when the custom resource gets Ready after all.
func (m *misrun) later(v verdict) (verdict, error) {
	err := m.await("what a fresh one has come to", func() error {
		for _, u := range m.history.all(m.kind.Resource) {
			if now, err := m.told(u); err == nil {
				v = now
			}
		}
		if !v.ready() {
			return errors.New(v.String())
		}
		return nil
	})
	if errors.Is(err, errLate) {
		return v, nil // The difference is told.
	}
	return v, err
}

// prefixed tells with each finding which operation it is of.
func (m *misrun) prefixed(op Operation, findings []Finding) []Finding {
	for i := range findings {
		findings[i].Text = short(op.Name) + ": " + findings[i].Text
	}
	return findings
}

// equal waits until the run is as a fresh custom resource of the same spec. What differs between two fresh ones is masked.
func (m *misrun) equal(spec map[string]any, want *fresh) ([]Finding, error) {
	if !want.verdict.ready() {
		return []Finding{{Oracle: "O4", Text: "it is Ready; a fresh one is " + want.verdict.String()}}, nil
	}
	diffs := m.differ(spec, want, m.mask)
	deadline := time.Now().Add(alikeWithin)
	for len(diffs) > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * look)
		diffs = m.differ(spec, want, m.mask)
		if !slices.ContainsFunc(diffs, func(d Diff) bool { return d.Path == "" }) && m.idle() > progress {
			break
		}
	}
	if len(diffs) == 0 {
		return nil, nil
	}
	second, err := m.suite.fresh(m.kind, m.base, spec, true)
	if err != nil {
		return nil, err
	}
	// A status that other controllers feed may have come further in one than in the other.
	if len(m.differ(spec, second, m.mask)) == 0 {
		return nil, nil
	}
	if diffs = m.differ(spec, want, m.mask.with(learn([]snapshot{want.state, second.state}))); len(diffs) == 0 {
		return nil, nil
	}
	text := fmt.Sprintf("%d fields differ from a fresh custom resource; the first: %s", len(diffs), diffs[0])
	if len(diffs) > 1 {
		text += fmt.Sprintf("; the next: %s", diffs[1])
	}
	return []Finding{{Oracle: "O4", Text: text, First: &diffs[0]}}, nil
}

func (m *misrun) differ(spec map[string]any, want *fresh, k mask) []Diff {
	return slices.DeleteFunc(compare(want.state, m.state(), k), func(d Diff) bool {
		return m.base.Remembers != nil && m.base.Remembers(spec, d)
	})
}

package engine

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/watch"
)

// renderCache is the plan of a pass with the objects as they were stamped, for a system that tells when it stays the same.
type renderCache struct {
	facts      any
	generation int64
	plan       plan.Plan
	owners     []plan.Owner
	stamped    [][]plan.Stamped
}

// renderCached renders the plan, unless it is that of the pass before.
func (s *stacks[C, F]) renderCached(p *reconciliation[C, F]) {
	steady, ok := s.sys.(controller.PlanCache[F])
	if !ok {
		p.plan = s.sys.Render(p.cr, p.facts)
		return
	}
	last := p.cache
	if last != nil && last.generation == p.cr.GetGeneration() {
		if before, ok := last.facts.(F); ok && steady.SamePlan(before, p.facts) {
			p.plan = last.plan
			return
		}
	}
	p.plan = s.sys.Render(p.cr, p.facts)
	p.cache = &renderCache{facts: p.facts, generation: p.cr.GetGeneration(), plan: p.plan}
	s.keepPlan(p)
}

// followEvictions has the engine drop what it keeps of a custom resource whenever the controller does.
func (s *stacks[C, F]) followEvictions() {
	if evicting, ok := s.sys.(controller.Evicting); ok {
		evicting.OnEvict(s.evict)
	}
}

// evict drops the plan of a custom resource whose controller has dropped what it was rendered from, and the results of its jobs. It
// enqueues nothing: the next reconcile renders anew.
func (s *stacks[C, F]) evict(key client.ObjectKey) {
	s.mu.Lock()
	if l, ok := s.states[key]; ok {
		l.renderCache = nil
		l.evictions++
	}
	s.mu.Unlock()
	s.jobs.Release(watch.Referrer{Kind: s.def.GVK.GroupKind(), Namespace: key.Namespace, Name: key.Name})
}

// lastPlan is the last plan of a custom resource, and how often it was evicted.
func (s *stacks[C, F]) lastPlan(l *reconcileState) (*renderCache, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.renderCache, l.evictions
}

// keepPlan keeps the plan of a reconcile, unless what it was rendered from was evicted meanwhile.
func (s *stacks[C, F]) keepPlan(p *reconciliation[C, F]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.state.evictions == p.evictions {
		p.state.renderCache = p.cache
	}
}

package engine

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/rollout"
	"mlkeeper.dev/internal/engine/status"
)

// eventRolloutExceeded is the event of a custom resource that was not Ready by the deadline of its rollout.
const eventRolloutExceeded = "RolloutDeadlineExceeded"

// settled is what a custom resource was Ready with last: everything of its own that its pods follow from.
type settled struct {
	generation int64
	inputs     string
}

// ownChange says that the custom resource, or something of its namespace that it refers to, is another than when it was
// Ready last: what is written then is no rollout of the operator's.
func (s *stacks[C, F]) ownChange(p *reconciliation[C, F]) bool {
	last := &p.state.settled
	if last.generation == 0 {
		last.generation = readyGeneration(*s.def.Common(p.before).Conditions)
	}
	if last.inputs == "" {
		last.inputs = cmp.Or(p.plan.AppliedInputs, p.plan.Inputs)
	}
	return last.generation != p.before.GetGeneration() || p.plan.Inputs != "" && last.inputs != p.plan.Inputs
}

// readyGeneration is the generation that a custom resource was Ready with when a manager before this one wrote its status, and 0 where it
// was not Ready: the change that it was not Ready for may be its own. The inputs may have changed since; whoever has changed them waits.
func readyGeneration(conditions []metav1.Condition) int64 {
	if ready := meta.FindStatusCondition(conditions, status.ConditionReady); ready != nil && ready.Status == metav1.ConditionTrue {
		return ready.ObservedGeneration
	}
	return 0
}

// holdRollout turns the restart of pods that the operator brings into a wait, while another namespace rolls. A change of the
// custom resource's own neither takes the slot nor waits for it, and what is not Ready is never held back, since the change
// may be its cure (invariant 14).
func (s *stacks[C, F]) holdRollout(p *reconciliation[C, F]) {
	if s.ownChange(p) {
		s.releaseRollout(p.key)
		return
	}
	for i := range p.actions {
		a := &p.actions[i]
		if a.Verb != decide.Apply || a.Reason != decide.ReasonChanged || !rollsPods(a.Key.Kind) {
			continue
		}
		if seen, ok := s.informers.Child(s.def.Controller, a.Key); !ok || seen.Health.Status != health.Current {
			continue
		}
		grant := s.acquireRollout(p.key)
		if !grant.OK {
			a.Verb, a.Reason = decide.Wait, status.ReasonWaitingForRollout
			a.Detail = rolloutOf(grant.Holder) + " to finish before " + a.Key.String() + " is updated"
			p.held = "waiting for " + a.Detail
			p.requeueAt(grant.Until)
		}
	}
}

// settleRollout ends the part that a custom resource has in a rollout once it is Ready, or stands still until somebody
// changes something, and tells that it was not Ready by the deadline.
func (s *stacks[C, F]) settleRollout(p *reconciliation[C, F], ready bool) {
	stalled := slices.ContainsFunc(p.problems, func(problem plan.Problem) bool {
		return problem.Class == plan.Terminal || p.gatherFailed && !problem.Brief
	})
	switch {
	case ready && p.held == "":
		p.state.settled = settled{p.before.GetGeneration(), p.plan.Inputs}
		s.releaseRollout(p.key)
	case stalled:
		s.releaseRollout(p.key)
	case s.rollouts.Exceeded(s.rolloutKey(p.key)):
		s.recorder.Eventf(p.before, nil, corev1.EventTypeWarning, eventRolloutExceeded, "Rollout",
			"it is not Ready %s after its pods were restarted for a change of the operator; other namespaces go on", rollout.Deadline)
	}
}

func rolloutOf(namespace string) string {
	if namespace == "" {
		return "the rollouts of another manager"
	}
	return "the rollout in namespace " + namespace
}

// rolloutTurn has the managers that share the shards take turns with their slots.
type rolloutTurn struct{ *Engine }

// Wanted implements shard.Turn.
func (t rolloutTurn) Wanted() bool { return t.rollouts.Wanted() }

// Take implements shard.Turn.
func (t rolloutTurn) Take() {
	for _, k := range t.rollouts.TakeTurn() {
		t.enqueue(k.Kind, k.Namespace, k.Name)
	}
}

// End implements shard.Turn.
func (t rolloutTurn) End() bool {
	ended, exceeded := t.rollouts.EndTurn(t.Clock.Now())
	for _, k := range exceeded {
		t.enqueue(k.Kind, k.Namespace, k.Name)
	}
	return ended
}

func rollsPods(kind string) bool {
	return kind == "Deployment" || kind == "StatefulSet" || kind == "DaemonSet"
}

func (s *stacks[C, F]) rolloutKey(key client.ObjectKey) rollout.Key {
	return rollout.Key{Kind: s.def.GVK.GroupKind(), ObjectKey: key}
}

// acquireRollout asks for the slot, and enqueues those whose namespace has lost it.
func (s *stacks[C, F]) acquireRollout(key client.ObjectKey) rollout.Grant {
	grant := s.rollouts.Acquire(s.rolloutKey(key), s.Clock.Now())
	for _, k := range grant.Exceeded {
		s.Engine.enqueue(k.Kind, k.Namespace, k.Name)
	}
	return grant
}

// releaseRollout ends the rollout of a custom resource and enqueues those that waited for it, of whatever kind.
func (s *stacks[C, F]) releaseRollout(key client.ObjectKey) {
	for _, k := range s.rollouts.Release(s.rolloutKey(key)) {
		s.Engine.enqueue(k.Kind, k.Namespace, k.Name)
	}
}

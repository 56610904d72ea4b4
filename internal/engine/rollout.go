package engine

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// reasonRollout is why an update of running pods waits. What waits stays Ready, since nothing of it is worse than it
// was, and says with Reconciling what is to come.
const reasonRollout = "WaitingForRollout"

// rolloutDeadline is for how long one namespace rolls alone at most. It is that of Kubernetes for a Deployment's progress.
const rolloutDeadline = 10 * time.Minute

// eventRolloutOverdue is the event of a custom resource that lost its turn.
const eventRolloutOverdue = "RolloutDeadlineExceeded"

// roller lets a change that the operator brings, such as the image of a new release, restart the pods of one namespace at a
// time. A namespace that is not Ready again by the deadline no longer holds the others back.
type roller struct {
	mu sync.Mutex
	// holder is the namespace whose custom resources roll now, members those of them that are not Ready again yet, and since
	// when it rolls.
	holder  string
	since   time.Time
	members map[rolling]bool
	waiting map[rolling]bool
	// overdue are those who were not Ready by the deadline and have not told of it yet.
	overdue map[rolling]bool
}

// rolling is one custom resource of any kind.
type rolling struct {
	kind schema.GroupKind
	client.ObjectKey
}

// turn is the answer to a custom resource that would roll.
type turn struct {
	// ok says that it may. Else heldBy is the namespace that rolls, until the time it may go on for.
	ok     bool
	heldBy string
	until  time.Time
	// overdue are those whose namespace has lost its turn for that.
	overdue []rolling
}

// enter asks to roll one custom resource. When another namespace rolls, the custom resource is woken once that is done; it
// asks again itself at the deadline.
func (r *roller) enter(key rolling, now time.Time) turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := turn{ok: true}
	if len(r.members) > 0 && r.holder != key.Namespace {
		until := r.since.Add(rolloutDeadline)
		if now.Before(until) {
			if r.waiting == nil {
				r.waiting = map[rolling]bool{}
			}
			r.waiting[key] = true
			return turn{heldBy: r.holder, until: until}
		}
		out.overdue = slices.Collect(maps.Keys(r.members))
		r.overdue, r.members = r.members, nil
	}
	if len(r.members) == 0 {
		r.holder, r.since, r.members = key.Namespace, now, map[rolling]bool{}
		rolloutSince.Reset()
		rolloutSince.WithLabelValues(r.holder).Set(float64(now.Unix()))
	}
	r.members[key] = true
	delete(r.waiting, key)
	return out
}

// done says that a custom resource rolls no more: it is Ready again, or not to become so by itself. It returns whom to wake
// when that was the last of its namespace.
func (r *roller) done(key rolling) []rolling {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, key)
	delete(r.overdue, key)
	if !r.members[key] {
		return nil
	}
	delete(r.members, key)
	if len(r.members) > 0 {
		return nil
	}
	rolloutSince.Reset()
	var out []rolling
	for k := range r.waiting {
		out = append(out, k)
	}
	r.waiting = nil
	return out
}

// late says, once, that a custom resource was not Ready by the deadline.
func (r *roller) late(key rolling) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer delete(r.overdue, key)
	return r.overdue[key]
}

// settled is what a custom resource was Ready with last: everything of its own that its pods follow from.
type settled struct {
	generation int64
	inputs     string
}

// ownChange says that the custom resource, or something of its namespace that it refers to, is another than when it was
// Ready last: what is written then is no rollout of the operator's.
func (s *stacks[C, F]) ownChange(p *pass[C, F]) bool {
	last := &p.life.settled
	if last.generation == 0 {
		// After a start, what the status knows. The inputs may have changed meanwhile; whoever has changed them waits.
		last.generation = *s.def.Common(p.before).ObservedGeneration
	}
	if last.inputs == "" {
		last.inputs = p.plan.Inputs
	}
	return last.generation != p.before.GetGeneration() || p.plan.Inputs != "" && last.inputs != p.plan.Inputs
}

// holdRollout turns the restart of pods that the operator brings into a wait, while another namespace rolls. A change of the
// custom resource's own neither takes a turn nor waits for one, and what is not Ready is never held back, since the change
// may be its cure (law 14).
func (s *stacks[C, F]) holdRollout(p *pass[C, F]) {
	if s.ownChange(p) {
		s.rolled(p.key)
		return
	}
	for i := range p.actions {
		a := &p.actions[i]
		if a.Verb != decide.Apply || a.Reason != decide.ReasonChanged || !rollsPods(a.Key.Kind) {
			continue
		}
		if seen, ok := s.hub.Child(s.def.Controller, a.Key); !ok || seen.Health.Status != health.Current {
			continue
		}
		turn := s.roller.enter(s.rolling(p.key), s.Clock.Now())
		for _, k := range turn.overdue {
			s.Engine.wake(k.kind, k.Namespace, k.Name)
		}
		if !turn.ok {
			a.Verb, a.Reason = decide.Wait, reasonRollout
			a.Detail = "the rollout in namespace " + turn.heldBy + " to finish before " + a.Key.String() + " is updated"
			p.held = "waiting for " + a.Detail
			p.wake(turn.until)
		}
	}
}

// settleRollout ends the part that a custom resource has in a rollout once it is Ready, or stands still until somebody
// changes something, and tells that it was not Ready by the deadline.
func (s *stacks[C, F]) settleRollout(p *pass[C, F], ready bool) {
	stalled := slices.ContainsFunc(p.problems, func(problem plan.Problem) bool {
		return problem.Class == plan.Terminal || p.blind && !problem.Brief
	})
	switch {
	case ready && p.held == "":
		p.life.settled = settled{p.before.GetGeneration(), p.plan.Inputs}
		s.rolled(p.key)
	case stalled:
		s.rolled(p.key)
	case s.roller.late(s.rolling(p.key)):
		s.recorder.Eventf(p.before, nil, corev1.EventTypeWarning, eventRolloutOverdue, "Rollout",
			"it is not Ready %s after its pods were restarted for a change of the operator; other namespaces go on", rolloutDeadline)
	}
}

func rollsPods(kind string) bool {
	return kind == "Deployment" || kind == "StatefulSet" || kind == "DaemonSet"
}

func (s *stacks[C, F]) rolling(key client.ObjectKey) rolling {
	return rolling{s.def.GVK.GroupKind(), key}
}

// rolled ends the rollout of a custom resource and wakes those that waited for it, of whatever kind.
func (s *stacks[C, F]) rolled(key client.ObjectKey) {
	for _, k := range s.roller.done(s.rolling(key)) {
		s.Engine.wake(k.kind, k.Namespace, k.Name)
	}
}

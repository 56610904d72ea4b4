package engine

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/health"
)

// reasonRollout is why an update of running pods waits. What waits stays Ready, since nothing of it is worse than it
// was, and says with Reconciling what is to come.
const reasonRollout = "Rollout"

// roller lets a change that nobody asked for in a spec, such as the image of a new operator release, restart the pods
// of one namespace at a time.
type roller struct {
	mu sync.Mutex
	// holder is the namespace whose custom resources roll now, members those of them that are not Ready again yet.
	holder  string
	members map[rolling]bool
	waiting map[rolling]bool
}

// rolling is one custom resource of any kind.
type rolling struct {
	kind schema.GroupKind
	client.ObjectKey
}

// enter asks to roll one custom resource. When another namespace rolls, its name is returned and the custom resource
// is woken once that is done.
func (r *roller) enter(key rolling) (heldBy string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.members) > 0 && r.holder != key.Namespace {
		if r.waiting == nil {
			r.waiting = map[rolling]bool{}
		}
		r.waiting[key] = true
		return r.holder, false
	}
	if r.members == nil {
		r.members = map[rolling]bool{}
	}
	r.holder = key.Namespace
	r.members[key] = true
	return "", true
}

// done says that a custom resource is Ready again, or gone; it returns whom to wake when that was the last of its
// namespace.
func (r *roller) done(key rolling) []rolling {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, key)
	if !r.members[key] {
		return nil
	}
	delete(r.members, key)
	if len(r.members) > 0 {
		return nil
	}
	var out []rolling
	for k := range r.waiting {
		out = append(out, k)
	}
	r.waiting = nil
	return out
}

// holdRollout turns the restart of pods that no change of this spec asked for into a wait, while another namespace
// rolls. What is not Ready is never held back, since the change may be its cure (law 14).
func (s *stacks[C, F]) holdRollout(p *pass[C, F]) {
	if *s.def.Common(p.before).ObservedGeneration != p.before.GetGeneration() {
		return
	}
	for i := range p.actions {
		a := &p.actions[i]
		if a.Verb != decide.Apply || a.Reason != decide.ReasonChanged || !rollsPods(a.Key.Kind) {
			continue
		}
		if seen, ok := s.hub.Child(s.def.Room, a.Key); !ok || seen.Health.Status != health.Current {
			continue
		}
		if heldBy, ok := s.roller.enter(s.rolling(p.key)); !ok {
			a.Verb, a.Reason = decide.Wait, reasonRollout
			a.Detail = "the rollout in namespace " + heldBy + " to finish before " + a.Key.String() + " is updated"
			p.held = "waiting for " + a.Detail
		}
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

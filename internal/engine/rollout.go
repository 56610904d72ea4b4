package engine

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/health"
)

// roller lets a change that nobody asked for in a spec, such as the image of a new operator release, restart the pods
// of one namespace at a time.
type roller struct {
	mu sync.Mutex
	// holder is the namespace whose custom resources roll now, members those of them that are not Ready again yet.
	holder  string
	members map[client.ObjectKey]bool
	waiting map[client.ObjectKey]bool
}

// enter asks to roll one custom resource. When another namespace rolls, its name is returned and the custom resource
// is woken once that is done.
func (r *roller) enter(key client.ObjectKey) (heldBy string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.members) > 0 && r.holder != key.Namespace {
		if r.waiting == nil {
			r.waiting = map[client.ObjectKey]bool{}
		}
		r.waiting[key] = true
		return r.holder, false
	}
	if r.members == nil {
		r.members = map[client.ObjectKey]bool{}
	}
	r.holder = key.Namespace
	r.members[key] = true
	return "", true
}

// done says that a custom resource is Ready again; it returns whom to wake when that was the last of its namespace.
func (r *roller) done(key client.ObjectKey) []client.ObjectKey {
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
	var out []client.ObjectKey
	for k := range r.waiting {
		out = append(out, k)
	}
	r.waiting = nil
	return out
}

// leave forgets a custom resource that is gone.
func (r *roller) leave(key client.ObjectKey) { r.done(key) }

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
		if heldBy, ok := s.roller.enter(p.key); !ok {
			a.Verb, a.Reason = decide.Wait, "Rollout"
			a.Detail = "the rollout in namespace " + heldBy + " to finish before " + a.Key.String() + " is updated"
		}
	}
}

func rollsPods(kind string) bool {
	return kind == "Deployment" || kind == "StatefulSet" || kind == "DaemonSet"
}

func (s *stacks[C, F]) wakeOnRollout(keys []client.ObjectKey) {
	for _, k := range keys {
		s.queue.add(k.Namespace, k.Name)
	}
}

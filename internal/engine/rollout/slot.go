// Package rollout owns the slot for rollouts that the operator causes, such as a new default image: one namespace at a time restarts
// its pods. It holds no client, reads nothing and writes nothing; what a custom resource does with its answer is the engine's.
package rollout

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Deadline is for how long one namespace keeps the slot at most. It is progressDeadlineSeconds of a Deployment by default.
const Deadline = 10 * time.Minute

// Key names a custom resource of any kind.
type Key struct {
	Kind schema.GroupKind
	client.ObjectKey
}

// Slot is held by one namespace. A namespace that is not Ready again by the deadline no longer holds the others back. The zero value is free,
// and it is the turn of this manager.
type Slot struct {
	// Changed is called with the namespace that gets the slot, and when, and with none when the slot is free; nil for nobody to call.
	Changed func(holder string, since time.Time)

	mu sync.Mutex
	// away says that it is not the turn of this manager. It stays false where managers do not take turns.
	away bool
	// holder is the namespace that has the slot, since when, and members those of its custom resources that are not Ready again.
	holder  string
	since   time.Time
	members map[Key]bool
	waiting map[Key]bool
	// called are those that waited, were told that they may ask again, and have not asked yet, with when EndTurn saw them first.
	called map[Key]time.Time
	// exceeded are those that were not Ready by the deadline and have not reported it yet.
	exceeded map[Key]bool
}

// Grant is the answer to a custom resource whose pods would be restarted.
type Grant struct {
	// OK says that they may be. Else Holder is the namespace that has the slot, until Until at the latest; it is empty where it is not the
	// turn of this manager.
	OK     bool
	Holder string
	Until  time.Time
	// Exceeded are those whose namespace has lost the slot to this one, at the deadline.
	Exceeded []Key
}

// Acquire asks for the slot for one custom resource. Where another namespace has it, Release returns the custom resource once it is
// free; it asks again itself at the deadline.
func (s *Slot) Acquire(key Key, now time.Time) Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Grant{OK: true}
	delete(s.called, key)
	if s.away {
		s.wait(key)
		return Grant{Until: now.Add(Deadline)}
	}
	if len(s.members) > 0 && s.holder != key.Namespace {
		until := s.since.Add(Deadline)
		if now.Before(until) {
			s.wait(key)
			return Grant{Holder: s.holder, Until: until}
		}
		out.Exceeded = s.exceed()
	}
	if len(s.members) == 0 {
		s.holder, s.since, s.members = key.Namespace, now, map[Key]bool{}
		s.changed(s.holder, now)
	}
	s.members[key] = true
	delete(s.waiting, key)
	return out
}

func (s *Slot) wait(key Key) {
	if s.waiting == nil {
		s.waiting = map[Key]bool{}
	}
	s.waiting[key] = true
}

// Wanted says whether a custom resource has the slot or waits for it.
func (s *Slot) Wanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members)+len(s.waiting) > 0
}

// TakeTurn begins the turn of this manager. It returns those that waited for it.
func (s *Slot) TakeTurn() []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = false
	return s.call()
}

// call returns those that wait, and are to ask again.
func (s *Slot) call() []Key {
	out := slices.Collect(maps.Keys(s.waiting))
	s.waiting = nil
	if s.called == nil {
		s.called = make(map[Key]time.Time, len(out))
	}
	for _, key := range out {
		s.called[key] = time.Time{}
	}
	return out
}

// answerTime is how long a turn lasts for those that it has called and that do not ask, such as one that needs the slot no more.
const answerTime = 30 * time.Second

// expects says that one that was called may still ask.
func (s *Slot) expects(now time.Time) bool {
	for key, since := range s.called {
		switch {
		case since.IsZero():
			s.called[key] = now
		case now.Sub(since) >= answerTime:
			delete(s.called, key)
		}
	}
	return len(s.called) > 0
}

// EndTurn ends the turn of this manager, unless a custom resource has the slot or waits for it, or was called and may still ask. The turn of
// one whose namespace is not Ready again by the deadline ends, too: exceeded are the custom resources that lose the slot.
func (s *Slot) EndTurn(now time.Time) (ended bool, exceeded []Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	overdue := len(s.members) > 0 && !now.Before(s.since.Add(Deadline))
	if (s.expects(now) || len(s.members)+len(s.waiting) > 0) && !overdue {
		return false, nil
	}
	if overdue {
		exceeded = s.exceed()
		s.changed("", time.Time{})
	}
	s.away, s.called = true, nil
	return true, exceeded
}

// exceed takes the slot from the namespace that has it, at the deadline.
func (s *Slot) exceed() []Key {
	out := slices.Collect(maps.Keys(s.members))
	s.exceeded, s.members = s.members, nil
	return out
}

// Release ends the rollout of a custom resource: it is Ready again, or cannot become Ready without a change. It returns those that
// waited, where that was the last of its namespace.
func (s *Slot) Release(key Key) []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, key)
	delete(s.called, key)
	delete(s.exceeded, key)
	if !s.members[key] {
		return nil
	}
	delete(s.members, key)
	if len(s.members) > 0 {
		return nil
	}
	s.changed("", time.Time{})
	return s.call()
}

func (s *Slot) changed(holder string, since time.Time) {
	if s.Changed != nil {
		s.Changed(holder, since)
	}
}

// Exceeded says, once, that a custom resource was not Ready by the deadline.
func (s *Slot) Exceeded(key Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer delete(s.exceeded, key)
	return s.exceeded[key]
}

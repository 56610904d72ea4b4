package engine

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/wiring"
)

// pendingReady is a custom resource with a Ready that is not written yet, as its wires see it.
type pendingReady[C any] struct {
	cr C
	// since is when the wires could see it first: a look that began before does not acknowledge it.
	since time.Time
	// unacknowledged are the targets that the wires have not processed since.
	unacknowledged map[wireTarget]bool
}

// wireTarget is one target of one wire.
type wireTarget struct {
	wire   string
	target client.ObjectKey
}

// showReady shows the wires a custom resource with the Ready that is about to be written, and says whether one of them has not
// acknowledged it.
func (s *stacks[C, F]) showReady(key client.ObjectKey, cr C) (unacknowledged bool) {
	targets := map[wireTarget]bool{}
	for _, w := range s.wires {
		for _, target := range w.targets(key.Namespace) {
			targets[wireTarget{w.wire.Name, target}] = true
		}
	}
	s.mu.Lock()
	pending, shown := s.pendingReady[key]
	if !shown {
		pending = &pendingReady[C]{cr: cr.DeepCopyObject().(C), since: s.Clock.Now(), unacknowledged: targets}
		s.pendingReady[key] = pending
	}
	unacknowledged = len(pending.unacknowledged) > 0
	s.mu.Unlock()
	if !shown {
		// A user waits for the Ready, so that its wires come before those of new custom resources.
		for _, w := range s.wires {
			w.enqueueWith(priorityHealth, key.Namespace)
		}
	}
	return unacknowledged
}

// withdrawReady forgets the Ready of a custom resource that is written, or is not the case any more.
func (s *stacks[C, F]) withdrawReady(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pendingReady, key)
}

// acknowledged records that a wire has processed a target, which it began to do at a time, and enqueues the custom resources whose
// Ready waited for nothing else.
func (s *stacks[C, F]) acknowledged(wire string, target client.ObjectKey, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, pending := range s.pendingReady {
		at := wireTarget{wire, target}
		if key.Namespace != target.Namespace || !pending.unacknowledged[at] || began.Before(pending.since) {
			continue
		}
		delete(pending.unacknowledged, at)
		if len(pending.unacknowledged) == 0 {
			s.queue.addWith(priorityHealth, key.Namespace, key.Name)
		}
	}
}

// wiringOf returns the outcomes of the wires for one custom resource, and whether its Ready waits for more of them.
func (s *stacks[C, F]) wiringOf(p *reconciliation[C, F]) (outcomes map[string][]wiring.Outcome, awaits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending, shown := s.pendingReady[p.key]
	return p.state.wiring, shown && len(pending.unacknowledged) > 0
}

package engine

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/decide"
)

// opening says that gather waits for a watch that is being opened for the first time.
func (p *reconciliation[C, F]) opening() bool {
	return p.gatherFailed && len(p.problems) == 1 && p.problems[0].Reason == decide.ReasonNotSynced
}

// opens is for how long a watch that is being opened for a custom resource is waited for without a word. One that cannot be opened must
// hold up no deletion, and is to be told.
func (s *stacks[C, F]) opens(state *reconcileState) time.Duration {
	now := s.Clock.Now()
	if state.opening.IsZero() {
		state.opening = now
	}
	return max(state.opening.Add(maxOpening).Sub(now), 0)
}

// explainUnwatched says of what waits for a watch why that cannot be opened.
func explainUnwatched(actions []decide.Action, failure func(schema.GroupKind) error) {
	for i := range actions {
		a := &actions[i]
		if a.Verb != decide.Wait || a.Reason != decide.ReasonNotSynced {
			continue
		}
		if err := failure(a.Key.GroupKind); err != nil {
			a.Detail += ", which cannot be opened: " + err.Error()
		}
	}
}

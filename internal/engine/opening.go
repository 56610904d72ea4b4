package engine

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/decide"
)

// opening says that gather waits for a watch that is being opened for the first time, and for nothing else.
func (p *reconciliation[C, F]) opening() bool {
	return p.gatherFailed && len(p.problems) == 1 && p.problems[0].Reason == decide.ReasonNotSynced
}

// holdOpening returns how long a custom resource waits without a report for a watch that is being opened. One that cannot be opened
// is reported then, and delays no deletion further.
func (s *stacks[C, F]) holdOpening(state *reconcileState, watch string) (rest time.Duration) {
	state.hold, rest = state.hold.Opening(watch, s.Clock.Now())
	return rest
}

// explainUnwatched adds to the actions that wait for a watch why it cannot be opened.
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

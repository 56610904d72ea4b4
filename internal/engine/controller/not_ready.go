package controller

import (
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// NotReadyReason says what the objects of a part wait for, by one of them: one that has failed before all that are waited for, since these
// may wait for it. Among equals it is the first in the alphabet, so that the text stays the same as long as it may.
type NotReadyReason struct {
	// Text is empty while all are ready.
	Text string

	failed bool
}

// Add adds an object that is not as declared.
func (l *NotReadyReason) Add(key plan.Key, s State) {
	text, failed := s.WaitingFor(key), s.Observed != nil && s.Observed.Health.Status == health.Failed
	if l.Text == "" || failed && !l.failed || failed == l.failed && text < l.Text {
		l.Text, l.failed = text, failed
	}
}

package controller

import (
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// Lack says what the objects of a part lack, by one of them: one that has failed before all that are waited for, since these may
// wait for it. Among equals it is the first in the alphabet, so that the text stays the same as long as it may.
type Lack struct {
	// Text is empty while nothing lacks.
	Text string

	failed bool
}

// Add adds an object that is not as declared.
func (l *Lack) Add(key plan.Key, s State) {
	text, failed := s.WaitingFor(key), s.Observed != nil && s.Observed.Health.Status == health.Failed
	if l.Text == "" || failed && !l.failed || failed == l.failed && text < l.Text {
		l.Text, l.failed = text, failed
	}
}

package harness

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// ShiftedClock is a clock that a test sets forward or back.
type ShiftedClock struct {
	clock.RealClock
	by atomic.Int64
}

// Shift sets the clock to so long after the real one.
func (s *ShiftedClock) Shift(by time.Duration) { s.by.Store(int64(by)) }

// Now is the time on the clock.
func (s *ShiftedClock) Now() time.Time { return s.RealClock.Now().Add(time.Duration(s.by.Load())) }

// Since is how much time has passed on the clock.
func (s *ShiftedClock) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

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

// SlowClock is a clock on which time passes twenty times as slowly, so that what the operator waits for at most comes in
// time on a busy machine too. Its timers are the real ones.
type SlowClock struct {
	clock.RealClock
	began time.Time
}

// NewSlowClock begins with the present.
func NewSlowClock() SlowClock { return SlowClock{began: time.Now()} }

// Now is the time on the clock.
func (s SlowClock) Now() time.Time { return s.began.Add(time.Since(s.began) / 20) }

// Since is how much time has passed on the clock.
func (s SlowClock) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

// StoppedClock is a clock on which no time passes, so that no pause ends. Its timers are the real ones.
type StoppedClock struct {
	clock.RealClock
	at time.Time
}

// NewStoppedClock stops at the present.
func NewStoppedClock() StoppedClock { return StoppedClock{at: time.Now()} }

// Now is the time on the clock.
func (s StoppedClock) Now() time.Time { return s.at }

// Since is how much time has passed on the clock.
func (s StoppedClock) Since(t time.Time) time.Duration { return s.at.Sub(t) }

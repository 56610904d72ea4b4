package cluster

import (
	"testing"
	"time"
)

// pollEvery is how often Eventually and Consistently look.
const pollEvery = 20 * time.Millisecond

// Eventually calls check until it returns nil, and fails the test with its last error after the timeout.
func Eventually(t testing.TB, timeout time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", timeout, err)
		}
		time.Sleep(pollEvery)
	}
}

// Consistently calls check for the whole duration and fails the test at its first error.
func Consistently(t testing.TB, duration time.Duration, check func() error) {
	t.Helper()
	start := time.Now()
	for {
		if err := check(); err != nil {
			t.Fatalf("not for %s, but only for %s: %v", duration, time.Since(start).Round(time.Millisecond), err)
		}
		if time.Since(start) >= duration {
			return
		}
		time.Sleep(pollEvery)
	}
}

// Eventually is the function of the same name, for tests that hold a cluster.
func (c *Cluster) Eventually(t testing.TB, timeout time.Duration, check func() error) {
	t.Helper()
	Eventually(t, timeout, check)
}

// Consistently is the function of the same name, for tests that hold a cluster.
func (c *Cluster) Consistently(t testing.TB, duration time.Duration, check func() error) {
	t.Helper()
	Consistently(t, duration, check)
}

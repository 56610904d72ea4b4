package harness

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// TestPassesAreOfOneResource: what the operator does for one custom resource says nothing of another.
func TestPassesAreOfOneResource(t *testing.T) {
	var heard []string
	for _, log := range []logr.Logger{logr.Discard(), funcr.New(func(_, line string) { heard = append(heard, line) }, funcr.Options{})} {
		kind := countingPasses(log).WithValues("controller", t.Name())
		one, other := kind.WithValues("namespace", "ns", "name", "one"), kind.WithValues("namespace", "ns", "name", "other")
		other.V(passLevel).Info("Reconciling")
		other.V(passLevel).Info("Reconcile done, requeueing after 1m0s")
		one.V(passLevel).Info("Reconcile successful")
		one.Error(nil, "Reconciler error")
	}
	for name, want := range map[string]passCount{"one": {ended: 4}, "other": {ended: 2, timers: 2}, "none": {}} {
		got := counted.of(resource{t.Name(), "ns", name})
		if got.due = (time.Time{}); got != want {
			t.Errorf("%s: %+v, not %+v", name, got, want)
		}
	}
	if len(heard) != 1 {
		t.Errorf("the other logger has heard %q, not the error alone", heard)
	}
}

// TestAPassIsDueUntilItIsOver: the next pass sets the timer anew, or none.
func TestAPassIsDueUntilItIsOver(t *testing.T) {
	log := countingPasses(logr.Discard()).WithValues("controller", t.Name(), "namespace", "ns", "name", "one").V(passLevel)
	for _, c := range []struct {
		message       string
		now, inMinute bool
	}{
		{message: "Reconciling"},
		{message: "Reconcile done, requeueing after 30s", inMinute: true},
		{message: "Reconciler error", now: true, inMinute: true},
		{message: "Reconcile done, requeueing", now: true, inMinute: true},
		{message: "Reconcile successful"},
	} {
		log.Info(c.message)
		for by, want := range map[time.Duration]bool{0: c.now, time.Minute: c.inMinute} {
			if got := PassDue(t.Name(), "ns", "one", time.Now().Add(by)); got != want {
				t.Errorf("after %q a pass is due within %s: %t", c.message, by, got)
			}
		}
	}
}

package harness

import (
	"testing"

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
		if got := counted.of(resource{t.Name(), "ns", name}); got != want {
			t.Errorf("%s: %+v, not %+v", name, got, want)
		}
	}
	if len(heard) != 1 {
		t.Errorf("the other logger has heard %q, not the error alone", heard)
	}
}

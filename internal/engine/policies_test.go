package engine

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// TestWithHealth: what the custom resource tells counts, and what a watch has is not changed.
func TestWithHealth(t *testing.T) {
	seen := &observe.Object{Health: health.Result{Status: health.Current}}
	told := health.Result{Status: health.Failed}
	o := plan.Stamped{Object: plan.Object{Health: func(*unstructured.Unstructured) (health.Result, bool) { return told, true }}}
	if got := withHealth(o, seen); got.Health != told || seen.Health.Status != health.Current {
		t.Errorf("%+v, and the watch has %+v", got.Health, seen.Health)
	}
	o.Health = func(*unstructured.Unstructured) (health.Result, bool) { return told, false }
	for _, o := range []plan.Stamped{o, {}} {
		if got := withHealth(o, seen); got != seen {
			t.Errorf("%+v", got)
		}
	}
	if withHealth(o, nil) != nil {
		t.Error("an object that does not exist has a health")
	}
}

// TestWhatIsLeftNoMoreIsTakenBack: an object is outdated when fields of it were left to others that are not to be left any more.
func TestWhatIsLeftNoMoreIsTakenBack(t *testing.T) {
	for _, c := range []struct {
		text  string
		drift plan.Drift
		want  bool
	}{
		{"drift: spec.replicas is left", plan.Drift{}, true},
		{"drift: spec.replicas is left", plan.Drift{Leave: true}, false},
		{"ignored: /spec/replicas", plan.Drift{Ignore: []string{"/spec/other"}}, true},
		{"ignored: /spec/replicas", plan.Drift{Ignore: []string{"/spec/other", "/spec/replicas"}}, false},
		{"spec.x is unknown", plan.Drift{}, false},
	} {
		if got := leavesMore(keeper.InventoryEntry{LeftOut: []string{c.text}}, c.drift); got != c.want {
			t.Errorf("%s with %+v: %v", c.text, c.drift, got)
		}
	}
}

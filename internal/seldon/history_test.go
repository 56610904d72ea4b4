package seldon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/rendering"
)

// TestTheHistoryOfAComponent goes through the life of a component: revisions that are ready, that fail, that never become ready, and more of
// them than are kept.
func TestTheHistoryOfAComponent(t *testing.T) {
	cr := &v1alpha1.SeldonOperator{}
	cr.Namespace = "ns"
	one := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	one.SetName("one")
	key := plan.KeyIn(one, "ns", nil)
	now := testNow
	pass := func(number int32, values, what string) string {
		t.Helper()
		now = now.Add(time.Minute)
		part := Part{component: component{name: core}}
		if number > 0 {
			part.Result = &Result{Inputs: "i"}
			part.Result.Sources = []rendering.Revision{{Digest: "sha256:a"}}
			part.Result.Content = Content{Chart: "small", Version: "1.0.0", ValuesDigest: values, Objects: []*unstructured.Unstructured{one}}
			part.Result.Content.Number = number
		}
		seen := controller.ObservedState{Now: now, Objects: map[plan.Key]controller.State{key: {Current: what == "ready"}}}
		switch what {
		case "hook":
			seen.Problems = []plan.Problem{{Class: plan.Terminal, Reason: "HookFailed", Message: strings.Repeat("long ", 200), Object: key}}
		case "quota":
			seen.Problems = []plan.Problem{{Class: plan.Blocked, Reason: "QuotaExceeded", Object: key}}
		case "other":
			seen.Problems = []plan.Problem{{Class: plan.Terminal, Reason: "Invalid", Object: plan.Key{Name: "other"}}, {Class: plan.Terminal, Reason: "ChartFailed"}}
		}
		status := componentStatus(cr, Facts{}, part, recordedOf(cr, core), seen)
		cr.Status.Components = []v1alpha1.ComponentStatus{status}
		var out []string
		for _, r := range status.History {
			if (r.Message != "") != (r.Outcome == v1alpha1.RevisionFailed) || len(r.Message) > maxOutcome || r.Digest != "sha256:a" || r.Version != "1.0.0" {
				t.Errorf("%+v", r)
			}
			out = append(out, fmt.Sprintf("%d %s %s %d", r.Revision, r.ValuesDigest, r.Outcome, int(r.FirstDeployed.Sub(testNow).Minutes())))
		}
		return strings.Join(out, ", ")
	}
	for _, c := range []struct {
		number       int32
		values, what string
		want         string
	}{
		{0, "", "", ""},
		{1, "a", "", "1 a Pending 2"},
		{1, "a", "quota", "1 a Pending 2"},
		{1, "a", "other", "1 a Pending 2"},
		{1, "a", "ready", "1 a Deployed 2"},
		{0, "", "", "1 a Deployed 2"},      // After a restart.
		{1, "a", "hook", "1 a Deployed 2"}, // A repair that fails.
		{2, "b", "hook", "2 b Failed 8, 1 a Superseded 2"},
		{2, "b", "", "2 b Failed 8, 1 a Superseded 2"},
		{2, "b", "ready", "2 b Deployed 8, 1 a Superseded 2"}, // The hook was run again.
		{3, "c", "", "3 c Pending 11, 2 b Superseded 8, 1 a Superseded 2"},
		{4, "d", "hook", "4 d Failed 12, 3 c Unfinished 11, 2 b Superseded 8, 1 a Superseded 2"},
		// Another manager has counted from the same status.
		{4, "e", "", "4 e Pending 13, 4 d Failed 12, 3 c Unfinished 11, 2 b Superseded 8, 1 a Superseded 2"},
		{5, "f", "ready", "5 f Deployed 14, 4 e Unfinished 13, 4 d Failed 12, 3 c Unfinished 11, 2 b Superseded 8"},
	} {
		if got := pass(c.number, c.values, c.what); got != c.want {
			t.Errorf("revision %d, %s: the history is %q, not %q", c.number, c.what, got, c.want)
		}
	}
	if now := cr.Status.Components[0]; historyOf(now.History, now, v1alpha1.ComponentRevision{})[0].FirstDeployed.IsZero() {
		t.Error("the time of a revision changes")
	}
}

package decide

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/plan"
)

// TestRanks shows what is created before what, as far as a plan tells.
func TestRanks(t *testing.T) {
	s := newWebhookScene(t)
	s.service.Observed, s.workload.Observed = nil, nil
	s.workload.Desired.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"] = map[string]any{"containers": []any{}}
	other := s.workload
	other.Key.Name = "other"
	other.Desired = s.workload.Desired.DeepCopy()
	other.Desired.Object["spec"].(map[string]any)["template"].(map[string]any)["metadata"] = map[string]any{}
	pod := s.service
	pod.Key.Kind = "Pod"
	foreign := s.service
	foreign.Key.Group = "serving.knative.dev"
	for _, c := range []struct {
		name string
		item Item
		want Rank
	}{
		{"a webhook configuration", s.hook, RankPassive},
		{"its server", s.workload, RankAwaited},
		{"a Service", s.service, RankService},
		{"a Service of another group", foreign, RankPassive},
		{"another workload", other, RankWorkload},
		{"a Pod", pod, RankWorkload},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ranks([]Stage{{Items: []Item{s.hook, s.service, s.workload, other}}})(c.item); got != c.want {
				t.Errorf("rank %d, want %d", got, c.want)
			}
		})
	}
	t.Run("the server of what is there", func(t *testing.T) {
		s.hook.Observed = newWebhookScene(t).service.Observed
		if got := ranks([]Stage{{Items: []Item{s.hook, s.service, s.workload}}})(s.workload); got != RankWorkload {
			t.Errorf("rank %d", got)
		}
	})
}

// TestTurn shows the order of writes, and what is left to the next pass.
func TestTurn(t *testing.T) {
	some := func(verb Verb, rank Rank, n int) (out []Action) {
		for i := range n {
			out = append(out, Action{Verb: verb, Rank: rank, Key: plan.Key{GroupKind: schema.GroupKind{Kind: "X"}, Name: fmt.Sprintf("%s-%d-%d", verb, rank, i)}})
		}
		return out
	}
	short := func(actions []Action) (out []string) {
		for _, a := range actions {
			name := fmt.Sprintf("%s %d", a.Verb, a.Rank)
			if len(out) == 0 || out[len(out)-1] != name {
				out = append(out, name)
			}
		}
		return out
	}
	everything := slices.Concat(some(Create, RankWorkload, 2), some(Leave, RankPassive, 1), some(Create, RankService, 1), some(Create, RankAwaited, 1),
		some(Create, RankPassive, many), some(Apply, RankPassive, 1), some(Delete, RankPassive, 2))
	few := slices.Concat(some(Create, RankWorkload, 2), some(Create, RankPassive, 2), some(Delete, RankPassive, 1))
	workloads := slices.Concat(some(Create, RankWorkload, many), some(Create, RankPassive, 1))
	for _, c := range []struct {
		name    string
		actions []Action
		rest    bool
		want    []string
		left    bool
	}{
		{"few", few, false, []string{"Create 3", "Create 0", "Delete 0"}, false},
		{"many", everything, false, []string{"Leave 0", "Create 0", "Apply 0", "Create 1", "Create 2", "Delete 0"}, true},
		{"the rest of many", everything, true, []string{"Leave 0", "Create 0", "Apply 0", "Create 1", "Create 2", "Create 3", "Delete 0"}, false},
		{"many workloads and little else", workloads, false, []string{"Create 0", "Create 3"}, false},
		{"no workload", some(Create, RankPassive, many), false, []string{"Create 0"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := slices.Clone(c.actions)
			got, left := Turn(c.actions, c.rest)
			if !slices.Equal(short(got), c.want) || left != c.left {
				t.Errorf("%v, left %v", short(got), left)
			}
			names := func(actions []Action) (out []string) {
				for _, a := range actions {
					if a.Verb == Create && a.Rank == RankPassive {
						out = append(out, a.Key.Name)
					}
				}
				return out
			}
			if !slices.Equal(names(got), names(before)) || !slices.Equal(names(c.actions), names(before)) {
				t.Errorf("the order within a rank, or that of the decisions, is another")
			}
		})
	}
}

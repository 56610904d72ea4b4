package decide

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/engine/plan"
)

// Rank is the order in which what a pass creates is created where that is much; within a rank it is that of the stages. A pod
// that starts before its ServiceAccount or ConfigMap fails and waits, and what starts pods sets the controllers of the
// cluster to work, which the API server does beside the writes that are still to come.
type Rank int

const (
	// RankPassive is that of everything that runs no pod, but for Services.
	RankPassive Rank = iota
	// RankAwaited is that of workloads whose pods a webhook configuration waits for.
	RankAwaited
	// RankService is that of Services. The API server finds their addresses one at a time; what is awaited starts meanwhile.
	RankService
	// RankWorkload is that of the other workloads.
	RankWorkload
)

// many is how many objects a pass creates for their ranks to count.
const many = 32

// Turn puts what a pass writes into its order, and leaves the workloads to the next pass where much else is to be created: what
// has waited for the cluster until then, such as the custom resources of new kinds, comes before them too. A pass that does
// the rest leaves nothing, so that what fails holds no workload back for long. left says that some were left.
func Turn(actions []Action, rest bool) (turn []Action, left bool) {
	creates, workloads := 0, 0
	for _, a := range actions {
		if a.Verb == Create {
			creates++
			if a.Rank == RankWorkload {
				workloads++
			}
		}
	}
	if creates < many {
		return actions, false
	}
	turn = slices.Clone(actions)
	slices.SortStableFunc(turn, func(a, b Action) int { return cmp.Compare(a.turn(), b.turn()) })
	if rest || workloads == 0 || creates-workloads < many {
		return turn, false
	}
	return slices.DeleteFunc(turn, func(a Action) bool { return a.Verb == Create && a.Rank == RankWorkload }), true
}

// turn is the rank of what is created; what is deleted comes after everything else.
func (a Action) turn() Rank {
	if a.Verb == Delete {
		return RankWorkload + 1
	}
	return a.Rank
}

// ranks tells the rank of every object of the plan that is about to be created.
func ranks(stages []Stage) func(Item) Rank {
	services, servers := map[plan.Key]bool{}, map[plan.Key]bool{}
	for _, stage := range stages {
		for _, item := range stage.Items {
			for _, service := range awaited(item) {
				services[service] = true
			}
		}
	}
	for _, service := range find(stages, func(i Item) bool { return services[i.Key] }) {
		for _, workload := range behind(stages, service) {
			servers[workload.Key] = true
		}
	}
	return func(i Item) Rank {
		switch {
		case servers[i.Key]:
			return RankAwaited
		case i.Key.Kind == "Pod" && i.Key.Group == "" || hasPodTemplate(i.Desired):
			return RankWorkload
		case i.Key.Kind == "Service" && i.Key.Group == "":
			return RankService
		}
		return RankPassive
	}
}

func hasPodTemplate(u *unstructured.Unstructured) bool {
	_, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec", "containers")
	return found
}

package decide

import (
	"slices"
	"strings"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// IsSuspended says that an object is left as it is, by itself or with its stage.
func IsSuspended(stages []plan.Stage, o plan.Stamped) bool {
	return o.Suspended || stages[o.Stage].Suspended
}

// LeaveSuspended takes the writes of what is suspended out of the decisions.
func LeaveSuspended(stages []plan.Stage, actions []Action) {
	for i := range actions {
		a := &actions[i]
		if a.Writes() && a.Object.Desired != nil && IsSuspended(stages, a.Object) {
			a.Verb, a.Reason = Leave, ReasonSuspended
		}
	}
}

// HoldsPruning says that nothing that the plan no longer has is deleted, since an object of the plan may not come to be what replaces it: another owner
// has it, or it is undecided.
func (a Action) HoldsPruning(stages []plan.Stage) bool {
	return a.Verb == Conflict || undecided(stages, a)
}

// undecided says that nobody knows yet whether an object of the plan is written or refused. Its watch is not complete, as after a start, and may have
// become so since the action was decided. Or its API is not served, which may be a misspelled kind; what is suspended does not count then.
func undecided(stages []plan.Stage, a Action) bool {
	waits := a.Object.Desired != nil && a.Verb == Wait && (a.Reason == ReasonNotSynced || a.Reason == ReasonNotServed)
	return waits && !IsSuspended(stages, a.Object)
}

// KeepListed adds everything to what stays that the Inventories of a stage list, and those of the stages that belong to it: their names are that of
// the stage, a dash and something more. The plan may not have those any more, such as the hooks of a chart's former version.
func KeepListed(inventories []*keeper.Inventory, stage string, stays map[plan.Key]bool) {
	for _, inv := range inventories {
		if inv.Spec.StageName != stage && !strings.HasPrefix(inv.Spec.StageName, stage+"-") {
			continue
		}
		for _, e := range inv.Spec.Entries {
			stays[plan.KeyOfEntry(e)] = true
		}
	}
}

// HoldReplaced has what some stages no longer have stay. Which stage an object was of, Inventories tell. What a custom resource owns itself may be of
// any.
func HoldReplaced(keeping map[string]bool, actions []Action, inventories []*keeper.Inventory) {
	if len(keeping) == 0 {
		return
	}
	prunable := map[plan.Key]bool{}
	for _, inv := range inventories {
		for _, e := range inv.Spec.Entries {
			prunable[plan.KeyOfEntry(e)] = !keeping[inv.Spec.StageName]
		}
	}
	for i := range actions {
		if a := &actions[i]; a.prunes() && !prunable[a.Key] {
			a.Verb, a.Reason, a.Detail = Wait, ReasonDependency, "what may replace "+a.Key.String()
		}
	}
}

// StagesThatKeep are the stages that keep what they no longer have: while an object of the stage waits for another, be it to be created or to be changed,
// it may be what replaces it, and whatever it waits for may be wrong for as long as the timeout of the gate. An object that waits for its own pruning
// (plan.Object.Hold) does not count, and after a rollback none does: what failed is in the way.
func StagesThatKeep(stages []plan.Stage, actions []Action, problems []plan.Problem) map[string]bool {
	out := map[string]bool{}
	for _, stage := range stages {
		if stage.KeepsPruned {
			out[stage.Name] = true
		}
	}
	if slices.ContainsFunc(problems, func(problem plan.Problem) bool { return problem.AllowsPruning }) {
		return out
	}
	for _, a := range actions {
		waits := a.Object.Desired != nil && a.Verb == Wait && a.Reason == ReasonDependency && a.Object.Hold == ""
		if waits && !IsSuspended(stages, a.Object) {
			out[stages[a.Object.Stage].Name] = true
		}
	}
	return out
}

// HoldPruned has everything stay that the plan no longer has while one of the actions holds pruning.
func HoldPruned(stages []plan.Stage, actions []Action) {
	at := slices.IndexFunc(actions, func(a Action) bool { return a.HoldsPruning(stages) })
	if at < 0 {
		return
	}
	for i := range actions {
		if a := &actions[i]; a.prunes() {
			a.Verb, a.Reason, a.Detail = Wait, ReasonDependency, actions[at].Key.String()+" to be written"
		}
	}
}

// prunes says that the action deletes what the plan no longer has.
func (a Action) prunes() bool { return a.Verb == Delete && a.Object.Desired == nil }

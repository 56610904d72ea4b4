package seldon

import (
	"slices"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// The bounds of the schema.
const maxHistory, maxOutcome, maxReconcileAt = 5, 512, 64

// historyOf is the history of a component with its revision as it is now. What is recorded of the revisions before stays as it is, but that
// none of them is the one that runs. at has what is to be noted of the one that is: since when it is there, and why it fails.
func historyOf(before []v1alpha1.ComponentRevision, now v1alpha1.ComponentStatus, at v1alpha1.ComponentRevision) []v1alpha1.ComponentRevision {
	if now.Revision == 0 {
		// Nothing was rendered yet.
		return before
	}
	out := slices.Clone(before)
	if len(out) == 0 || out[0].Revision != now.Revision || out[0].Digest != now.Digest || out[0].ValuesDigest != now.ValuesDigest {
		if len(out) > 0 {
			out[0].Outcome = ended(out[0].Outcome)
		}
		out = slices.Insert(out, 0, v1alpha1.ComponentRevision{
			Revision: now.Revision, Chart: now.Chart, Version: now.Version, Digest: now.Digest, ValuesDigest: now.ValuesDigest,
			FirstDeployed: at.FirstDeployed, Outcome: v1alpha1.RevisionPending, RollbackTo: at.RollbackTo,
		})
		out = out[:min(len(out), maxHistory)]
	}
	switch first := &out[0]; {
	case now.Phase == phaseReady:
		first.Outcome, first.Message, first.ReconcileAt = v1alpha1.RevisionDeployed, "", ""
	case at.Message != "" && first.Outcome != v1alpha1.RevisionDeployed:
		// What was ready once does not fail any more: what is refused then is a repair.
		first.Outcome, first.Message = v1alpha1.RevisionFailed, controller.Cut(at.Message, maxOutcome)
		first.ReconcileAt = at.ReconcileAt
	}
	return out
}

// ended is what becomes of a revision when another follows.
func ended(outcome v1alpha1.RevisionOutcome) v1alpha1.RevisionOutcome {
	switch outcome {
	case v1alpha1.RevisionDeployed:
		return v1alpha1.RevisionSuperseded
	case v1alpha1.RevisionPending:
		return v1alpha1.RevisionUnfinished
	}
	return outcome
}

// failureOf says why a revision with these objects has failed; empty where nothing but time may be missing.
func failureOf(objects []plan.Key, problems []plan.Problem) string {
	for _, p := range problems {
		if p.Class == plan.Terminal && slices.Contains(objects, p.Object) {
			return p.Reason + ": " + p.Message
		}
	}
	return ""
}

package kubeflow

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/rendering"
)

// The conditions of the original, of which one at most is True.
const (
	ConditionAvailable = "Available"
	ConditionDegraded  = "Degraded"
	ConditionPending   = "Pending"
)

// ConditionSourceUnavailable is True while a repository that is needed cannot be fetched.
const ConditionSourceUnavailable = "SourceUnavailable"

// The phases of an application.
const (
	phasePending     = "Pending"
	phaseProgressing = "Progressing"
	phaseReady       = "Ready"
	phaseFailed      = "Failed"
)

// maxMessage and maxWarningText are what the schema allows.
const maxMessage, maxWarningText = 1024, 1024

// Project writes what was observed onto the status. It is pure.
func (s *system) Project(cr *kubeflowv1.KfDef, facts Facts, seen controller.ObservedState) controller.Verdict {
	status := &cr.Status
	status.Warnings = nil
	for _, w := range seen.Warnings[:min(len(seen.Warnings), maxWarnings)] {
		status.Warnings = append(status.Warnings, controller.Cut(w, maxWarningText))
	}
	unavailable(cr, facts, seen)
	if !facts.Result.Rendered() {
		// What runs is as it was; nothing new is known of it.
		conditions(cr, seen)
		return controller.Verdict{}
	}
	if keepsRendering(facts.Result.Content) {
		status.Rendering = facts.Result.Content.Rendering
	}
	status.ReposCache = nil
	for _, r := range facts.Result.Sources {
		status.ReposCache = append(status.ReposCache, kubeflowv1.RepoCache{Name: r.Name, Revision: r.Digest})
	}
	applications(cr, facts, seen)
	conditions(cr, seen)
	return controller.Verdict{Progress: status.ApplicationsReady + " applications ready"}
}

// applications counts the objects of each application.
func applications(cr *kubeflowv1.KfDef, facts Facts, seen controller.ObservedState) {
	status := &cr.Status
	before := status.Applications
	order, dependencyErrors, _ := sortByDependencies(facts.Result.Content.Spec)
	conflicting := conflicts(cr, facts, order)
	status.Applications = make([]kubeflowv1.ApplicationStatus, len(facts.Result.Content.Applications))
	existing := make([]int32, len(facts.Result.Content.Applications))
	for i, a := range facts.Result.Content.Applications {
		one := &status.Applications[i]
		one.Name, one.Phase, one.Message = a.Name, phasePending, controller.Cut(a.Error, maxMessage)
		var reason controller.NotReadyReason
		for _, o := range a.Objects {
			// An object of two applications belongs to both.
			key := keyOf(cr, facts, i, o)
			state := seen.Objects[key]
			one.Objects++
			ready := state.Current || state.Observed != nil && informational(key.GroupKind)
			if ready {
				one.Ready++
			} else {
				reason.Add(key, state)
			}
			if state.Observed != nil {
				existing[i]++
			}
		}
		if one.Message == "" {
			one.Message = controller.Cut(reason.Text, maxMessage)
		}
	}
	ready := 0
	for i := range status.Applications {
		one := &status.Applications[i]
		if j := slices.IndexFunc(before, func(b kubeflowv1.ApplicationStatus) bool { return b.Name == one.Name }); j >= 0 {
			one.Revision = before[j].Revision
		}
		failure, _ := failureOfApplication(facts.Result.Content, i, dependencyErrors[i], conflicting[i])
		switch {
		case failure != "":
			one.Phase, one.Message = phaseFailed, controller.Cut(failure, maxMessage)
		case one.Ready == one.Objects:
			one.Phase, one.Message, one.Revision = phaseReady, "", revision(facts.Result.Content.Spec[i], facts.Result.Sources)
			ready++
		case existing[i] > 0:
			one.Phase = phaseProgressing
		}
	}
	status.ApplicationsReady = fmt.Sprintf("%d/%d", ready, len(status.Applications))
}

// revision is what the repository of an application is at.
func revision(a kubeflowv1.Application, repos []rendering.Revision) string {
	if a.KustomizeConfig == nil || a.KustomizeConfig.RepoRef == nil {
		return ""
	}
	for _, r := range repos {
		if r.Name == a.KustomizeConfig.RepoRef.Name {
			return r.Digest
		}
	}
	return ""
}

// fetchedReasons are the reasons of failures behind which the repositories were fetched.
var fetchedReasons = []string{reasonRenderingAmbiguous, reasonApplicationFailed, rendering.ReasonResultTooLarge, plan.ReasonFetching}

// unavailable says since when and why the repositories cannot be fetched, and what that means (invariant 16). While nothing is known of
// them, it stays as it is.
func unavailable(cr *kubeflowv1.KfDef, facts Facts, seen controller.ObservedState) {
	switch {
	case facts.Result == nil || facts.Pending || facts.Problem.Reason != "":
		return
	case facts.Result.Failure == nil,
		slices.Contains(fetchedReasons, facts.Result.Failure.Reason):
		meta.RemoveStatusCondition(&cr.Status.Conditions, ConditionSourceUnavailable)
		return
	}
	means := "nothing is repaired until the repositories can be fetched: "
	if facts.Result.Rendered() {
		means = "what the repositories gave before stays declared, and nothing newer is applied: "
	}
	meta.SetStatusCondition(&cr.Status.Conditions, metav1.Condition{
		Type: ConditionSourceUnavailable, Status: metav1.ConditionTrue, Reason: facts.Result.Failure.Reason,
		Message:            controller.Cut(means+facts.Result.Failure.Advice(), maxMessage),
		ObservedGeneration: cr.Generation, LastTransitionTime: metav1.NewTime(seen.Now),
	})
}

// conditions writes the original's conditions, which are never True together.
func conditions(cr *kubeflowv1.KfDef, seen controller.ObservedState) {
	current, message := ConditionPending, seen.Waiting
	switch {
	case seen.Ready:
		current, message = ConditionAvailable, "every application is ready"
	case len(seen.Problems) > 0:
		current, message = ConditionDegraded, seen.Problems[0].Error()
	}
	for _, kind := range []string{ConditionAvailable, ConditionDegraded, ConditionPending} {
		c := metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: current, ObservedGeneration: cr.Generation,
			LastTransitionTime: metav1.NewTime(seen.Now),
		}
		if kind == current {
			c.Status, c.Message = metav1.ConditionTrue, controller.Cut(message, maxMessage)
		}
		meta.SetStatusCondition(&cr.Status.Conditions, c)
	}
}

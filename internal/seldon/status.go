package seldon

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/rendering"
)

// switches are the conditions of the switches.
var switches = []struct {
	condition, component string
	on                   func(v1alpha1.Enable) bool
}{
	{"AnalyticsReady", analytics, func(e v1alpha1.Enable) bool { return e.Analytics }},
	{"CatalogueReady", catalogue, func(e v1alpha1.Enable) bool { return e.Catalogue }},
	{"PayloadStoreReady", payloadStore, func(e v1alpha1.Enable) bool { return e.PayloadStore }},
	{"RoutingReady", routing, func(e v1alpha1.Enable) bool { return e.Routing }},
	{"DetectorsReady", detectors, func(e v1alpha1.Enable) bool { return e.Detectors }},
}

// The phases of a component.
const (
	phasePending     = "Pending"
	phaseProgressing = "Progressing"
	phaseReady       = "Ready"
	phaseFailed      = "Failed"
	phaseSuspended   = "Suspended"
)

// The bounds of the schema.
const maxMessage, maxWarningText, maxWarnings = 1024, 1024, 64

// Project writes what was observed onto the status. It is pure.
func (s *system) Project(cr *v1alpha1.SeldonOperator, facts Facts, seen controller.ObservedState) controller.Verdict {
	status := &cr.Status
	status.Warnings = nil
	for _, w := range seen.Warnings[:min(len(seen.Warnings), maxWarnings)] {
		status.Warnings = append(status.Warnings, controller.Cut(w, maxWarningText))
	}
	if facts.Keys == nil {
		// What runs is as it was; nothing new is known of it.
		return controller.Verdict{}
	}
	status.URL = facts.URL
	before := cr.DeepCopy()
	status.Components = nil
	for _, part := range facts.Parts {
		status.Components = append(status.Components, componentStatus(cr, facts, part, recordedOf(before, part.name), seen))
	}
	for _, own := range []struct {
		name    string
		on      bool
		objects []plan.Object
	}{
		{routing, cr.Spec.Enable.Routing, routingObjects(cr, facts)},
		{detectors, cr.Spec.Enable.Detectors, s.detectorObjects(cr, facts)},
	} {
		if own.on {
			status.Components = append(status.Components, plainStatus(own.name, own.objects, facts, seen))
		}
	}
	ready := 0
	for _, c := range status.Components {
		if c.Phase == phaseReady {
			ready++
		}
	}
	status.ComponentsReady = fmt.Sprintf("%d/%d", ready, len(status.Components))
	conditions(cr, seen)
	unavailable(cr, facts, seen)
	return controller.Verdict{Progress: status.ComponentsReady + " components ready", Again: advanced(before, facts, status.Components)}
}

// componentStatus counts the objects of a chart, beside what the status had of it before.
func componentStatus(
	cr *v1alpha1.SeldonOperator, facts Facts, part Part, before v1alpha1.ComponentStatus, seen controller.ObservedState,
) v1alpha1.ComponentStatus {
	out := v1alpha1.ComponentStatus{
		Name: part.name, Phase: phasePending, Trial: part.trial, Chart: part.chart.Name, Version: part.chart.Version,
	}
	// What is recorded says what is an upgrade. After a restart nothing is rendered yet, and nothing is applied of what is suspended.
	out.Digest, out.ValuesDigest, out.DefinitionsVersion = before.Digest, before.ValuesDigest, before.DefinitionsVersion
	out.Revision, out.InstalledRevision = before.Revision, before.InstalledRevision
	if before.ValuesDigest != "" {
		out.Chart, out.Version = before.Chart, before.Version
	}
	if r := part.Result; r.Rendered() && !part.spec.Suspend {
		out.Chart, out.Version, out.Digest, out.ValuesDigest = r.Content.Chart, r.Content.Version, r.Sources[0].Digest, r.Content.ValuesDigest
		out.DefinitionsVersion = r.Content.DefinitionsVersion
		out.Revision, out.InstalledRevision = r.Content.Number, max(r.Content.Installed, before.InstalledRevision)
	}
	var keys []plan.Key
	for _, o := range part.all() {
		keys = append(keys, plan.KeyIn(o, cr.Namespace, facts.Namespaced))
	}
	count(&out, keys, seen)
	if out.InstalledRevision == 0 && out.Phase == phaseReady {
		out.InstalledRevision = out.Revision
	}
	out.KeptRevision, out.KeptDigest = part.Rollback.Revision, part.Rollback.Digest
	now := v1alpha1.ComponentRevision{
		FirstDeployed: metav1.NewTime(seen.Now), ReconcileAt: reconcileAt(cr), Message: part.failure(keys, seen),
	}
	if part.Rollback.Failed != nil {
		now.RollbackTo = part.Rollback.Revision
	}
	if out.History = before.History; !part.spec.Suspend {
		out.History = historyOf(before.History, out, now)
	}
	out.History = part.counted(out.History, seen.Now)
	problem, _ := part.report()
	switch {
	case part.spec.Suspend:
		out.Phase, out.Message = phaseSuspended, "its objects are left as they are"
	case part.Problem != nil:
		out.Phase, out.Message = phaseFailed, controller.Cut(part.Problem.Error(), maxMessage)
	case problem != nil:
		out.Phase, out.Message = phaseFailed, controller.Cut(strings.TrimSuffix(problem.Message, rendering.StaysDeclared), maxMessage)
	case part.Result == nil:
		out.Message = "the chart is being fetched and rendered"
	case part.Pending && out.Phase == phaseReady:
		out.Phase, out.Message = phaseProgressing, "other values are being rendered"
	}
	return out
}

// count counts objects, and says what they wait for.
func count(out *v1alpha1.ComponentStatus, keys []plan.Key, seen controller.ObservedState) {
	made, reason := 0, controller.NotReadyReason{}
	for _, key := range keys {
		state := seen.Objects[key]
		out.Objects++
		if state.Observed != nil {
			made++
		}
		if state.Current {
			out.Ready++
			continue
		}
		reason.Add(key, state)
	}
	out.Message = controller.Cut(reason.Text, maxMessage)
	switch {
	case out.Objects > 0 && out.Ready == out.Objects:
		out.Phase, out.Message = phaseReady, ""
	case made > 0:
		out.Phase = phaseProgressing
	}
}

// plainStatus is that of a switch without a chart.
func plainStatus(name string, objects []plan.Object, facts Facts, seen controller.ObservedState) v1alpha1.ComponentStatus {
	out := v1alpha1.ComponentStatus{Name: name, Phase: phaseReady}
	var keys []plan.Key
	for _, o := range objects {
		keys = append(keys, o.Key())
	}
	if len(keys) > 0 {
		out.Phase = phasePending
		count(&out, keys, seen)
	}
	if p, missing := facts.Missing[name]; missing {
		out.Phase, out.Message = phasePending, controller.Cut(p.Message+"; "+p.Remedy, maxMessage)
	}
	return out
}

// conditions writes one for each switch that is on, and takes away those of the others.
func conditions(cr *v1alpha1.SeldonOperator, seen controller.ObservedState) {
	for _, s := range switches {
		if !s.on(cr.Spec.Enable) {
			meta.RemoveStatusCondition(&cr.Status.Conditions, s.condition)
			continue
		}
		c := metav1.Condition{
			Type: s.condition, Status: metav1.ConditionFalse, Reason: reasonComponentFailing, ObservedGeneration: cr.Generation,
			LastTransitionTime: metav1.NewTime(seen.Now), Message: "it is looked at first",
		}
		external := s.component == payloadStore && !internalElastic(cr)
		if external {
			c.Status, c.Reason, c.Message = metav1.ConditionTrue, "External", "the one that enterprise.values name is used"
		}
		for _, one := range cr.Status.Components {
			switch {
			case one.Name != s.component:
			case one.Phase == phaseReady:
				c.Status, c.Reason, c.Message = metav1.ConditionTrue, phaseReady, fmt.Sprintf("%d objects are ready", one.Objects)
			default:
				c.Reason, c.Message = one.Phase, one.Message
			}
		}
		for _, p := range seen.Problems {
			if p.Field == elasticField && external {
				c.Status, c.Reason, c.Message = metav1.ConditionFalse, p.Reason, p.Error()
			}
		}
		c.Message = controller.Cut(c.Message, maxMessage)
		meta.SetStatusCondition(&cr.Status.Conditions, c)
	}
}

// ConditionSourceUnavailable is True while the chart of a component cannot be fetched.
const ConditionSourceUnavailable = "SourceUnavailable"

// notOfSource are the reasons of a chart that was fetched.
var notOfSource = []string{reasonChartFailed, plan.ReasonFetching, rendering.ReasonResultTooLarge, decide.ReasonForeignOwner}

// unavailable says since when and why a chart cannot be fetched, and what that means. While nothing is known of one, it stays as it
// is.
func unavailable(cr *v1alpha1.SeldonOperator, facts Facts, seen controller.ObservedState) {
	known := len(facts.Parts) > 0
	for _, part := range facts.Parts {
		r := part.Result
		if part.Pending || r == nil {
			known = false
			continue
		}
		failure := r.Failure
		if part.Rollback.Failed != nil {
			failure = part.Rollback.Refused
		}
		if failure == nil || slices.Contains(notOfSource, failure.Reason) {
			continue
		}
		means := "nothing of it is repaired until its chart can be fetched: "
		if r.Rendered() {
			means = "what was rendered before stays declared, and nothing newer is applied: "
		}
		meta.SetStatusCondition(&cr.Status.Conditions, metav1.Condition{
			Type: ConditionSourceUnavailable, Status: metav1.ConditionTrue, Reason: failure.Reason,
			Message:            controller.Cut(part.name+": "+means+failure.Message, maxMessage),
			ObservedGeneration: cr.Generation, LastTransitionTime: metav1.NewTime(seen.Now),
		})
		return
	}
	if known {
		meta.RemoveStatusCondition(&cr.Status.Conditions, ConditionSourceUnavailable)
	}
}

// routingObjects are the objects of routing that are no chart's.
func routingObjects(cr *v1alpha1.SeldonOperator, facts Facts) []plan.Object {
	if !ownGateway(cr) {
		return nil
	}
	return []plan.Object{gateway(cr, facts.Istio)}
}

// detectorObjects are the objects of the detectors that are no chart's.
func (s *system) detectorObjects(cr *v1alpha1.SeldonOperator, facts Facts) []plan.Object {
	out := []plan.Object{broker(cr)}
	if cr.Spec.Detectors.ReplyAlias {
		if facts.AliasNamespace {
			out = append(out, aliasNamespace())
		}
		out = append(out, alias(cr, s.settings.ClusterDomain))
	}
	return out
}

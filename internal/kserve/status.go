package kserve

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/record"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// reasonOrderFailed is the reason of Ready while the last order has failed.
const reasonOrderFailed = "OrderFailed"

// The words for how an element fares (ONAP policy/clamp, participant intermediary).
const (
	enabled  = "ENABLED"
	disabled = "DISABLED"
	inUse    = "IN_USE"
	idle     = "IDLE"
)

// The bounds of the schema.
const maxMessage, maxURL, maxState, maxWarnings = 1024, 512, 64, 64

// Project writes what was observed onto the status. It is pure.
func (system) Project(cr *keeper.CompositionElement, facts Facts, seen controller.ObservedState) controller.Verdict {
	status := &cr.Status
	status.Warnings = nil
	for _, w := range seen.Warnings[:min(len(seen.Warnings), maxWarnings)] {
		status.Warnings = append(status.Warnings, controller.Cut(w, maxMessage))
	}
	ended := outcome(facts, seen)
	status.Outcome = nil
	if ended != nil {
		told := record.OutcomeStatus(*ended)
		status.Outcome = &told
	}
	status.ElementStates = record.States(states(facts.Element, ended))
	status.Services, status.URL, status.ServicesReady = nil, "", ""
	ready := 0
	for _, service := range facts.Services {
		one := serviceStatus(service, seen)
		if one.Ready {
			ready++
		}
		if status.URL == "" {
			status.URL = one.URL
		}
		status.Services = append(status.Services, one)
	}
	if len(status.Services) > 0 {
		status.ServicesReady = fmt.Sprintf("%d/%d", ready, len(status.Services))
	}
	status.ElementCondition = elementCondition(facts, status, ready, blocker(facts, seen, ended))
	verdict := controller.Verdict{}
	if status.ServicesReady != "" {
		verdict.Progress = status.ServicesReady + " services ready"
	}
	if lacks := rollingOut(facts, seen); ended == nil && lacks != "" {
		verdict.Hold, verdict.Progress = true, verdict.Progress+", "+lacks
	}
	if ended != nil && ended.Failure != "" {
		verdict.Hold, verdict.Step, verdict.Failed = true, true, true
		verdict.Reason, verdict.Message = reasonOrderFailed, controller.Cut(ended.Failure, maxMessage)
		verdict.Again = facts.Element.Previous != nil && facts.Outcome == nil
	}
	return verdict
}

// states are where an element is: where its order ended, or on the way there, or as the runtime told.
func states(e acm.Element, ended *acm.Outcome) acm.States {
	switch {
	case ended != nil:
		return ended.States
	case e.Order.Type != acm.NoOrder:
		return e.Order.Type.Underway()
	}
	return e.Known
}

func serviceStatus(service *unstructured.Unstructured, seen controller.ObservedState) keeper.ElementService {
	key := plan.KeyOf(service)
	state := seen.Objects[key]
	out := keeper.ElementService{Namespace: key.Namespace, Name: key.Name, Ready: state.Current}
	if live := state.Observed.Stripped(); live != nil {
		out.URL, _, _ = unstructured.NestedString(live.Object, "status", "url")
		out.ModelState, _, _ = unstructured.NestedString(live.Object, "status", "modelStatus", "states", "activeModelState")
		out.URL, out.ModelState = controller.Cut(out.URL, maxURL), controller.Cut(out.ModelState, maxState)
	}
	if !out.Ready {
		out.Message = controller.Cut(state.WaitingFor(key), maxMessage)
	}
	return out
}

// complete says that the services are all that the element should have: none is left out, and what they are is known.
func (f Facts) complete() bool { return f.Element.Present && f.Held == nil && !f.Unknown }

// elementCondition returns the condition of an element that is deployed or whose order is blocked, and an empty one for any other. What is left
// out does not serve.
func elementCondition(facts Facts, status *keeper.CompositionElementStatus, ready int, blockedBy string) keeper.ElementCondition {
	services, state := status.Services, acm.DeployState(status.DeployState)
	if state != acm.Deployed && blockedBy == "" {
		return keeper.ElementCondition{}
	}
	out := keeper.ElementCondition{OperationalState: disabled, UseState: idle, OutProperties: map[string]string{}}
	if state == acm.Deployed || state == acm.Updating || state == acm.Migrating {
		out.UseState = inUse
		if ready == len(services) && facts.complete() {
			out.OperationalState = enabled
		}
	}
	if blockedBy == "" && facts.Held != nil {
		blockedBy = controller.Cut(facts.Held.Error(), maxFailure)
	}
	if blockedBy != "" {
		out.OutProperties["message"] = blockedBy
	}
	names := map[string]int{}
	for _, service := range services {
		names[service.Name]++
	}
	for _, service := range services {
		prefix := ""
		switch {
		case names[service.Name] > 1:
			prefix = service.Namespace + "/" + service.Name + "."
		case len(services) > 1:
			prefix = service.Name + "."
		}
		for property, value := range map[string]string{"url": service.URL, "modelState": service.ModelState} {
			if value != "" {
				out.OutProperties[prefix+property] = value
			}
		}
	}
	if len(out.OutProperties) == 0 {
		out.OutProperties = nil
	}
	return out
}

package record

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
)

// Element reads an element with how its order ended; without fetch it has no properties.
func Element(cr *keeper.CompositionElement, fetch Fetch) (acm.Element, error) {
	spec := cr.Spec
	out := acm.Element{
		ID: cr.Name, InstanceID: spec.AutomationCompositionID, Revision: spec.Revision, Present: spec.Exists, Order: Order(spec.Order),
	}
	var err error
	if out.Content, err = content(spec.Content, fetch); err != nil {
		return acm.Element{}, err
	}
	if spec.LastReportedState != nil {
		out.Known = acm.States{DeployState: acm.DeployState(spec.LastReportedState.DeployState), LockState: acm.LockState(spec.LastReportedState.LockState)}
	}
	for _, part := range []struct {
		from *keeper.ElementContent
		to   **acm.Content
	}{{spec.Previous, &out.Previous}, {spec.PendingContent, &out.Candidate}} {
		if part.from != nil {
			one, err := content(*part.from, fetch)
			if err != nil {
				return acm.Element{}, err
			}
			*part.to = &one
		}
	}
	out.Condition = Condition(cr.Status.ElementCondition)
	if ended := cr.Status.Outcome; ended != nil {
		if outcome := Outcome(*ended); outcome.OrderID == out.Order.ID && outcome.Type == out.Order.Type {
			out.Settled = &outcome
		}
	}
	return out, nil
}

// ElementPayloads are the references of an element; inline says that an earlier release has left properties in the custom resource.
func ElementPayloads(cr *keeper.CompositionElement) (refs []keeper.PayloadReference, inline bool) {
	for _, part := range []*keeper.ElementContent{&cr.Spec.Content, cr.Spec.Previous, cr.Spec.PendingContent} {
		if part != nil && part.Payload != nil {
			refs = append(refs, *part.Payload)
		}
		inline = inline || part != nil && (part.Common != nil || part.Properties != nil)
	}
	return refs, inline
}

// Order reads an order; nil is none.
func Order(o *keeper.ElementOrder) acm.Order {
	if o == nil {
		return acm.Order{}
	}
	return acm.Order{
		Type: acm.OrderType(o.Type), ID: o.ID, Time: o.Time.Time, Received: o.Received.Time, Earlier: o.Earlier,
	}
}

// Outcome reads how an order ended.
func Outcome(o keeper.OrderOutcome) acm.Outcome {
	return acm.Outcome{
		OrderID: o.OrderID, Type: acm.OrderType(o.Type), Failure: o.Failure,
		States: acm.States{DeployState: acm.DeployState(o.DeployState), LockState: acm.LockState(o.LockState)},
	}
}

// OutcomeStatus writes how an order ended.
func OutcomeStatus(o acm.Outcome) keeper.OrderOutcome {
	return keeper.OrderOutcome{OrderID: o.OrderID, Type: string(o.Type), Failure: o.Failure, ElementStates: States(o.States)}
}

// States writes a deploy state and a lock state.
func States(s acm.States) keeper.ElementStates {
	return keeper.ElementStates{DeployState: string(s.DeployState), LockState: string(s.LockState)}
}

// Condition reads how an element fares.
func Condition(c keeper.ElementCondition) acm.Condition {
	return acm.Condition{OperationalState: c.OperationalState, UseState: c.UseState, OutProperties: c.OutProperties}
}

// ElementSpec writes an element.
func ElementSpec(e acm.Element, keep Keep) keeper.CompositionElementSpec {
	out := keeper.CompositionElementSpec{
		AutomationCompositionID: e.InstanceID, Revision: e.Revision, Exists: e.Present, Content: contentSpec(e.Content, keep),
	}
	if e.Order.Type != acm.NoOrder {
		out.Order = &keeper.ElementOrder{
			Type: string(e.Order.Type), ID: e.Order.ID, Earlier: e.Order.Earlier,
			Time: metav1.NewMicroTime(e.Order.Time), Received: metav1.NewMicroTime(e.Order.Received),
		}
	}
	if e.Known != (acm.States{}) {
		known := States(e.Known)
		out.LastReportedState = &known
	}
	for _, part := range []struct {
		from *acm.Content
		to   **keeper.ElementContent
	}{{e.Previous, &out.Previous}, {e.Candidate, &out.PendingContent}} {
		if part.from != nil {
			one := contentSpec(*part.from, keep)
			*part.to = &one
		}
	}
	return out
}

// contentPayload is what the content of an element has of properties.
type contentPayload struct {
	Common     acm.Properties `json:"common"`
	Properties acm.Properties `json:"properties"`
}

func content(c keeper.ElementContent, fetch Fetch) (acm.Content, error) {
	payload := contentPayload{Common: properties(c.Common), Properties: properties(c.Properties)}
	if c.Payload != nil && fetch != nil {
		if err := fetched(fetch, *c.Payload, &payload); err != nil {
			return acm.Content{}, err
		}
	}
	return acm.Content{
		CompositionID: c.CompositionID, Definition: acm.Identifier{Name: c.Definition.Name, Version: c.Definition.Version},
		Common: payload.Common, Properties: payload.Properties,
	}, nil
}

func contentSpec(c acm.Content, keep Keep) keeper.ElementContent {
	out := keeper.ElementContent{
		CompositionID: c.CompositionID, Definition: keeper.ConceptIdentifier{Name: c.Definition.Name, Version: c.Definition.Version},
	}
	if c.Common != nil || c.Properties != nil {
		out.Payload = keep(encoded(contentPayload{c.Common, c.Properties}))
	}
	return out
}

// properties reads properties that an earlier release has stored. The schema has them be an object, so that what does not decode is none.
func properties(from *runtime.RawExtension) acm.Properties {
	if from == nil {
		return nil
	}
	var out acm.Properties
	_ = json.Unmarshal(from.Raw, &out)
	return out
}

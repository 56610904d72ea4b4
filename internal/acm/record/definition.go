package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
)

// definedPayload is the definition of an element with its properties.
type definedPayload struct {
	Name       string         `json:"name"`
	Version    string         `json:"version"`
	Properties acm.Properties `json:"properties"`
}

// Definition reads a primed composition.
func Definition(cr *keeper.CompositionDefinition, fetch Fetch) (acm.Definition, error) {
	out := acm.Definition{CompositionID: cr.Name, Revision: cr.Spec.Revision, Elements: map[acm.Identifier]acm.Properties{}}
	for _, e := range cr.Spec.Elements {
		out.Elements[acm.Identifier{Name: e.Name, Version: e.Version}] = properties(e.Properties)
	}
	if cr.Spec.Payload == nil {
		return out, nil
	}
	var payload []definedPayload
	if err := fetched(fetch, *cr.Spec.Payload, &payload); err != nil {
		return acm.Definition{}, err
	}
	for _, e := range payload {
		out.Elements[acm.Identifier{Name: e.Name, Version: e.Version}] = e.Properties
	}
	return out, nil
}

// DefinitionPayloads are the references of a composition; inline says that an earlier release has left properties in the custom resource.
func DefinitionPayloads(cr *keeper.CompositionDefinition) (refs []keeper.PayloadReference, inline bool) {
	if cr.Spec.Payload != nil {
		refs = append(refs, *cr.Spec.Payload)
	}
	return refs, slices.ContainsFunc(cr.Spec.Elements, func(e keeper.DefinedElement) bool { return e.Properties != nil })
}

// DefinitionSpec writes a primed composition, its elements in the order of their names.
func DefinitionSpec(d acm.Definition, keep Keep) keeper.CompositionDefinitionSpec {
	out := keeper.CompositionDefinitionSpec{Revision: d.Revision}
	var payload []definedPayload
	for id, p := range d.Elements {
		payload = append(payload, definedPayload{id.Name, id.Version, p})
	}
	slices.SortFunc(payload, func(a, b definedPayload) int {
		return strings.Compare(a.Name+" "+a.Version, b.Name+" "+b.Version)
	})
	for _, e := range payload {
		out.Elements = append(out.Elements, keeper.DefinedElement{ConceptIdentifier: keeper.ConceptIdentifier{Name: e.Name, Version: e.Version}})
	}
	if len(payload) > 0 {
		out.Payload = keep(encoded(payload))
	}
	return out
}

// Held reads an order that waits for a revision.
func Held(cr *keeper.PendingOrder, fetch Fetch) (acm.Held, error) {
	out := acm.Held{
		MessageID: cr.Name, CompositionID: cr.Spec.CompositionID, InstanceID: cr.Spec.AutomationCompositionID, Received: cr.CreationTimestamp.Time,
	}
	var message []byte
	var err error
	switch {
	case cr.Spec.Payload != nil:
		message, err = fetch(*cr.Spec.Payload)
	case cr.Spec.Message != nil:
		message = cr.Spec.Message.Raw
	}
	if err != nil {
		return acm.Held{}, err
	}
	out.Size = len(message)
	if err := json.Unmarshal(message, &out.Record); err != nil {
		return acm.Held{}, fmt.Errorf("read the message of PendingOrder %s: %w", cr.Name, err)
	}
	return out, nil
}

// HeldPayloads are the references of an order that waits; inline says that an earlier release has left its message in the custom resource.
func HeldPayloads(cr *keeper.PendingOrder) (refs []keeper.PayloadReference, inline bool) {
	if cr.Spec.Payload != nil {
		refs = append(refs, *cr.Spec.Payload)
	}
	return refs, cr.Spec.Message != nil
}

// HeldSpec writes an order that waits for a revision.
func HeldSpec(h acm.Held, keep Keep) keeper.PendingOrderSpec {
	return keeper.PendingOrderSpec{
		CompositionID: h.CompositionID, AutomationCompositionID: h.InstanceID, Type: string(h.Record.MessageType), Payload: keep(encoded(h.Record)),
	}
}

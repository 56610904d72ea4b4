package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
)

// Definition reads a primed composition.
func Definition(cr *keeper.CompositionDefinition) acm.Definition {
	out := acm.Definition{CompositionID: cr.Name, Revision: cr.Spec.Revision, Elements: map[acm.Identifier]acm.Properties{}}
	for _, e := range cr.Spec.Elements {
		out.Elements[acm.Identifier{Name: e.Name, Version: e.Version}] = properties(e.Properties)
	}
	return out
}

// DefinitionSpec writes a primed composition, its elements in the order of their names.
func DefinitionSpec(d acm.Definition) keeper.CompositionDefinitionSpec {
	out := keeper.CompositionDefinitionSpec{Revision: d.Revision}
	for id, p := range d.Elements {
		out.Elements = append(out.Elements, keeper.DefinedElement{
			ConceptIdentifier: keeper.ConceptIdentifier{Name: id.Name, Version: id.Version}, Properties: raw(p),
		})
	}
	slices.SortFunc(out.Elements, func(a, b keeper.DefinedElement) int {
		return strings.Compare(a.Name+" "+a.Version, b.Name+" "+b.Version)
	})
	return out
}

// Held reads an order that waits for a revision.
func Held(cr *keeper.PendingOrder) (acm.Held, error) {
	out := acm.Held{
		MessageID: cr.Name, CompositionID: cr.Spec.CompositionID, InstanceID: cr.Spec.AutomationCompositionID,
		Size: len(cr.Spec.Message.Raw), Received: cr.CreationTimestamp.Time,
	}
	if err := json.Unmarshal(cr.Spec.Message.Raw, &out.Record); err != nil {
		return acm.Held{}, fmt.Errorf("read the message of PendingOrder %s: %w", cr.Name, err)
	}
	return out, nil
}

// HeldSpec writes an order that waits for a revision.
func HeldSpec(h acm.Held) keeper.PendingOrderSpec {
	text, err := json.Marshal(h.Record)
	if err != nil {
		panic("bug: a message that was decoded does not encode: " + err.Error())
	}
	return keeper.PendingOrderSpec{
		CompositionID: h.CompositionID, AutomationCompositionID: h.InstanceID, Message: runtime.RawExtension{Raw: text},
	}
}

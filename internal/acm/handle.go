package acm

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Handle decides what follows from a message that was received at a time. It is pure: the state is only read, and the effects
// are to be carried out and applied in their order. What exceeds the limits of a participant is refused.
func Handle(me Identity, s *State, m Message, received time.Time) []Effect {
	if !appliesTo(me, m) {
		return nil
	}
	if m.Timestamp.IsZero() {
		m.Timestamp = Time{received}
	}
	return limited(me, s, m, effects(me, s, m, received))
}

// effects decides what follows from a message that is for the participant, whatever it adds.
func effects(me Identity, s *State, m Message, received time.Time) []Effect {
	switch m.MessageType {
	case TypeRegisterAck:
		return []Effect{Acknowledged{}, SendStatus{}}
	case TypeStatusReq:
		if !s.Registered {
			return []Effect{SendRegister{}}
		}
		return []Effect{SendStatus{}}
	case TypePrime:
		return prime(me, s, m)
	case TypeRestart:
		return restart(me, s, m, received)
	case TypeSync:
		return synchronize(me, s, m, received)
	}
	if order(m) == NoOrder {
		return nil
	}
	return obey(me, s, m, received)
}

// Refuse answers a message that cannot be carried out, as Handle would answer one that failed. Of a SYNC is noted
// that orders wait on for another one.
func Refuse(me Identity, s *State, m Message, why string) []Effect {
	if !appliesTo(me, m) {
		return nil
	}
	if m.MessageType == TypePrime {
		if len(m.Definitions) > 0 && !slices.ContainsFunc(m.Definitions, func(d DefinitionUpdate) bool { return d.ParticipantID == me.ParticipantID }) {
			return nil // London's primings are broadcasts, and a failure of anybody ends them for all.
		}
		return []Effect{PrimeAnswer{ResponseTo: m.MessageID, CompositionID: m.CompositionID, State: Commissioned, Failure: why}}
	}
	if m.MessageType == TypeSync {
		return s.missSync(m, why)
	}
	given := Order{Type: order(m), ID: m.MessageID}
	if given.Type == NoOrder {
		return nil
	}
	var out []Effect
	for _, t := range targets(me, s, m) {
		out = append(out, ElementAnswer{InstanceID: m.InstanceID, ElementID: t.id, Outcome: given.Conclude(why)})
	}
	return out
}

// appliesTo says whether a message is for this replica of this participant. All sides read the topic that they write, so that
// our own messages and those of others arrive too; Handle tells them by their type.
func appliesTo(me Identity, m Message) bool {
	if len(m.ParticipantIDList) > 0 && !slices.Contains(m.ParticipantIDList, me.ParticipantID) {
		return false
	}
	if m.ParticipantID == "" || m.ParticipantID == me.ParticipantID && m.ReplicaID == "" {
		return true
	}
	return m.ReplicaID == me.ReplicaID
}

// order is what a message orders of elements; NoOrder where it orders nothing.
func order(m Message) OrderType {
	switch m.MessageType {
	case TypeDeploy:
		return OrderDeploy
	case TypePropertiesUpdate:
		return OrderUpdate
	case TypeMigration:
		if m.Precheck {
			return OrderPrecheck
		}
		return OrderMigrate
	case TypePrepare:
		if m.PreDeploy {
			return OrderPrepare
		}
		return OrderReview
	case TypeStateChange:
		return map[string]OrderType{
			wordUndeploy: OrderUndeploy, wordDelete: OrderDelete, wordLock: OrderLock, wordUnlock: OrderUnlock,
		}[cmp.Or(word(m.DeployOrder), m.LockOrder)]
	}
	return NoOrder
}

// OrderName says what a message orders, for people: an order on elements, Prime or Deprime; the type of a message that orders nothing.
func (m Message) OrderName() string {
	switch {
	case m.MessageType == TypePrime && deprimes(m):
		return "Deprime"
	case m.MessageType == TypePrime:
		return "Prime"
	}
	return cmp.Or(string(order(m)), string(m.MessageType))
}

// word is an order's word, empty for NONE.
func word(s string) string {
	if s == string(Unspecified) {
		return ""
	}
	return s
}

// prime stores the definitions of a composition, or forgets them. Primings of London are broadcasts: one that names no element of
// ours is none of our business, while everybody answers a depriming.
func prime(me Identity, s *State, m Message) []Effect {
	answer := PrimeAnswer{ResponseTo: m.MessageID, CompositionID: m.CompositionID, State: Primed, Message: "Primed"}
	if deprimes(m) {
		answer.State, answer.Message = Commissioned, "Deprimed"
		out := s.dropHeld("the composition is deprimed", func(h Held) bool { return h.CompositionID == m.CompositionID })
		if _, known := s.Definitions[m.CompositionID]; !known {
			answer.Message = "Already deprimed or never primed"
			return append(out, answer)
		}
		return append(out, DropDefinition{m.CompositionID}, answer)
	}
	definition, ours := definition(me, m)
	if !ours {
		return nil
	}
	return []Effect{PutDefinition{definition}, answer}
}

func deprimes(m Message) bool {
	if order := word(m.PrimeOrder); order != "" {
		return order == wordDeprime
	}
	return len(m.Definitions) == 0
}

// definition collects the participant's element definitions of a message; ours is false where it has none.
func definition(me Identity, m Message) (out Definition, ours bool) {
	out = Definition{CompositionID: m.CompositionID, Revision: m.RevisionComposition, Elements: map[Identifier]Properties{}}
	for _, update := range m.Definitions {
		if update.ParticipantID != me.ParticipantID {
			continue
		}
		for _, e := range update.Elements {
			out.Elements[e.ID] = e.Template.Properties
		}
	}
	for _, dto := range m.PrimeDtos {
		if dto.ParticipantID != me.ParticipantID {
			continue
		}
		for key, properties := range dto.Composition.InProperties {
			out.Elements[ParseIdentifier(key)] = properties
		}
	}
	return out, len(out.Elements) > 0
}

// instance returns the known elements of an instance, by id.
func (s *State) instance(id string) []Element {
	var out []Element
	for _, key := range slices.Sorted(maps.Keys(s.Elements)) {
		if e := s.Elements[key]; e.InstanceID == id {
			out = append(out, e)
		}
	}
	return out
}

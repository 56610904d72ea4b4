package acm

import "slices"

// target is an element as a message orders it.
type target struct {
	id      string
	content Content
	// migration is what a migration does to it.
	migration MigrationState
	// bare says that the message names the element by its instance only: what it is made of is what is known.
	bare bool
}

// carryOut gives the order of a message to every element that it is for.
func carryOut(me Identity, s *State, m Message) []Effect {
	given := Order{Type: order(m), ID: m.MessageID, Time: m.Timestamp.Time}
	all := targets(me, s, m)
	if len(all) == 0 && given.Type == OrderDelete {
		return []Effect{ElementAnswer{
			InstanceID: m.InstanceID, Outcome: given.Conclude(""), Message: "Already deleted or never used",
		}}
	}
	var out []Effect
	for _, t := range all {
		if !takesPart(t, m) {
			out = append(out, notYet(s, t, m)...)
			continue
		}
		out = append(out, give(s, t, given, m)...)
	}
	return out
}

// targets are the elements of the participant that a message is about: in the form of the current master, else in that of its
// predecessors, else all that are known of the instance.
func targets(me Identity, s *State, m Message) []target {
	var out []target
	for _, p := range m.ElementDtos {
		if p.ParticipantID == me.ParticipantID {
			for _, e := range p.Elements {
				out = append(out, fromDto(e))
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	composition := m.CompositionID
	if m.CompositionTargetID != "" {
		composition = m.CompositionTargetID
	}
	for _, p := range slices.Concat(m.Updates, m.Participants) {
		if p.ParticipantID != me.ParticipantID {
			continue
		}
		for _, e := range p.Elements {
			out = append(out, target{id: e.ID, migration: e.MigrationState, content: Content{
				CompositionID: composition, Definition: e.Definition,
				Common: s.Definitions[composition].Elements[e.Definition], Properties: e.Properties,
			}})
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, known := range s.instance(m.InstanceID) {
		out = append(out, target{id: known.ID, content: known.running(), bare: true})
	}
	return out
}

func fromDto(e ElementDto) target {
	composition, instance := e.Composition, e.InstanceTarget
	if e.CompositionTarget.CompositionID != "" {
		composition = e.CompositionTarget
	}
	if instance.ElementID == "" {
		instance = e.Instance
	}
	out := target{id: instance.ElementID, content: Content{
		CompositionID: composition.CompositionID, Definition: composition.Definition,
		Common: composition.InProperties, Properties: instance.InProperties,
	}}
	switch instance.State {
	case "NEW":
		out.migration = MigrationNew
	case "REMOVED", "NOT_PRESENT":
		out.migration = MigrationRemoved
	}
	return out
}

// takesPart says whether the phase or stage of a message is one of the element's.
func takesPart(t target, m Message) bool {
	switch order(m) {
	case OrderDeploy, OrderUndeploy, OrderDelete, OrderLock, OrderUnlock:
		return t.content.Common.startPhase() == m.StartPhase
	case OrderMigrate:
		return t.content.Common.inStage("migrate", m.Stage)
	case OrderPrepare:
		return t.content.Common.inStage("prepare", m.Stage)
	}
	return true
}

// notYet makes an element known whose phase comes later.
func notYet(s *State, t target, m Message) []Effect {
	if _, known := s.Elements[t.id]; known || t.bare || order(m) != OrderDeploy {
		return nil
	}
	return []Effect{PutElement{Element{
		ID: t.id, InstanceID: m.InstanceID, Revision: m.RevisionInstance, Content: t.content,
		Known: States{Undeployed, Unspecified},
	}}}
}

// give gives an order to one element. One that was given before, or is older than the last, changes nothing; it is answered with
// how the last one ended, if it has.
func give(s *State, t target, given Order, m Message) []Effect {
	known, ok := s.Elements[t.id]
	switch {
	case ok && known.InstanceID != m.InstanceID:
		return []Effect{ElementAnswer{
			InstanceID: m.InstanceID, ElementID: t.id,
			Outcome: given.Conclude("element " + t.id + " belongs to automation composition " + known.InstanceID),
		}}
	case ok && known.Order.Type != NoOrder && (known.Order.ID == given.ID || given.Time.Before(known.Order.Time)):
		if known.Settled == nil {
			return nil
		}
		return []Effect{ElementAnswer{
			InstanceID: known.InstanceID, ElementID: t.id, Outcome: *known.Settled, Condition: known.Condition,
		}}
	}
	if given.Type == OrderMigrate && t.migration == MigrationRemoved {
		given.Type = OrderDelete
	}
	return []Effect{PutElement{ordered(known, ok, t, given, m)}}
}

// ordered is an element with a new order; known says whether there was one before.
func ordered(before Element, known bool, t target, given Order, m Message) Element {
	next := before
	next.ID, next.InstanceID, next.Order, next.Settled, next.Known = t.id, m.InstanceID, given, nil, States{}
	if m.RevisionInstance != "" {
		next.Revision = m.RevisionInstance
	}
	next.Content, next.Previous, next.Candidate = before.running(), nil, nil
	if !known {
		next.Content = t.content
	}
	switch given.Type {
	case OrderUpdate, OrderMigrate:
		if before.Present && !t.bare {
			previous := before.running()
			next.Previous = &previous
		}
		next.Content, next.Present = t.content, true
	case OrderDeploy:
		next.Content, next.Present = t.content, true
	case OrderUndeploy, OrderDelete:
		next.Present = false
	case OrderPrepare, OrderPrecheck, OrderReview:
		candidate := t.content
		next.Candidate = &candidate
	case OrderLock, OrderUnlock:
		next.Present = before.Present || !known
	}
	return next
}

// running is what the services of an element are made of: what an update or a migration replaced, until it has succeeded.
func (e Element) running() Content {
	replaces := e.Order.Type == OrderUpdate || e.Order.Type == OrderMigrate
	if replaces && e.Previous != nil && (e.Settled == nil || e.Settled.Failure != "") {
		return *e.Previous
	}
	return e.Content
}

package acm

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

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
func carryOut(me Identity, s *State, m Message, received time.Time) []Effect {
	given := Order{Type: order(m), ID: m.MessageID, Time: m.Timestamp.Time, Received: received}
	all := targets(me, s, m)
	if len(all) == 0 && given.Type == OrderDelete {
		return []Effect{ElementAnswer{
			InstanceID: m.InstanceID, Outcome: given.Conclude(""), Message: "Already deleted or never used",
		}}
	}
	var out []Effect
	for _, t := range all {
		if !takesPart(s, t, m) {
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
	for _, p := range slices.Concat(m.Updates, m.Participants) {
		if p.ParticipantID != me.ParticipantID {
			continue
		}
		for _, e := range p.Elements {
			out = append(out, fromUpdate(s, m, e))
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

// fromUpdate is an element in the form before the current master. The rollback of a migration names the elements with what the migration
// did to them, and undoes that: it ends in the composition that the instance had before (performRollback).
func fromUpdate(s *State, m Message, e ElementUpdate) target {
	composition, migration := cmp.Or(m.CompositionTargetID, m.CompositionID), e.MigrationState
	if m.Rollback {
		composition = m.CompositionID
		switch migration {
		case MigrationNew:
			migration = MigrationRemoved
		case MigrationRemoved:
			migration = MigrationNew
		}
	}
	return target{id: e.ID, migration: migration, content: Content{
		CompositionID: composition, Definition: e.Definition,
		Common: s.Definitions[composition].Elements[e.Definition], Properties: e.Properties,
	}}
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
func takesPart(s *State, t target, m Message) bool {
	switch order(m) {
	case OrderDeploy, OrderUndeploy, OrderDelete, OrderLock, OrderUnlock:
		return phase(s, t, m.CompositionID) == m.StartPhase
	case OrderMigrate:
		// The composition before may not define what is removed.
		if m.Rollback && t.migration == MigrationRemoved {
			return m.FirstStage
		}
		return t.content.Common.inStage("migrate", m.Stage)
	case OrderPrepare:
		return t.content.Common.inStage("prepare", m.Stage)
	}
	return true
}

// phase is the one in which the runtime counts an element: by the composition of the instance, which is the one before a migration until
// that has completed, and 0 for an element that this does not define (AcmStageUtils.getFirstStartPhase, PhaseScanner).
func phase(s *State, t target, compositionID string) int {
	if of, known := s.Definitions[compositionID]; known && compositionID != t.content.CompositionID {
		return of.Elements[t.content.Definition].startPhase()
	}
	return t.content.Common.startPhase()
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

// give gives an order to one element. A message that comes again changes nothing, and needs no answer: how its order ends is told
// once it has, until the broker has taken that. An answer now would be taken for that of an order which is on its way, since the
// runtime asks of an acknowledgement which element it is about, not which order (SupervisionAcHandler, SimpleScanner.scanMessage).
func give(s *State, t target, given Order, m Message) []Effect {
	known, ok := s.Elements[t.id]
	switch {
	case ok && known.InstanceID != m.InstanceID:
		return []Effect{ElementAnswer{
			InstanceID: m.InstanceID, ElementID: t.id,
			Outcome: given.Conclude("element " + t.id + " belongs to automation composition " + known.InstanceID),
		}}
	case ok && known.Order.has(given.ID):
		return nil
	case ok && late(known, given, m) && missed(known, given):
		given.Earlier = known.Order.Earlier
		known.Content, known.Present, known.Order = t.content, true, known.Order.after(given)
		return []Effect{PutElement{known}}
	case ok && late(known, given, m):
		return tooLate(known, given)
	}
	if given.Type == OrderMigrate && t.migration == MigrationRemoved {
		given.Type = OrderDelete
	}
	return []Effect{PutElement{ordered(known, ok, t, given, m)}}
}

// maxSkew is how far the clocks of a runtime's replicas may be apart. A runtime that waits for an order gives the next one when the
// order has ended or timed out, which takes 36 s at least (maxOperationWaitMs), so that none overtakes another by less.
const maxSkew = 30 * time.Second

// late says that an order is older than the last one of its element. Runtimes since 9.0.2 send all orders of a composition under one
// key, so that they come as they were given, whatever the clocks say. The order of those of older ones is that of their times; an
// order that has ended is not overtaken by less than clocks differ.
func late(known Element, given Order, m Message) bool {
	if known.Order.Type == NoOrder || m.PartitionKey != "" {
		return false
	}
	behind := known.Order.Time.Sub(given.Time)
	return behind > maxSkew || behind > 0 && known.Settled == nil
}

// missed says that the last order has overtaken the deployment that it presumes. The element was known before, since London's runtime tells
// elements that are not deployed when a participant registers, and takes the answer to that for the end of a deployment that is on its way.
func missed(known Element, given Order) bool {
	return given.Type == OrderDeploy && !known.Present && known.Order.Type.presumes(OrderDeploy)
}

// tooLate answers an order that is older than the last one. It fails, and the states are those of the element: the last order's
// success is none of this one. Nothing is answered while the last order is on its way, or where this one is not new either but has lain on
// the broker: the runtime waits for the last one then, and would take the failure for that one's.
func tooLate(known Element, given Order) []Effect {
	last := known.Order
	why := fmt.Sprintf("it was given at %s, before the last order, %s of %s: give it again, and compare the clocks of the runtime's replicas",
		given.Time.UTC().Format(time.RFC3339), last.Type, last.Time.UTC().Format(time.RFC3339))
	out := []Effect{IgnoreOrder{MessageID: given.ID, InstanceID: known.InstanceID, Why: why}}
	if known.Settled == nil || given.Received.Sub(given.Time) > maxSkew {
		return out
	}
	failed := given.Conclude(why)
	failed.States = known.Settled.States
	return append(out, ElementAnswer{InstanceID: known.InstanceID, ElementID: known.ID, Outcome: failed, Condition: known.Condition})
}

// ordered is an element with a new order; known says whether there was one before.
func ordered(before Element, known bool, t target, given Order, m Message) Element {
	next := before
	next.ID, next.InstanceID, next.Order, next.Settled, next.Known = t.id, m.InstanceID, given.after(before.Order), nil, States{}
	if m.RevisionInstance != "" {
		next.Revision = m.RevisionInstance
	}
	next.Content, next.Previous, next.Candidate = before.running(), nil, nil
	switch {
	case !known:
		next.Content = t.content
	case before.Settled == nil && given.Type.presumes(before.Order.Type):
		next.Content = before.Content
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
		// What a migration removes has nothing that could be refused, and no definition in the composition that it goes to.
		if t.migration != MigrationRemoved {
			candidate := t.content
			next.Candidate = &candidate
		}
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

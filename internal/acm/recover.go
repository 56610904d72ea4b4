package acm

import (
	"maps"
	"slices"
	"time"
)

// restart answers the runtime of Montreal and New Delhi, which asks a participant that registers anew to go on: it waits until
// the composition and every element are acknowledged.
func restart(me Identity, s *State, m Message, received time.Time) []Effect {
	var out []Effect
	answer := PrimeAnswer{ResponseTo: m.MessageID, CompositionID: m.CompositionID, State: Primed, Message: "Restarted"}
	switch definition, ours := definition(me, m); {
	case m.State == Commissioned || m.State == Depriming:
		answer.State = Commissioned
		out = append(out, DropDefinition{m.CompositionID})
	case ours:
		out = append(out, PutDefinition{definition})
	}
	out = append(out, answer)
	for _, instance := range m.Instances {
		for _, e := range instance.Elements {
			out = append(out, restartElement(s, m, instance, e, received)...)
		}
	}
	return out
}

func restartElement(s *State, m Message, instance Instance, e ElementUpdate, received time.Time) []Effect {
	told := States{e.DeployState, e.LockState}
	if unfinished := unfinished(told); unfinished != NoOrder {
		of := m
		of.InstanceID = instance.InstanceID
		t := target{id: e.ID, content: content(s, m, e)}
		return give(s, t, Order{Type: unfinished, ID: m.MessageID, Time: m.Timestamp.Time, Received: received}, of)
	}
	answer := ElementAnswer{
		InstanceID: instance.InstanceID, ElementID: e.ID, Message: "Restarted",
		Outcome: Outcome{OrderID: m.MessageID, States: told}, Condition: s.Elements[e.ID].Condition,
	}
	return append(adopt(s, m, instance, e), answer)
}

// unfinished is the order that leads out of states on the way; NoOrder for states of rest.
func unfinished(told States) OrderType {
	switch told.DeployState {
	case Deploying:
		return OrderDeploy
	case Undeploying:
		return OrderUndeploy
	case Deleting:
		return OrderDelete
	case Updating, UpdateReverting:
		return OrderUpdate
	case Migrating, MigrationReverting:
		return OrderMigrate
	}
	switch told.LockState {
	case Locking:
		return OrderLock
	case Unlocking:
		return OrderUnlock
	}
	return NoOrder
}

func content(s *State, m Message, e ElementUpdate) Content {
	common := s.Definitions[m.CompositionID].Elements[e.Definition]
	for _, update := range m.Definitions {
		for _, d := range update.Elements {
			if d.ID == e.Definition {
				common = d.Template.Properties
			}
		}
	}
	return Content{CompositionID: m.CompositionID, Definition: e.Definition, Common: common, Properties: e.Properties}
}

// adopt makes an element known that only the runtime knows of. What is known already stays as it was ordered.
func adopt(s *State, m Message, instance Instance, e ElementUpdate) []Effect {
	if _, known := s.Elements[e.ID]; known {
		return nil
	}
	return []Effect{PutElement{Element{
		ID: e.ID, InstanceID: instance.InstanceID, Revision: instance.Revision, Content: content(s, m, e),
		Known: States{e.DeployState, e.LockState}, Present: e.DeployState == Deployed && !instance.leaves(),
	}}}
}

// revise notes the revision of a known instance, unless it is known or an element is adopted with it.
func revise(s *State, instance Instance, adopted []Effect) []Effect {
	if instance.Revision == "" || len(adopted) > 0 || len(s.instance(instance.InstanceID)) == 0 || s.hasRevision(instance.InstanceID, instance.Revision) {
		return nil
	}
	return []Effect{NoteRevision{instance.InstanceID, instance.Revision}}
}

// leaves says that an instance is undeployed, or on the way there, whatever its elements were acknowledged as.
func (i Instance) leaves() bool {
	return slices.Contains([]DeployState{Undeployed, Undeploying, Deleting, Deleted}, i.DeployState)
}

// synchronize takes over what the runtime (Oslo and later) says that a participant should know, and carries out the orders that
// waited for it. A timeout it tells of stops nothing here: what succeeds late is acknowledged late, and the runtime takes it.
func synchronize(me Identity, s *State, m Message, received time.Time) []Effect {
	if slices.Contains(m.ExcludeReplicas, me.ReplicaID) {
		return nil
	}
	if m.Delete {
		return forget(s, m)
	}
	var out []Effect
	if definition, ours := definition(me, m); ours {
		out = append(out, PutDefinition{definition})
	}
	for _, instance := range m.Instances {
		var adopted []Effect
		for _, e := range instance.Elements {
			if e.ParticipantID == "" || e.ParticipantID == me.ParticipantID {
				adopted = append(adopted, adopt(s, m, instance, e)...)
			}
		}
		out = append(append(out, adopted...), revise(s, instance, adopted)...)
	}
	return append(out, release(me, s, m, out, received)...)
}

// forget drops what the runtime has deleted, with the orders that are held for it.
func forget(s *State, m Message) []Effect {
	var out []Effect
	if m.State == Commissioned {
		if _, known := s.Definitions[m.CompositionID]; known {
			out = append(out, DropDefinition{m.CompositionID})
		}
		out = append(out, s.dropHeld("the composition is deprimed", func(h Held) bool {
			return h.CompositionID == m.CompositionID && h.Record.Timestamp.Before(m.Timestamp.Time)
		})...)
	}
	for _, instance := range m.Instances {
		for _, e := range s.instance(instance.InstanceID) {
			out = append(out, DropElement{e.ID})
		}
		out = append(out, s.dropHeld("the automation composition is deleted", func(h Held) bool {
			return h.InstanceID == instance.InstanceID
		})...)
	}
	return out
}

func (s *State) clone() *State {
	return &State{
		Registered: s.Registered, Definitions: maps.Clone(s.Definitions), Elements: maps.Clone(s.Elements), Held: maps.Clone(s.Held),
		Revisions: maps.Clone(s.Revisions), Unsynchronized: maps.Clone(s.Unsynchronized),
	}
}

package acm

import (
	"maps"
	"time"
)

// State is all that a participant has to remember. It is read by Handle and changed by Apply only; what the cluster keeps of it
// are custom resources.
type State struct {
	// Registered says that the runtime has acknowledged the registration.
	Registered bool
	// Definitions are the primed compositions by id.
	Definitions map[string]Definition
	// Elements are the elements by id.
	Elements map[string]Element
	// Held are the orders that wait for a SYNC, by message id.
	Held map[string]Held
	// Revisions are those that the runtime has told of known instances, by their ids. They are not stored, since the runtime tells another
	// one with every acknowledgement. After a restart it is asked for them where an order needs them.
	Revisions map[string]string
	// Unsynchronized says of compositions why the last SYNC had no effect that orders wait for, by their ids. It is not stored: the runtime is
	// asked for another one as long as they wait.
	Unsynchronized map[string]string
}

// NewState is the state of a participant that knows of nothing.
func NewState() *State {
	return &State{
		Definitions: map[string]Definition{}, Elements: map[string]Element{}, Held: map[string]Held{}, Revisions: map[string]string{},
		Unsynchronized: map[string]string{},
	}
}

// Definition is a primed composition.
type Definition struct {
	CompositionID string
	// Revision is its revision (Quebec and later); empty from older runtimes.
	Revision string
	// Elements are the properties that all instances of an element definition share.
	Elements map[Identifier]Properties
}

// Element is an element of an automation composition.
type Element struct {
	ID, InstanceID string
	// Revision is that of the instance (Quebec and later).
	Revision string
	Order    Order
	// Present says whether the services of the element should exist.
	Present bool
	// Content is what the services are made of; Previous what they were made of before an update or a migration, to which its
	// failure goes back.
	Content  Content
	Previous *Content
	// Candidate is what a precheck asks about; nil otherwise.
	Candidate *Content
	// Settled is how the order ended; nil while it is being carried out.
	Settled *Outcome
	// Condition is how the element fares.
	Condition Condition
	// Known are the states that the runtime told of an element without an order.
	Known States
}

// Content is what an element is made of.
type Content struct {
	CompositionID string
	Definition    Identifier
	// Common are the properties of the definition, Properties those of the element.
	Common, Properties Properties
}

// Effective are the properties that count.
func (c Content) Effective() Properties { return c.Properties.Over(c.Common) }

// Held is an order that was made for another revision than the participant knows.
type Held struct {
	MessageID, CompositionID, InstanceID string
	// Record is the message as it came, Size how many bytes are kept of it.
	Record Message
	Size   int
	// Received is when it came.
	Received time.Time
}

// Effect is one thing that follows from a message. The order of effects matters: what is stored comes before what is said.
type Effect interface{ effect() }

// PutDefinition stores a primed composition.
type PutDefinition struct{ Definition Definition }

// DropDefinition forgets a composition.
type DropDefinition struct{ CompositionID string }

// PutElement stores an element with its order.
type PutElement struct{ Element Element }

// DropElement forgets an element.
type DropElement struct{ ID string }

// NoteRevision remembers the revision of a known instance.
type NoteRevision struct{ InstanceID, Revision string }

// HoldOrder keeps an order until a SYNC.
type HoldOrder struct{ Held Held }

// ReleaseOrder forgets a held order. Dropped says why it will not be carried out; empty where it is carried out now.
type ReleaseOrder struct{ MessageID, Dropped string }

// IgnoreOrder says that an order has no effect, and why.
type IgnoreOrder struct{ MessageID, InstanceID, Why string }

// MissSync says that a SYNC has no effect that orders wait for, and why.
type MissSync struct{ CompositionID, Why string }

// Acknowledged says that the runtime has answered the registration.
type Acknowledged struct{}

// SendRegister announces the participant.
type SendRegister struct{}

// SendStatus tells that the participant is there.
type SendStatus struct{}

// PrimeAnswer is sent for PRIME and DEPRIME. Failure is empty for success.
type PrimeAnswer struct {
	ResponseTo, CompositionID string
	State                     TypeState
	Message, Failure          string
}

// ElementAnswer is sent for an order that is concluded without the cluster, or was before. An empty ElementID answers for an
// instance of which nothing is left. Message is told instead of that of the outcome, unless it is empty.
type ElementAnswer struct {
	InstanceID, ElementID string
	Outcome               Outcome
	Message               string
	Condition             Condition
}

func (PutDefinition) effect()  {}
func (DropDefinition) effect() {}
func (PutElement) effect()     {}
func (DropElement) effect()    {}
func (NoteRevision) effect()   {}
func (HoldOrder) effect()      {}
func (ReleaseOrder) effect()   {}
func (Acknowledged) effect()   {}
func (SendRegister) effect()   {}
func (SendStatus) effect()     {}
func (IgnoreOrder) effect()    {}
func (MissSync) effect()       {}
func (PrimeAnswer) effect()    {}
func (ElementAnswer) effect()  {}

// Apply changes the state as an effect says. What is only said changes nothing.
func (s *State) Apply(effect Effect) {
	switch e := effect.(type) {
	case PutDefinition:
		s.Definitions[e.Definition.CompositionID] = e.Definition
		delete(s.Unsynchronized, e.Definition.CompositionID)
	case DropDefinition:
		delete(s.Definitions, e.CompositionID)
	case PutElement:
		s.Elements[e.Element.ID] = e.Element
	case DropElement:
		instance := s.Elements[e.ID].InstanceID
		if delete(s.Elements, e.ID); len(s.instance(instance)) == 0 {
			delete(s.Revisions, instance)
		}
	case NoteRevision:
		s.Revisions[e.InstanceID] = e.Revision
	case HoldOrder:
		s.Held[e.Held.MessageID] = e.Held
	case ReleaseOrder:
		delete(s.Held, e.MessageID)
		maps.DeleteFunc(s.Unsynchronized, func(id, _ string) bool { return !s.awaitsSync(id) })
	case MissSync:
		s.Unsynchronized[e.CompositionID] = e.Why
	case Acknowledged:
		s.Registered = true
	}
}

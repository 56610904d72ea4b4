package acm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// HeldFor is how long an order is held. The runtime has given it up long before (maxOperationWaitMs, 36 to 200 s), but still takes a
// late success.
const HeldFor = time.Hour

// earlyFor is how long an order is held that came early: the records of an hour are read within minutes.
const earlyFor = 10 * time.Minute

// maxHeld and maxHeldSize are how many orders are held at once, and with how many bytes: anybody who may write to the broker can
// invent orders for compositions that no runtime will ever tell of.
const (
	maxHeld     = 100
	maxHeldSize = 8 << 20
)

// obey carries out an order, or holds it. Either way the orders that are held for its instance are overtaken: the runtime gives an
// order when it no longer waits for the one before.
func obey(me Identity, s *State, m Message, received time.Time) []Effect {
	if s.has(m) {
		return carryOut(me, s, m, received) // It was not held when it came first.
	}
	for _, h := range s.held() {
		if h.InstanceID == m.InstanceID && m.PartitionKey == "" && m.Timestamp.Before(h.Record.Timestamp.Time) {
			if h.early() {
				return obeyBefore(me, s, m, h, received)
			}
			return []Effect{IgnoreOrder{
				MessageID: m.MessageID, InstanceID: m.InstanceID, Why: "a newer order is held: " + string(order(h.Record)),
			}}
		}
	}
	next, out := s.clone(), s.overtaken(me, m, received)
	for _, e := range out {
		next.Apply(e)
	}
	if why := next.unknownTarget(m); why != "" {
		return append(out, Refuse(me, next, m, why)...)
	}
	composition, instance := next.missing(m)
	if composition == "" && !instance && !next.early(me, m) {
		return append(out, carryOut(me, next, m, received)...)
	}
	return append(out, hold(me, next, m, received)...)
}

// overtaken drops the orders that are held for the instance of a newer one. One that the newer one presumes is carried out first: its effect
// is what the runtime takes for given, since the acknowledgement of an order before has ended it there.
func (s *State) overtaken(me Identity, m Message, received time.Time) []Effect {
	var out []Effect
	for _, h := range s.held() {
		if h.InstanceID != m.InstanceID || h.MessageID == m.MessageID {
			continue
		}
		dropped := "a newer order has come: " + string(order(m))
		if composition, _ := s.missing(h.Record); composition == "" && order(m).presumes(order(h.Record)) {
			out, dropped = append(out, carryOut(me, s, h.Record, received)...), ""
		}
		out = append(out, ReleaseOrder{h.MessageID, dropped})
	}
	return out
}

// presumes says that an order is given to what another one has brought about.
func (t OrderType) presumes(before OrderType) bool {
	switch t {
	case OrderPrepare:
		return before == OrderUndeploy
	case OrderLock, OrderUnlock, OrderReview, OrderPrecheck:
		return slices.Contains([]OrderType{OrderDeploy, OrderUpdate, OrderMigrate}, before)
	}
	return false
}

// early says that an order to undeploy has overtaken the order to deploy. Runtimes before Quebec send no revisions and give records random
// keys, so that orders come in any order after the participant was down: this one names no elements, and nothing is known of its
// instance. Without it the services would stay that the other order brings, and nobody would remove them.
func (s *State) early(me Identity, m Message) bool {
	return order(m) == OrderUndeploy && m.PartitionKey == "" && m.RevisionComposition == "" && m.RevisionInstance == "" && len(targets(me, s, m)) == 0
}

// early says that an order is held since it came early.
func (h Held) early() bool {
	return h.Record.RevisionComposition == "" && h.Record.RevisionInstance == ""
}

// heldFor is how long an order is held. One that came early may be another participant's, of whose instance nothing will ever be known.
func (h Held) heldFor() time.Duration {
	if h.early() {
		return earlyFor
	}
	return HeldFor
}

// obeyBefore carries out an order, and after it the newer one that came early.
func obeyBefore(me Identity, s *State, m Message, h Held, received time.Time) []Effect {
	next, out := s.clone(), carryOut(me, s, m, received)
	for _, e := range out {
		next.Apply(e)
	}
	if next.early(me, h.Record) {
		return out // Nothing is known of the instance yet.
	}
	return append(append(out, carryOut(me, next, h.Record, received)...), ReleaseOrder{MessageID: h.MessageID})
}

// unknownTarget says why a migration of a runtime that sends no revisions cannot be carried out: nothing is known of the composition that it
// leads to, so that the properties would be lost that all of its instances share, and no such runtime can be asked.
func (s *State) unknownTarget(m Message) string {
	if _, known := s.Definitions[m.CompositionTargetID]; known || m.CompositionTargetID == "" || m.RevisionCompositionTarget != "" || len(m.ElementDtos) > 0 {
		return ""
	}
	return "composition " + m.CompositionTargetID + " is not known: deprime and prime it, and give the order again"
}

// has says that a message has given its order already, to one of the elements of its instance at least.
func (s *State) has(m Message) bool {
	return slices.ContainsFunc(s.instance(m.InstanceID), func(e Element) bool { return e.Order.has(m.MessageID) })
}

// hold keeps an order until the runtime has told what it was made for. What is too much is refused.
func hold(me Identity, s *State, m Message, received time.Time) []Effect {
	raw, err := json.Marshal(m)
	if err != nil {
		panic("bug: a message that was decoded does not encode: " + err.Error())
	}
	number, size := 0, len(raw)
	for id, h := range s.Held {
		if id != m.MessageID {
			number, size = number+1, size+h.Size
		}
	}
	if number >= maxHeld || size > maxHeldSize {
		return Refuse(me, s, m, fmt.Sprintf("%d orders wait already until the runtime tells the revisions that they were made for, and no more than "+
			"%d with %d MiB are held: look at the topic of synchronizations, and give the order again", number, maxHeld, maxHeldSize>>20))
	}
	return []Effect{HoldOrder{Held{
		MessageID: m.MessageID, CompositionID: m.CompositionID, InstanceID: m.InstanceID, Record: m, Size: len(raw), Received: received,
	}}}
}

// missing is what an order was made for and is not known: a composition of another revision, or of its instance another revision.
// Runtimes before Quebec send no revisions, and their orders are carried out as they are.
func (s *State) missing(m Message) (composition string, instance bool) {
	for _, one := range []struct{ id, revision string }{
		{m.CompositionID, m.RevisionComposition}, {m.CompositionTargetID, m.RevisionCompositionTarget},
	} {
		if known, ok := s.Definitions[one.id]; composition == "" && one.revision != "" && (!ok || known.Revision != one.revision) {
			composition = one.id
		}
	}
	return composition, m.RevisionInstance != "" && needsInstance(order(m)) && !s.hasRevision(m.InstanceID, m.RevisionInstance)
}

// needsInstance says whether an order presumes that the instance is known.
func needsInstance(t OrderType) bool {
	return t != OrderDeploy && t != OrderPrepare && t != OrderDelete
}

// hasRevision says whether a revision of an instance was told, or one of its elements was ordered with it.
func (s *State) hasRevision(instance, revision string) bool {
	return s.Revisions[instance] == revision || slices.ContainsFunc(s.instance(instance), func(e Element) bool { return e.Revision == revision })
}

// held are the orders that wait, in the order in which they came.
func (s *State) held() []Held {
	return slices.SortedFunc(maps.Values(s.Held), func(a, b Held) int {
		return cmp.Or(a.Received.Compare(b.Received), a.Record.Timestamp.Compare(b.Record.Timestamp.Time), cmp.Compare(a.MessageID, b.MessageID))
	})
}

// Awaits says that an order on an instance is held. The runtime waits for that one, and would take the outcome of an order before for its.
func (s *State) Awaits(instanceID string) bool {
	for _, h := range s.Held {
		if h.InstanceID == instanceID {
			return true
		}
	}
	return false
}

// awaitsSync says that an order waits for a SYNC of a composition.
func (s *State) awaitsSync(compositionID string) bool {
	for _, h := range s.Held {
		if !h.early() && (h.CompositionID == compositionID || h.Record.CompositionTargetID == compositionID) {
			return true
		}
	}
	return false
}

// missSync notes that a SYNC has no effect that orders wait for. Of others nothing is kept, since anybody who may write to the broker can
// invent them.
func (s *State) missSync(m Message, why string) []Effect {
	if !s.awaitsSync(m.CompositionID) {
		return nil
	}
	return []Effect{MissSync{m.CompositionID, why}}
}

func (s *State) dropHeld(why string, which func(Held) bool) []Effect {
	var out []Effect
	for _, h := range s.held() {
		if which(h) {
			out = append(out, ReleaseOrder{h.MessageID, why})
		}
	}
	return out
}

// Expired drops the orders that have been held for too long.
func (s *State) Expired(now time.Time) []Effect {
	var out []Effect
	for _, h := range s.held() {
		switch after := h.heldFor(); {
		case now.Sub(h.Received) < after:
		case h.early():
			out = append(out, ReleaseOrder{h.MessageID, fmt.Sprintf("no order to deploy its automation composition has come within %s", after)})
		case s.Unsynchronized[h.CompositionID] != "":
			out = append(out, ReleaseOrder{h.MessageID, fmt.Sprintf("what the runtime has told within %s of its composition had no effect: %s",
				after, s.Unsynchronized[h.CompositionID])})
		default:
			out = append(out, ReleaseOrder{h.MessageID, fmt.Sprintf("the runtime has not told within %s what it was made for", after)})
		}
	}
	return out
}

// Question asks the runtime for a composition, with the state of an instance, or for an instance alone; either may be empty.
type Question struct{ CompositionID, InstanceID string }

// Questions ask for what held orders wait for: one for each composition, with the instance of its oldest order, and one for each
// instance whose composition is known.
func (s *State) Questions() []Question {
	asked := map[string]bool{}
	var out []Question
	for _, h := range s.held() {
		if h.early() {
			continue // The runtime understands no question.
		}
		composition, _ := s.missing(h.Record)
		if about := cmp.Or(composition, h.InstanceID); !asked[about] {
			asked[about] = true
			out = append(out, Question{composition, h.InstanceID})
		}
	}
	return out
}

// release carries out the held orders that fit what is known after the effects of a SYNC so far, and drops those that it has
// overtaken. All others stay held.
func release(me Identity, s *State, m Message, sofar []Effect, received time.Time) []Effect {
	if len(s.Held) == 0 {
		return nil
	}
	next := s.clone()
	for _, e := range sofar {
		next.Apply(e)
	}
	var out []Effect
	for _, h := range s.held() {
		var effects []Effect
		switch fits, dropped := next.judge(h, m); {
		case dropped != "":
			effects = []Effect{ReleaseOrder{h.MessageID, dropped}}
		case fits:
			effects = append(carryOut(me, next, h.Record, received), ReleaseOrder{MessageID: h.MessageID})
		}
		for _, e := range effects {
			next.Apply(e)
		}
		out = append(out, effects...)
	}
	return out
}

// judge says whether a held order can be carried out after a SYNC, or why it is dropped. Each end, failure and timeout gives an
// instance a new revision, and so does each report on its elements (AbstractScanner.saveAndSync), so that another one than the order
// was made for says nothing by itself: the order is wanted as long as the instance is in the state that the order leads through.
func (s *State) judge(h Held, m Message) (fits bool, dropped string) {
	composition, instance := s.missing(h.Record)
	instance = instance || h.early() && len(s.instance(h.InstanceID)) == 0
	at := slices.IndexFunc(m.Instances, func(i Instance) bool { return i.InstanceID == h.InstanceID })
	if at < 0 {
		return composition == "" && !instance, ""
	}
	told, newer := m.Instances[at], m.Timestamp.After(h.Record.Timestamp.Time)
	switch {
	case newer && (told.awaits(order(h.Record)) || told.presumes(h.Record)):
		return composition == "" || composition == m.CompositionID && m.RevisionComposition != "", ""
	case !h.early() && h.Record.RevisionInstance == "" || h.Record.RevisionInstance != "" && h.Record.RevisionInstance == told.Revision:
		return composition == "", ""
	case newer && told.DeployState != "":
		return false, fmt.Sprintf("the automation composition is %s, %s by now", told.DeployState, told.LockState)
	}
	return false, ""
}

// presumes says that an instance is as it would be after an order: at rest in the states that the order leads to and, where it changes
// properties, with these.
func (i Instance) presumes(m Message) bool {
	switch t := order(m); t {
	case OrderPrepare, OrderPrecheck, OrderReview:
		return false // Nothing would be left of them.
	case OrderUpdate, OrderMigrate:
		return i.DeployState == Deployed && i.hasProperties(m)
	case OrderLock, OrderUnlock:
		return i.DeployState == Deployed && i.LockState == courses[t].done.LockState
	default:
		return i.DeployState == courses[t].done.DeployState
	}
}

// hasProperties says that the elements have the properties of an order.
func (i Instance) hasProperties(m Message) bool {
	ordered := map[string]Properties{}
	for _, p := range m.Updates {
		for _, e := range p.Elements {
			ordered[e.ID] = e.Properties
		}
	}
	return !slices.ContainsFunc(i.Elements, func(e ElementUpdate) bool {
		wanted, known := ordered[e.ID]
		return known && !sameJSON(wanted, e.Properties)
	})
}

// sameJSON compares properties as values: runtimes print the keys of a map in any order.
func sameJSON(a, b Properties) bool {
	return maps.EqualFunc(a, b, func(x, y json.RawMessage) bool {
		var one, other any
		return json.Unmarshal(x, &one) == nil && json.Unmarshal(y, &other) == nil && reflect.DeepEqual(one, other)
	})
}

// awaits says that the runtime still waits for an order of a type on the instance.
func (i Instance) awaits(t OrderType) bool {
	switch t {
	case OrderPrepare:
		return i.DeployState == Undeployed
	case OrderPrecheck, OrderReview:
		return i.DeployState == Deployed
	}
	return i.Result != Failed && unfinished(States{i.DeployState, i.LockState}) == t
}

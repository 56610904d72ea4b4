package acmruntime

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// Hear handles one record of the topic of operations, as Run does with each that the bus receives.
func (r *Runtime) Hear(ctx context.Context, record Record) {
	r.locked(func() { r.heard(ctx, record) })
}

func (r *Runtime) heard(ctx context.Context, record Record) {
	if r.sent[sha256.Sum256(record.Value)] {
		return
	}
	head := said{}
	if err := json.Unmarshal(record.Value, &head); err != nil {
		r.fault("a record that is no message: %v: %.300s", err, record.Value)
		return
	}
	if head.ParticipantID != id(r.Participant) && head.ParticipantID != "" {
		return // Another participant's.
	}
	if err := r.handle(ctx, head, record.Value); err != nil {
		r.fault("%s: %v: %.1000s", head.MessageType, err, record.Value)
		return
	}
	// Participants of ONAP use the key of ParticipantKafkaMessage.getPartitionKey: what belongs to a composition keeps its order.
	want := string(head.CompositionID)
	if want == "" {
		want = string(head.ParticipantID)
	}
	if head.PartitionKey != want || record.Key != nil && string(record.Key) != want {
		r.fault("%s has the key %q and the partitionKey %q, not %q", head.MessageType, record.Key, head.PartitionKey, want)
	}
	r.seen[head.MessageType]++
}

// handle handles a message, after its type.
func (r *Runtime) handle(ctx context.Context, head said, record []byte) error {
	switch head.MessageType {
	case register:
		m := registerMessage{}
		if err := errors.Join(decode(record, &m), m.complete(), completeTypes(m.Supported)); err != nil {
			return err
		}
		r.register(ctx, m)
	case deregister:
		m := asked{}
		if err := errors.Join(decode(record, &m), m.complete()); err != nil {
			return err
		}
		delete(r.replicas, m.ReplicaID)
		r.send(ctx, Topic, r.ack(deregisterAck, "Participant Deregister Ack", m.MessageID))
	case status:
		m := statusMessage{}
		if err := decode(record, &m); err != nil {
			return err
		}
		return r.status(ctx, m)
	case reqSync:
		m := reqSyncMessage{}
		if err := errors.Join(decode(record, &m), m.complete()); err != nil {
			return err
		}
		if r.Release == London {
			return errors.New("no such message is known to London")
		}
		r.reqSync(ctx, m)
	case primeAck:
		m := primeAckMessage{}
		if err := errors.Join(decode(record, &m), m.complete()); err != nil {
			return err
		}
		return r.primeAck(m)
	case stateChangeAck:
		m := stateChangeAckMessage{}
		if err := errors.Join(decode(record, &m), m.complete()); err != nil {
			return err
		}
		return r.stateChangeAck(m)
	default:
		return errors.New("no participant sends this type")
	}
	return nil
}

// scanSoon has a scan follow (MessageIntercept).
func (r *Runtime) scanSoon() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// register is SupervisionParticipantHandler's: who is new is told all that it should know, before it is acknowledged. London tells
// that to every participant that registers again.
func (r *Runtime) register(ctx context.Context, m registerMessage) {
	r.registered++
	r.present(ctx, m.ReplicaID, m.Supported, true)
	out := r.ack(registerAck, "Participant Register Ack", m.MessageID)
	out["participantId"] = m.ParticipantID
	if r.Release != London {
		out["replicaId"], out["partitionKey"] = m.ReplicaID, r.Participant
	}
	r.sendSync(ctx, out)
}

// present is saveIfNotPresent: a replica that the runtime does not know, or that supports other types, is told all.
func (r *Runtime) present(ctx context.Context, replica id, types []elementType, registers bool) {
	_, there := r.replicas[replica]
	switch {
	case r.Release == London && registers && r.known:
		r.restart(ctx, "")
	case r.Release != London && (!there || !slices.Equal(r.types, types)):
		r.restart(ctx, replica)
	}
	r.replicas[replica], r.types, r.known = r.now(), types, true
}

// restart is handleRestart. London takes back its timeouts then, since the participant is to go on.
func (r *Runtime) restart(ctx context.Context, replica id) {
	for _, c := range r.compositions {
		if c.State == commissioned {
			continue
		}
		var list []*Instance
		for _, i := range r.instances {
			if i.Composition == c && !i.gone {
				list = append(list, i)
				if r.Release == London && i.Result == timedOut {
					i.Result = noError
				}
			}
		}
		r.sendSync(ctx, r.restartMessage(c, replica, r.elementsOf, list...))
	}
}

func (r *Runtime) status(ctx context.Context, m statusMessage) error {
	if m.Definitions == nil || m.Infos == nil {
		return errors.New("it lacks a list: the original asks it whether it is empty")
	}
	if err := errors.Join(m.complete(), completeTypes(m.Supported)); err != nil {
		return err
	}
	if r.Release == London && m.State != "ON_LINE" {
		return fmt.Errorf("the state of the participant is %q", m.State)
	}
	for _, info := range m.Infos {
		i := r.instance(info.InstanceID)
		for _, one := range info.Elements {
			if info.InstanceID == "" || one.ID == "" || one.OutProperties == nil {
				return errors.New("an element lacks its id, its instance or outProperties")
			}
			if i != nil {
				i.told = append(i.told, i.reports(one.ID, one.Condition))
			}
		}
	}
	r.present(ctx, m.ReplicaID, m.Supported, false)
	r.scanSoon()
	return nil
}

func (r *Runtime) instance(of id) *Instance {
	for _, i := range r.instances {
		if i.ID == string(of) && !i.gone {
			return i
		}
	}
	return nil
}

func (r *Runtime) composition(of id) *Composition {
	for _, c := range r.compositions {
		if c.ID == string(of) {
			return c
		}
	}
	return nil
}

func (i *Instance) element(of id) *Element {
	for _, e := range i.Elements {
		if e.ID == string(of) {
			return e
		}
	}
	return nil
}

// reports is SimpleScanner.handleOutProperties.
func (i *Instance) reports(element id, c Condition) func(*changes) {
	return func(u *changes) {
		if e := i.element(element); e != nil {
			e.Reported = c
			u.updated, u.sync = true, true
		}
	}
}

// reqSync is handleParticipantReqSync. What it does not know is an exception there, and no answer.
func (r *Runtime) reqSync(ctx context.Context, m reqSyncMessage) {
	if c := r.composition(m.TargetID); c != nil {
		r.sendSync(ctx, r.restartMessage(c, "", r.knownOf))
	}
	i := r.instance(m.InstanceID)
	if c := r.composition(m.CompositionID); c != nil {
		switch {
		case i != nil:
			r.sendSync(ctx, r.restartMessage(c, "", r.knownOf, i))
		case m.InstanceID == "":
			r.sendSync(ctx, r.restartMessage(c, "", r.knownOf))
		}
	} else if m.CompositionID == "" && i != nil {
		r.sendSync(ctx, r.instanceSync(i, r.knownOf(i)))
	}
}

// answers says whether an acknowledgement is of a message of the runtime. The original does not ask: it takes every one for that of
// the order which is on its way.
func (r *Runtime) answers(a answered) error {
	if !r.orders[a.ResponseTo] {
		return fmt.Errorf("it answers %s, which is no message of the runtime", a.ResponseTo)
	}
	return nil
}

// primeAck is SupervisionHandler's.
func (r *Runtime) primeAck(m primeAckMessage) error {
	switch {
	case m.CompositionID == "" || m.CompositionState != primed && m.CompositionState != commissioned:
		return errors.New("it has no compositionId, or a compositionState on the way")
	case r.Release == London && m.State != "ON_LINE":
		return fmt.Errorf("the state of the participant is %q", m.State)
	}
	if err := r.answers(m.answered); err != nil {
		return err
	}
	if c := r.composition(m.CompositionID); c != nil && (c.State == priming || c.State == depriming) {
		c.told = append(c.told, m)
		r.scanSoon()
	}
	return nil
}

// stateChangeAck is SupervisionAcHandler's. An acknowledgement without elements is of an instance that was never deployed.
func (r *Runtime) stateChangeAck(m stateChangeAckMessage) error {
	if m.InstanceID == "" || m.Results == nil {
		return errors.New("it has no automationCompositionId or no automationCompositionResultMap")
	}
	for _, one := range m.Results {
		if transitional(string(one.DeployState), string(one.LockState), none) || one.DeployState == "" || one.LockState == "" {
			return errors.New("states are not valid")
		}
		if one.OutProperties == nil || one.Result == nil {
			return errors.New("an element lacks outProperties or a result")
		}
	}
	if err := r.answers(m.answered); err != nil {
		return err
	}
	i := r.instance(m.InstanceID)
	if i == nil {
		return nil // It is deleted: a record that comes again.
	}
	if len(m.Results) == 0 {
		m.Results = map[id]elementAck{}
		for _, e := range i.Elements {
			m.Results[id(e.ID)] = elementAck{DeployState: deleted, LockState: none}
		}
	}
	for element, one := range m.Results {
		if i.element(element) == nil && (i.before == nil || !slices.ContainsFunc(i.before, func(e *Element) bool { return e.ID == string(element) })) {
			return fmt.Errorf("instance %s has no element %s", i.ID, element)
		}
		if m.Updated || r.Release == London {
			i.told = append(i.told, i.reports(element, one.Condition))
		}
		i.told = append(i.told, i.acknowledges(element, one, m, r.Release))
	}
	r.scanSoon()
	return nil
}

// acknowledges is SimpleScanner.handleAcStateChange: FAILED is the instance's, and nothing but the next order takes it back. In London
// NO_ERROR takes back a TIMEOUT at once (SupervisionAcHandler.updateState).
func (i *Instance) acknowledges(element id, one elementAck, m stateChangeAckMessage, release Release) func(*changes) {
	return func(u *changes) {
		e := i.element(element)
		if e == nil {
			return
		}
		u.updated = true
		switch {
		case m.StateChange == failed:
			i.Result, u.sync = failed, true
		case release == London && i.Result != failed:
			i.Result = noError
		}
		e.DeployState, e.LockState, e.Message, e.stage = string(one.DeployState), string(one.LockState), one.Message, m.Stage
		if m.Stage == nil {
			e.SubState = none
		}
		e.Acks++
		e.Messages = append(e.Messages, one.Message)
	}
}

// newRevision is what the database gives what has changed.
func newRevision() string { return uuid.NewString() }

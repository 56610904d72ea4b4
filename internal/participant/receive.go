package participant

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/parallel"
)

// receive carries out records until the context is done. The topics are independent of each other: an order that is not safe yet holds
// back those behind it, but no synchronization.
func (p *Participant) receive(ctx context.Context) error {
	batches, ctx := errgroup.WithContext(ctx)
	wait := minRetry
	for ctx.Err() == nil {
		batch, err := p.poll(ctx)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			// The transport is not healthy then, which is told with pauses that grow.
			p.settings.Log.V(1).Info("no records were received", "why", err.Error(), "again", wait)
			_ = p.sleep(ctx, wait)
			wait = min(2*wait, maxReceive)
			continue
		}
		wait = minRetry
		batches.Go(func() error { return p.carryOut(ctx, batch) })
	}
	_ = batches.Wait() // Batches end with the context alone.
	return ctx.Err()
}

// poll receives one batch. A panic of the transport is an error like others of it.
func (p *Participant) poll(ctx context.Context) (batch acm.Batch, err error) {
	err = p.recovered(ctx, "receive", func(ctx context.Context) error {
		batch, err = p.transport.Receive(ctx)
		return err
	})
	return batch, err
}

// carryOut stores what follows from a batch, says what is to be said, and has the batch committed. What fails is tried again
// until it succeeds: nothing after a record is looked at before the record is safe.
func (p *Participant) carryOut(ctx context.Context, batch acm.Batch) error {
	work := p.decide(ctx, batch.Records)
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return p.save(ctx, work) },
		p.wakeAsker,
		func(ctx context.Context) error { return p.publish(ctx, work.messages(p)...) },
		func(context.Context) error { work.retell(p); return nil },
		batch.Done,
	} {
		if err := p.insist(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// insist repeats a step until it succeeds, or the context is done; one that panics has failed. Health tells when that takes long.
func (p *Participant) insist(ctx context.Context, step func(context.Context) error) error {
	failing := &failure{since: p.now()}
	defer p.ended(failing)
	for wait := minRetry; ; wait = min(2*wait, maxRetry) {
		err := p.recovered(ctx, "step", step)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.failed(failing, err)
		p.settings.Log.Error(err, "an order is not safe yet", "again", wait)
		if err := p.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// recovered calls f and returns a panic in it as an error. Go ends the process for a panic that nobody recovers, and with it all
// controllers of the manager. The metric counts the panics by the part of the participant.
func (p *Participant) recovered(ctx context.Context, part string, f func(context.Context) error) error {
	returned := false
	err := parallel.Recovered(logr.NewContext(ctx, p.settings.Log), func(ctx context.Context) error {
		err := f(ctx)
		returned = true
		return err
	})
	if !returned {
		panics.WithLabelValues(part).Inc()
	}
	return err
}

// work is what follows from a batch: the entries that are to be written, and what is to be said.
type work struct {
	writes  map[entry]undo
	answers []acm.Effect
	// released are the instances of orders that are no longer held, or that are taken back.
	released []string
}

// decide evaluates every record, each on the state that the one before left. A record that causes a panic has no effect beyond those
// before the panic: it would cause the same panic again, and with a retry no record behind it would be read.
func (p *Participant) decide(ctx context.Context, records [][]byte) *work {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &work{writes: map[entry]undo{}}
	for _, record := range records {
		err := p.recovered(ctx, "record", func(context.Context) error {
			for _, effect := range p.evaluate(record) {
				p.note(out, effect)
				p.state.Apply(effect)
			}
			return nil
		})
		if err != nil {
			p.settings.Log.Error(err, "a record is skipped", "bytes", len(record))
		}
	}
	return out
}

func (p *Participant) evaluate(record []byte) []acm.Effect {
	me, now := p.settings.Identity, p.now()
	message, err := acm.Decode(record)
	var refused *acm.Refused
	switch {
	case errors.As(err, &refused):
		messagesReceived.WithLabelValues("refused").Inc()
		p.settings.Log.Info("a record is refused", "why", refused.Why, "type", refused.Message.MessageType, "messageId", refused.Message.MessageID)
		return acm.Refuse(me, p.state, refused.Message, refused.Why)
	case err != nil:
		messagesReceived.WithLabelValues("unreadable").Inc()
		p.settings.Log.Info("a record is no message", "bytes", len(record))
		return nil
	}
	effects := acm.Handle(me, p.state, message, now)
	if len(effects) > 0 {
		messagesReceived.WithLabelValues(string(message.MessageType)).Inc()
		p.settings.Log.V(1).Info("message", "type", message.MessageType, "messageId", message.MessageID, "effects", len(effects))
	}
	p.tellOrders(message, effects)
	return effects
}

// tellOrders has the log tell what becomes of an order, or of those that a synchronization releases.
func (p *Participant) tellOrders(m acm.Message, effects []acm.Effect) {
	about := []any{"order", m.OrderName(), "messageId", m.MessageID, "composition", m.CompositionID}
	if m.InstanceID != "" {
		about = append(about, "instance", m.InstanceID)
	}
	elements, answered := 0, false
	for _, effect := range effects {
		switch e := effect.(type) {
		case acm.PutElement:
			if e.Element.Order.ID == m.MessageID {
				elements++
			}
		case acm.HoldOrder:
			p.settings.Log.Info("an order waits until the runtime has sent the revision that it was made for", about...)
		case acm.ReleaseOrder:
			if e.Dropped == "" {
				p.settings.Log.Info("an order that has waited is carried out", "messageId", e.MessageID, "instance", p.state.Held[e.MessageID].InstanceID)
			}
		case acm.PrimeAnswer:
			answered = true
			p.settings.Log.Info("an order has ended", append(about, "state", e.State, "message", cmp.Or(e.Failure, e.Message))...)
		case acm.ElementAnswer:
			answered = true
			p.settings.Log.Info("an order has ended", append(about, "element", e.ElementID, "result", e.Outcome.Result(), "state", e.Outcome.DeployState,
				"message", cmp.Or(e.Message, e.Outcome.Message()))...)
		}
	}
	if elements > 0 && !answered {
		p.settings.Log.Info("an order is carried out", append(about, "elements", elements)...)
	}
}

// note adds an effect to the work.
func (p *Participant) note(out *work, effect acm.Effect) {
	put := func(kind entryKind, id string) {
		one := entry{kind, id}
		if _, twice := out.writes[one]; twice {
			return
		}
		before := undo{}
		if kind == elementEntry {
			before.before, before.known = p.state.Elements[id]
		}
		out.writes[one] = before
	}
	switch e := effect.(type) {
	case acm.PutElement:
		put(elementEntry, e.Element.ID)
	case acm.DropElement:
		put(elementEntry, e.ID)
	case acm.PutDefinition:
		put(definitionEntry, e.Definition.CompositionID)
	case acm.DropDefinition:
		put(definitionEntry, e.CompositionID)
	case acm.HoldOrder:
		put(orderEntry, e.Held.MessageID)
	case acm.ReleaseOrder:
		put(orderEntry, e.MessageID)
		out.released = append(out.released, p.state.Held[e.MessageID].InstanceID)
		p.tellDropped(e)
	case acm.IgnoreOrder:
		ordersIgnored.Inc()
		p.settings.Log.Info("an order has no effect", "messageId", e.MessageID, "instance", e.InstanceID, "why", e.Why)
	case acm.Acknowledged, acm.NoteRevision, acm.MissSync:
	default:
		out.answers = append(out.answers, effect)
	}
}

// retell has the runtime told what it was not told while another order stood, or was held.
func (w *work) retell(p *Participant) {
	for _, instanceID := range w.released {
		p.outbox.retell(instanceID)
	}
}

// messages are what is to be said.
func (w *work) messages(p *Participant) []acm.Outgoing {
	me, now := p.settings.Identity, p.now()
	var out []acm.Outgoing
	for _, answer := range w.answers {
		out = append(out, toSay(me, now, answer))
	}
	return out
}

func toSay(me acm.Identity, now time.Time, effect acm.Effect) acm.Outgoing {
	switch e := effect.(type) {
	case acm.SendRegister:
		return me.Register(newID(), now)
	case acm.PrimeAnswer:
		return me.PrimeAck(now, e)
	case acm.ElementAnswer:
		return me.ElementAck(now, e)
	}
	return me.Status(newID(), now, "", nil)
}

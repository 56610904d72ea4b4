package participant

import (
	"context"
	"reflect"
	"sync"

	"k8s.io/client-go/util/workqueue"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/acm/record"
	"mlkeeper.dev/internal/engine/backoff"
)

// maxSenders is how many acknowledgements are under way at once.
const maxSenders = 16

// outbox tells the runtime what the statuses of CompositionElements say and it does not know yet.
type outbox struct {
	*Participant
	queue workqueue.TypedRateLimitingInterface[string]
}

func newOutbox(p *Participant) *outbox {
	limiter := backoff.NewLimiter[string](backoff.Policy{First: minRetry, Longest: maxRetry}, p.settings.Clock)
	return &outbox{Participant: p, queue: workqueue.NewTypedRateLimitingQueue(limiter)}
}

// Saw takes in what the watch says of an element, in any state of the participant. The informer's goroutine calls it, so that a panic
// would end the manager.
func (p *Participant) Saw(was, is *keeper.CompositionElement) {
	_ = p.recovered(context.Background(), "watch", func(context.Context) error { // The log has the panic.
		if is == nil {
			p.forget(was)
		} else {
			p.look(is)
		}
		return nil
	})
}

// look has the runtime told of an element that was made or changed.
func (p *Participant) look(cr *keeper.CompositionElement) {
	if cr.Spec.ParticipantID != p.settings.Identity.ParticipantID || !untold(cr) && !over(cr) {
		return
	}
	p.outbox.queue.Add(cr.Name)
}

// forget forgets an element that was deleted.
func (p *Participant) forget(cr *keeper.CompositionElement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Elements[cr.Name].Order.ID == record.Element(cr).Order.ID {
		delete(p.state.Elements, cr.Name) // Else it was made anew meanwhile.
	}
}

// untold says that the runtime does not know how an element ended or fares.
func untold(cr *keeper.CompositionElement) bool {
	return outcomeUntold(cr) || conditionUntold(cr)
}

// outcomeUntold says that the runtime does not know how the order ended.
func outcomeUntold(cr *keeper.CompositionElement) bool {
	ended, told := cr.Status.Outcome, cr.Status.Acknowledged
	return ended != nil && (told == nil || told.OrderOutcome != *ended)
}

// conditionUntold says that the runtime does not know how a deployed element fares. What is not deployed is not reported.
func conditionUntold(cr *keeper.CompositionElement) bool {
	if cr.Status.UseState == "" {
		return false
	}
	told := keeper.ElementCondition{}
	if cr.Status.Acknowledged != nil {
		told = cr.Status.Acknowledged.ElementCondition
	}
	return !reflect.DeepEqual(told, cr.Status.ElementCondition)
}

// over says that the runtime knows that the element is deleted.
func over(cr *keeper.CompositionElement) bool {
	told := cr.Status.Acknowledged
	return told != nil && told.DeployState == string(acm.Deleted) && !outcomeUntold(cr) && current(cr, cr.Status.Outcome)
}

// current says that an outcome is that of the element's order, and not of one before.
func current(cr *keeper.CompositionElement, ended *keeper.OrderOutcome) bool {
	return ended != nil && cr.Spec.Order != nil && ended.OrderID == cr.Spec.Order.ID && ended.Type == cr.Spec.Order.Type
}

// run sends until the context is done.
func (o *outbox) run(ctx context.Context) error {
	senders := sync.WaitGroup{}
	for range maxSenders {
		senders.Go(func() {
			for o.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	o.queue.ShutDown()
	senders.Wait()
	return ctx.Err()
}

func (o *outbox) next(ctx context.Context) bool {
	id, shutdown := o.queue.Get()
	if shutdown {
		return false
	}
	defer o.queue.Done(id)
	if err := o.recovered(ctx, "outbox", func(ctx context.Context) error { return o.tell(ctx, id) }); err != nil {
		if ctx.Err() == nil {
			o.settings.Log.Error(err, "the runtime was not told", "element", id)
		}
		o.queue.AddRateLimited(id)
		return true
	}
	o.queue.Forget(id)
	return true
}

// tell sends what the runtime does not know of an element, and records that it was told. A crash in between has it told again.
func (o *outbox) tell(ctx context.Context, id string) error {
	cr, exists := o.store.Elements.Get("", id)
	if !exists {
		return nil
	}
	if over(cr) {
		return o.store.End(ctx, cr)
	}
	message, ok := o.message(cr)
	if !ok {
		return nil
	}
	if err := o.publish(ctx, message); err != nil {
		return err
	}
	told := keeper.Acknowledgement{ElementCondition: cr.Status.ElementCondition}
	if cr.Status.Outcome != nil {
		told.OrderOutcome = *cr.Status.Outcome
	}
	return o.store.Acknowledge(ctx, cr, told)
}

// message is what the runtime does not know of an element; ok is false where a newer order stands meanwhile.
func (o *outbox) message(cr *keeper.CompositionElement) (acm.Outgoing, bool) {
	element := record.Element(cr)
	if !o.settle(element) {
		return acm.Outgoing{}, false
	}
	me, condition := o.settings.Identity, record.Condition(cr.Status.ElementCondition)
	if outcomeUntold(cr) {
		if !current(cr, cr.Status.Outcome) {
			return acm.Outgoing{}, false
		}
		return me.ElementAck(o.now(), acm.ElementAnswer{
			InstanceID: element.InstanceID, ElementID: element.ID, Outcome: record.Outcome(*cr.Status.Outcome), Condition: condition,
		}), true
	}
	if !conditionUntold(cr) {
		return acm.Outgoing{}, false
	}
	states := acm.States{DeployState: acm.DeployState(cr.Status.DeployState), LockState: acm.LockState(cr.Status.LockState)}
	return me.Status(newID(), o.now(), element.Content.CompositionID, []acm.InstanceInfo{{
		InstanceID: element.InstanceID, DeployState: states.DeployState, LockState: states.LockState,
		Elements: []acm.ElementInfo{{
			ElementID: element.ID, DeployState: states.DeployState, LockState: states.LockState, Condition: filled(condition),
		}},
	}}), true
}

// settle takes in how an element fares and how its order ended, before the runtime hears of it: the next order may follow at
// once. It is false where another order stands meanwhile.
func (o *outbox) settle(element acm.Element) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	e, known := o.state.Elements[element.ID]
	if known && e.Order.ID != element.Order.ID {
		return false
	}
	if known {
		e.Settled, e.Condition = element.Settled, element.Condition
		o.state.Elements[element.ID] = e
	}
	return true
}

// filled has properties that are not null.
func filled(c acm.Condition) acm.Condition {
	if c.OutProperties == nil {
		c.OutProperties = map[string]string{}
	}
	return c
}

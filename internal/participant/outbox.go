package participant

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
	// refused has the pauses of elements of which the API server does not take what is to be recorded.
	refused *backoff.Limiter[string]
	// waiting are the elements in the queue, and those that are tried again later; mu guards it.
	waiting map[string]bool
	// taken is what the broker has taken of an element whose status does not say so yet; mu guards it.
	taken map[string]taken
}

// taken is what the broker has taken of an element.
type taken struct {
	uid  types.UID
	told keeper.Acknowledgement
}

// errNotPublished is that of a message that the broker has not taken.
var errNotPublished = errors.New("the broker has not taken the message")

func newOutbox(p *Participant) *outbox {
	limiter := backoff.NewLimiter[string](backoff.Policy{First: minRetry, Longest: maxRetry}, p.settings.Clock)
	return &outbox{
		Participant: p, queue: workqueue.NewTypedRateLimitingQueue(limiter), refused: backoff.NewLimiter[string](backoff.Unwatched, p.settings.Clock),
		waiting: map[string]bool{}, taken: map[string]taken{},
	}
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
	p.outbox.add(cr.Name)
}

// add has the runtime told of an element.
func (o *outbox) add(id string) {
	o.mu.Lock()
	o.waiting[id] = true
	o.mu.Unlock()
	o.queue.Add(id)
}

// sent says that there is nothing to be told of an element, as far as is known.
func (o *outbox) sent(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiting, id)
	delete(o.taken, id)
}

// depth is of how many elements the runtime is to be told; mu is held.
func (o *outbox) depth() int { return len(o.waiting) }

// retell has the runtime told of the elements of an instance, of which an order is no longer held.
func (o *outbox) retell(instanceID string) {
	o.mu.Lock()
	var ids []string
	for id, e := range o.state.Elements {
		if e.InstanceID == instanceID {
			ids = append(ids, id)
		}
	}
	o.mu.Unlock()
	for _, id := range ids {
		o.add(id)
	}
}

// forget forgets an element that was deleted.
func (p *Participant) forget(cr *keeper.CompositionElement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Elements[cr.Name].Order.ID == record.Order(cr.Spec.Order).ID {
		p.state.Apply(acm.DropElement{ID: cr.Name}) // Else it was made anew meanwhile.
		p.store.known.forget(record.PayloadOf(elementKind, cr.Name))
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
		o.again(id, err)
		return true
	}
	o.queue.Forget(id)
	o.refused.Forget(id)
	o.sent(id)
	return true
}

// again has an element tried again: soon for the broker, and with pauses that grow for what the API server refuses.
func (o *outbox) again(id string, err error) {
	if errors.Is(err, errNotPublished) {
		o.queue.AddRateLimited(id)
		return
	}
	o.queue.AddAfter(id, o.refused.When(id))
}

// tell sends what the runtime does not know of an element, and records that it was told. A crash in between has it told again; a record that is
// refused does not, since the runtime broadcasts a synchronization for each failure that it is told (SimpleScanner).
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
	told := keeper.Acknowledgement{ElementCondition: cr.Status.ElementCondition}
	if cr.Status.Outcome != nil {
		told.OrderOutcome = *cr.Status.Outcome
	}
	if err := o.publishOnce(ctx, cr, message, told); err != nil {
		return err
	}
	return o.store.Acknowledge(ctx, cr, told)
}

// publishOnce publishes what is to be told of an element, unless the broker has taken just that.
func (o *outbox) publishOnce(ctx context.Context, cr *keeper.CompositionElement, message acm.Outgoing, told keeper.Acknowledgement) error {
	next := taken{cr.UID, told}
	o.mu.Lock()
	before, published := o.taken[cr.Name]
	o.mu.Unlock()
	if published && reflect.DeepEqual(before, next) {
		return nil
	}
	if err := o.publish(ctx, message); err != nil {
		return fmt.Errorf("%w: %w", errNotPublished, err)
	}
	o.mu.Lock()
	o.taken[cr.Name] = next
	o.mu.Unlock()
	if message.Type == acm.TypeStateChangeAck {
		o.ended(cr)
	}
	return nil
}

// eventOrderCompleted is the event of an order that has succeeded.
const eventOrderCompleted = "OrderCompleted"

// ended tells of an order of which the broker has the acknowledgement. Of what goes wrong the controller has told as an event.
func (o *outbox) ended(cr *keeper.CompositionElement) {
	outcome := record.Outcome(*cr.Status.Outcome)
	took := o.now().Sub(cr.Spec.Order.Received.Time).Round(time.Millisecond)
	acknowledged.WithLabelValues(string(outcome.Type), string(outcome.Result())).Observe(took.Seconds())
	o.settings.Log.Info("an order has ended", "order", outcome.Type, "messageId", outcome.OrderID, "element", cr.Name,
		"instance", cr.Spec.AutomationCompositionID, "result", outcome.Result(), "state", outcome.DeployState, "lock", outcome.LockState,
		"message", outcome.Message(), "took", took.String())
	if outcome.Failure == "" {
		o.eventOf(cr, corev1.EventTypeNormal, eventOrderCompleted, fmt.Sprintf("%s after %s: %s, %s", outcome.Type, took, outcome.DeployState, outcome.LockState))
	}
}

// message is what the runtime does not know of an element; ok is false where a newer order stands meanwhile.
func (o *outbox) message(cr *keeper.CompositionElement) (acm.Outgoing, bool) {
	element, err := record.Element(cr, nil) // What is told has no properties.
	if err != nil {
		return acm.Outgoing{}, false
	}
	if !o.settle(element) {
		return acm.Outgoing{}, false
	}
	me, condition := o.settings.Identity, record.Condition(cr.Status.ElementCondition)
	if outcomeUntold(cr) {
		if !current(cr, cr.Status.Outcome) || o.awaits(element.InstanceID) {
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

// awaits says that a newer order on an instance is held: the runtime would take the outcome of this one for its.
func (o *outbox) awaits(instanceID string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state.Awaits(instanceID)
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

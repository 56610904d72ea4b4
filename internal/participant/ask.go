package participant

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine/backoff"
)

// askAgain is when a question that the runtime has not answered is asked again.
var askAgain = backoff.Policy{First: 5 * time.Second, Longest: 5 * time.Minute}

// ask asks the runtime for what held orders wait for, until none waits any more.
func (p *Participant) ask(ctx context.Context) error {
	questions := map[acm.Question]backoff.Retry{}
	for {
		var due <-chan time.Time
		var wait time.Duration
		if err := p.recovered(ctx, "questions", func(ctx context.Context) error {
			wait = p.askDue(ctx, questions)
			return nil
		}); err != nil {
			wait = maxRetry
		}
		if wait > 0 {
			due = p.settings.Clock.After(wait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.woken:
		case <-due:
		}
	}
}

// wakeAsker has questions asked that are new.
func (p *Participant) wakeAsker(context.Context) error {
	select {
	case p.woken <- struct{}{}:
	default:
	}
	return nil
}

// askDue drops orders that have waited too long, asks what is to be asked now, and returns when to look again; zero for never.
func (p *Participant) askDue(ctx context.Context, questions map[acm.Question]backoff.Retry) (wait time.Duration) {
	p.dropExpired(ctx)
	now, still := p.now(), map[acm.Question]backoff.Retry{}
	for _, q := range p.questions() {
		one := questions[q]
		if !one.Waits(now) {
			one.Failed(askAgain, "", now)
			_ = p.publish(ctx, p.settings.Identity.ReqSync(newID(), now, q.CompositionID, q.InstanceID))
		}
		if rest := one.Due().Sub(now); wait == 0 || rest < wait {
			wait = rest
		}
		still[q] = one
	}
	clear(questions)
	for q, one := range still {
		questions[q] = one
	}
	return wait
}

func (p *Participant) questions() []acm.Question {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Questions()
}

func (p *Participant) expired() []acm.Effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.Expired(p.now())
}

// apply forgets a held order and returns the instance that it was for.
func (p *Participant) apply(order acm.ReleaseOrder) (instanceID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	instanceID = p.state.Held[order.MessageID].InstanceID
	p.state.Apply(order)
	return instanceID
}

// dropExpired forgets the held orders that the runtime has not told anything about.
func (p *Participant) dropExpired(ctx context.Context) {
	for _, effect := range p.expired() {
		order, ok := effect.(acm.ReleaseOrder)
		if !ok {
			continue
		}
		if err := p.store.ReleaseOrder(ctx, order.MessageID); err != nil {
			p.settings.Log.Error(err, "an order that was held too long is not removed yet", "messageId", order.MessageID)
			continue
		}
		p.tellDropped(order)
		p.outbox.retell(p.apply(order))
	}
}

// tellDropped says that a held order will not be carried out. The runtime is told nothing: it has ended the order by itself.
func (p *Participant) tellDropped(order acm.ReleaseOrder) {
	if order.Dropped == "" {
		return
	}
	ordersDropped.Inc()
	p.settings.Log.Info("a held order is dropped", "messageId", order.MessageID, "why", order.Dropped)
	about := &keeper.PendingOrder{ObjectMeta: metav1.ObjectMeta{Name: order.MessageID}}
	about.SetGroupVersionKind(keeper.GroupVersion.WithKind("PendingOrder"))
	p.event(about, "OrderDropped", order.Dropped)
}

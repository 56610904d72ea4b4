package participant

import (
	"context"
	"time"

	"mlkeeper.dev/internal/acm"
)

const (
	// measured is how often the gauges are set.
	measured = 10 * time.Second
	// unanswered is how long the runtime has to acknowledge the registration until the log tells.
	unanswered = 30 * time.Second
	// minRepeat and maxRepeat bound how often the log tells what is still wrong.
	minRepeat, maxRepeat = 5 * time.Minute, time.Hour
)

// report sets the gauges, and has the log tell what the participant waits for.
func (p *Participant) report(ctx context.Context) error {
	told := trouble{}
	for {
		_ = p.recovered(ctx, "report", func(ctx context.Context) error { // The metric counts it, and the next one is tried.
			p.measure(ctx)
			p.tellTrouble(&told)
			return nil
		})
		if err := p.sleep(ctx, measured); err != nil {
			return err
		}
	}
}

// trouble is what the log has told of the health: what, when, and how long it is not repeated.
type trouble struct {
	what  string
	when  time.Time
	pause time.Duration
}

// tellTrouble has the log tell when the health changes, and again after a while. A registration takes a moment.
func (p *Participant) tellTrouble(told *trouble) {
	now, what := p.now(), ""
	if err := p.Healthy(); err != nil && (p.registered() || now.Sub(p.since()) >= unanswered) {
		what = err.Error()
	}
	switch {
	case what == "" && told.what != "":
		p.settings.Log.Info("the participant is ready again")
		*told = trouble{}
	case what == "":
	case told.what == "":
		p.settings.Log.Info("the participant is not ready", "why", what)
		*told = trouble{what, now, minRepeat}
	case now.Sub(told.when) >= told.pause:
		p.settings.Log.Info("the participant is still not ready", "why", what)
		*told = trouble{what, now, min(2*told.pause, maxRepeat)}
	}
}

func (p *Participant) since() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

// measure sets the gauges.
func (p *Participant) measure(ctx context.Context) {
	topics := p.transport.Topics(ctx)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, topic := range topics {
		if topic.Refused {
			// It is neither connected nor missed, of which an alert would tell.
			connected.DeleteLabelValues(topic.Name)
			topicLag.DeleteLabelValues(topic.Name)
			continue
		}
		connected.WithLabelValues(topic.Name).Set(number(topic.Connected))
		if topic.Lag >= 0 {
			topicLag.WithLabelValues(topic.Name).Set(float64(topic.Lag))
		}
	}
	registered.WithLabelValues().Set(number(p.state.Registered))
	pendingOrders.WithLabelValues().Set(float64(len(p.state.Held)))
	unsent.WithLabelValues().Set(float64(p.outbox.depth()))
	oldestOrder.WithLabelValues().Set(age(p.state, p.now()).Seconds())
}

// age is for how long the oldest order has not ended; zero where all have.
func age(s *acm.State, now time.Time) (out time.Duration) {
	for _, h := range s.Held {
		out = max(out, now.Sub(h.Received))
	}
	for _, e := range s.Elements {
		if e.Order.Type != acm.NoOrder && e.Settled == nil {
			out = max(out, now.Sub(e.Order.Received))
		}
	}
	return out
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

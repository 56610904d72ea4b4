package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/watch"
)

const (
	// maxProbes is how many probes run at once, whatever the number of custom resources.
	maxProbes = 32
	// probeTimeout bounds one probe; one may be a download.
	probeTimeout = 3 * time.Minute
	// firstPause is how long after a question that failed it is asked again; the pauses grow to what the answer says.
	firstPause = 5 * time.Second
)

// probes asks what cannot be watched, such as a server in a pod (law 15), away from the workers, and wakes the custom
// resource at the end of each question. So no pass has to come back while one is under way.
type probes struct {
	clock clock.PassiveClock
	live  controller.Live
	// rendering is told when a question begins whose answer stands.
	rendering func()
	wake      func(watch.Holder)
	log       logr.Logger
	slots     chan struct{}
	// ctx ends every question; stop ends it.
	ctx  context.Context
	stop context.CancelFunc

	mu sync.Mutex
	by map[watch.Holder]map[string]*probe
}

// probe is one question and its last answer.
type probe struct {
	answer any
	// cancel ends the question that is under way or waits for a slot; nil when there is none.
	cancel context.CancelFunc
	// ended is when the last question ended; zero before.
	ended time.Time
	// retry is when a question that failed is asked again; of one that did not it is zero.
	retry    backoff.Retry
	panicked bool
}

// reply is what a pass learns of a question.
type reply struct {
	// answer is the last one, nil while there is none.
	answer any
	// due is when the question is asked again; zero for never, and while it is being asked, since its end wakes.
	due time.Time
	// asking says that the question is being asked, panicked that it was ended by a panic the last time.
	asking, panicked bool
}

func newProbes(c clock.PassiveClock, live controller.Live, rendering func(), wake func(watch.Holder), log logr.Logger) *probes {
	ctx, stop := context.WithCancel(context.Background())
	return &probes{
		clock: c, live: live, rendering: rendering, wake: wake, log: log, slots: make(chan struct{}, maxProbes), ctx: ctx, stop: stop,
		by: map[watch.Holder]map[string]*probe{},
	}
}

// ask returns what is known of a question, and asks it in the background if it is due now.
func (p *probes) ask(h watch.Holder, name string, every time.Duration, question controller.Question) reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[h] == nil {
		p.by[h] = map[string]*probe{}
	}
	one := p.by[h][name]
	if one == nil {
		one = &probe{}
		p.by[h][name] = one
	}
	due := one.due(every)
	if one.cancel == nil && (one.ended.IsZero() || !due.IsZero() && !p.clock.Now().Before(due)) {
		ctx, cancel := context.WithCancel(p.ctx)
		one.cancel = cancel
		go p.run(ctx, h, one, question, every == controller.Once)
	}
	out := reply{answer: one.answer, asking: one.cancel != nil, panicked: one.panicked}
	if !out.asking {
		out.due = due
	}
	return out
}

// due is when a question that has ended is asked again; zero for never.
func (o *probe) due(every time.Duration) time.Time {
	switch {
	case o.retry.Failures() > 0:
		return o.retry.Due()
	case every == controller.Once:
		return time.Time{}
	}
	return o.ended.Add(every)
}

// run waits for a slot and asks. A question that was dropped meanwhile is not asked, and its answer not kept.
func (p *probes) run(ctx context.Context, h watch.Holder, one *probe, question controller.Question, stands bool) {
	select {
	case <-ctx.Done():
		return
	case p.slots <- struct{}{}:
	}
	defer func() { <-p.slots }()
	if ctx.Err() != nil {
		return
	}
	if stands {
		p.rendering()
	}
	answer, panicked := p.put(ctx, h, question)
	p.mu.Lock()
	if ctx.Err() != nil {
		p.mu.Unlock()
		return
	}
	one.cancel()
	one.cancel, one.ended, one.panicked = nil, p.clock.Now(), panicked
	if !panicked {
		one.answer = answer
	}
	if longest := longestPause(answer, panicked); longest > 0 {
		one.retry.Failed(backoff.Policy{First: firstPause, Longest: longest}, "", one.ended)
	} else {
		one.retry = backoff.Retry{}
	}
	p.mu.Unlock()
	p.wake(h)
}

// put asks a question. A panic ends this question and nothing else.
func (p *probes) put(ctx context.Context, h watch.Holder, question controller.Question) (answer any, panicked bool) {
	defer func() {
		if r := recover(); r != nil {
			panicked = true
			p.log.Error(fmt.Errorf("panic: %v", r), "a question in the background panicked", "kind", h.Kind.String(),
				"namespace", h.Namespace, "name", h.Name, "stack", string(debug.Stack()))
		}
	}()
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return question(limited, p.live), false
}

// longestPause is what the pauses grow to after a question that has no answer, or one that tells of a failure; zero after any
// other.
func longestPause(answer any, panicked bool) time.Duration {
	if answer == nil || panicked {
		return controller.RetryPassing
	}
	if retryable, ok := answer.(controller.Retryable); ok {
		return retryable.Retry()
	}
	return 0
}

// keep forgets the questions of a custom resource that it no longer asks, and ends those that are under way.
func (p *probes) keep(h watch.Holder, names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := map[string]bool{}
	for _, name := range names {
		kept[name] = true
	}
	for name, one := range p.by[h] {
		if kept[name] {
			continue
		}
		if one.cancel != nil {
			one.cancel()
		}
		delete(p.by[h], name)
	}
	if len(p.by[h]) == 0 {
		delete(p.by, h)
	}
}

// questionPanicked is the problem of a custom resource one of whose questions panicked.
var questionPanicked = plan.Problem{
	Class: plan.Waiting, Reason: "InternalError", Message: "a panic of MLKeeper ended what it does in the background for this resource; " +
		"the log has the stack",
	Remedy: "report it as a bug; it is tried again with growing pauses",
}

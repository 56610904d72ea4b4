package engine

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/engine/room"
	"mlkeeper.dev/internal/engine/watch"
)

const (
	// maxProbes is how many probes run at once, whatever the number of custom resources.
	maxProbes = 32
	// probeTimeout bounds one probe; one may be a download.
	probeTimeout = 3 * time.Minute
	// unanswered is how long after a question without an answer it is asked again.
	unanswered = 5 * time.Second
)

// probes asks what cannot be watched, such as a server in a pod (law 15), away from the workers, and wakes the custom
// resource when the answer is another.
type probes struct {
	clock clock.PassiveClock
	live  room.Live
	// rendering is told when a question begins whose answer stands.
	rendering func()
	wake      func(watch.Holder)
	slots     chan struct{}

	mu sync.Mutex
	by map[watch.Holder]map[string]*probe
}

// probe is one question and its last answer.
type probe struct {
	asked   time.Time
	asking  bool
	answer  any
	dropped bool
}

func newProbes(c clock.PassiveClock, live room.Live, rendering func(), wake func(watch.Holder)) *probes {
	return &probes{
		clock: c, live: live, rendering: rendering, wake: wake, slots: make(chan struct{}, maxProbes),
		by: map[watch.Holder]map[string]*probe{},
	}
}

// ask returns the last answer, nil while there is none, when the question is due again, zero for never, and whether it is
// being asked. It asks in the background if it is due now.
func (p *probes) ask(
	h watch.Holder, name string, every time.Duration, question room.Question,
) (answer any, due time.Time, asking bool) {
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
	now := p.clock.Now()
	if every == room.Once && one.answer != nil {
		return one.answer, time.Time{}, false
	}
	once := every == room.Once
	if once {
		every = unanswered
	}
	if !one.asking && (one.asked.IsZero() || !now.Before(one.asked.Add(every))) {
		one.asked, one.asking = now, true
		if once {
			p.rendering()
		}
		go p.run(h, one, question)
	}
	return one.answer, one.asked.Add(every), one.asking
}

func (p *probes) run(h watch.Holder, one *probe, question room.Question) {
	p.slots <- struct{}{}
	defer func() { <-p.slots }()
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	answer := question(ctx, p.live)
	p.mu.Lock()
	changed := !one.dropped && !reflect.DeepEqual(answer, one.answer)
	one.answer, one.asking = answer, false
	p.mu.Unlock()
	if changed {
		p.wake(h)
	}
}

// keep forgets the questions of a custom resource that it no longer asks.
func (p *probes) keep(h watch.Holder, names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := map[string]bool{}
	for _, name := range names {
		kept[name] = true
	}
	for name, one := range p.by[h] {
		if !kept[name] {
			one.dropped = true
			delete(p.by[h], name)
		}
	}
	if len(p.by[h]) == 0 {
		delete(p.by, h)
	}
}

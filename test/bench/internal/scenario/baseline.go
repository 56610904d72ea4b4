package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mlkeeper.dev/test/bench/internal/world"
)

// queue is a queue of work without a bound, first in first out, as that of an operator is.
type queue struct {
	mu     sync.Mutex
	wake   *sync.Cond
	items  []func(context.Context) error
	closed bool
}

func newQueue() *queue {
	q := &queue{}
	q.wake = sync.NewCond(&q.mu)
	return q
}

func (q *queue) add(do func(context.Context) error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, do)
	q.wake.Signal()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake.Broadcast()
}

// next returns the next item; nil when the queue is closed.
func (q *queue) next() func(context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.wake.Wait()
	}
	if q.closed {
		return nil
	}
	do := q.items[0]
	q.items = q.items[1:]
	return do
}

// work runs workers until the queue is closed or one fails.
func (q *queue) work(ctx context.Context, workers int) error {
	group, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, q.close)
	defer stop()
	for range workers {
		group.Go(func() error {
			for do := q.next(); do != nil; do = q.next() {
				if err := do(ctx); err != nil {
					q.close()
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// baseline is an operator that knows every answer: it sends what was captured, child after child and then the accepted
// status, and the Ready status when the Deployment is Available. It reads nothing, decides nothing and keeps nothing, so
// no operator with these writes, this concurrency and this API server can be faster.
type baseline struct {
	wire  *world.Wire
	queue *queue
	stack Stack

	mu sync.Mutex
	// replays and of are by the Deployment that serves.
	replays map[string]*replay
	of      map[string]world.Service
	left    int
	done    chan struct{}
}

func newBaseline(wire *world.Wire, stack Stack, services []world.Service) *baseline {
	f := &baseline{
		wire: wire, queue: newQueue(), stack: stack, replays: map[string]*replay{}, of: map[string]world.Service{},
		left: len(services), done: make(chan struct{}),
	}
	for _, s := range services {
		f.of[s.DeploymentKey()] = s
	}
	return f
}

// made queues the stack of a custom resource.
func (f *baseline) made(s world.Service, cr world.Followed) {
	r := &replay{wire: f.wire}
	r.took(cr)
	f.mu.Lock()
	f.replays[s.DeploymentKey()] = r
	f.mu.Unlock()
	f.queue.add(func(ctx context.Context) error {
		return f.send(ctx, s, r, append(f.stack.Creates[:len(f.stack.Creates):len(f.stack.Creates)], f.stack.Accepted))
	})
}

// available queues what follows when the Deployment of a service became Available, the Ready status at last.
func (f *baseline) available(d world.Followed) {
	f.mu.Lock()
	s, ok := f.of[d.Key()]
	r := f.replays[d.Key()]
	f.mu.Unlock()
	if !ok {
		return
	}
	f.queue.add(func(ctx context.Context) error {
		err := f.send(ctx, s, r, append(f.stack.Late[:len(f.stack.Late):len(f.stack.Late)], f.stack.Ready))
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.left--; f.left == 0 {
			close(f.done)
		}
		return err
	})
}

// send sends the writes of one service, one after the other.
func (f *baseline) send(ctx context.Context, s world.Service, r *replay, writes []world.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, write := range writes {
		if _, err := r.send(ctx, f.stack.For(write, s, r.uid)); err != nil {
			return err
		}
	}
	return nil
}

// run works until every service is Ready.
func (f *baseline) run(ctx context.Context, workers int) error {
	failed := make(chan error, 1)
	go func() { failed <- f.queue.work(ctx, workers) }()
	timeout := time.After(readyTimeout)
	select {
	case err := <-failed:
		// Workers that end before the work does were stopped from outside.
		return errors.Join(err, ctx.Err())
	case <-timeout:
		f.queue.close()
		return fmt.Errorf("%d services of the baseline are not Ready after %s", f.left, readyTimeout)
	case <-f.done:
		f.queue.close()
		return <-failed
	}
}

package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/watch"
)

// probing is a set of probes on a clock of its own, and whom it woke.
type probing struct {
	*probes
	now      *testclock.FakePassiveClock
	woken    chan watch.Holder
	rendered atomic.Int32
}

func newProbing() *probing {
	out := &probing{
		now: testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), woken: make(chan watch.Holder, 100),
	}
	out.probes = newProbes(out.now, nil, func() { out.rendered.Add(1) }, func(h watch.Holder) { out.woken <- h }, logr.Discard())
	return out
}

var asker = watch.Holder{Kind: schema.GroupKind{Kind: "Tfserv"}, Namespace: "ns", Name: "x"}

// passingFailure is an answer that says whether it is to be asked for again.
type passingFailure bool

func (f passingFailure) Retry() time.Duration {
	if f {
		return controller.RetryPassing
	}
	return 0
}

func TestProbesAskInTheBackgroundAndWakeAtTheEnd(t *testing.T) {
	p := newProbing()
	var answer, asked atomic.Int32
	question := func(context.Context, controller.Live) any {
		asked.Add(1)
		return answer.Load()
	}
	answer.Store(1)
	if got := p.ask(asker, "models", time.Second, question); got.answer != nil || !got.asking {
		t.Fatalf("before the answer: %+v", got)
	}
	if got := <-p.woken; got != asker {
		t.Fatalf("woke %v", got)
	}
	if got := p.ask(asker, "models", time.Second, question); got.answer != int32(1) || got.asking || !got.due.Equal(p.now.Now().Add(time.Second)) {
		t.Fatalf("after the answer: %+v", got)
	}
	p.now.SetTime(p.now.Now().Add(time.Second))
	if got := p.ask(asker, "models", time.Second, question); got.answer != int32(1) || !got.asking {
		t.Fatalf("asked again: %+v", got)
	}
	<-p.woken // Else nobody would come back to ask a third time.
	if asked.Load() != 2 || p.rendered.Load() != 0 {
		t.Fatalf("%d questions, %d renderings", asked.Load(), p.rendered.Load())
	}
	p.keep(asker)
	if len(p.by) != 0 {
		t.Fatal("a question that nobody asks any more is kept")
	}
}

func TestProbesAreNotDueWhileTheyAreAsked(t *testing.T) {
	for name, every := range map[string]time.Duration{"once": controller.Once, "again": time.Second} {
		t.Run(name, func(t *testing.T) {
			p := newProbing()
			end := make(chan struct{})
			// More than there are slots, so that some wait for one.
			for i := range maxProbes + 8 {
				h := asker
				h.Name = string(rune('a' + i))
				question := func(context.Context, controller.Live) any {
					<-end
					return 1
				}
				p.ask(h, "models", every, question)
				p.now.SetTime(p.now.Now().Add(time.Minute))
				if got := p.ask(h, "models", every, question); !got.due.IsZero() || !got.asking {
					t.Fatalf("question %d: %+v", i, got)
				}
			}
			close(end)
			for range maxProbes + 8 {
				<-p.woken
			}
		})
	}
}

func TestProbesEndAQuestionThatNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbing()
		asked, ended := 0, false
		hangs := func(ctx context.Context, _ controller.Live) any {
			if _, limited := ctx.Deadline(); !limited {
				t.Error("a probe without a deadline")
			}
			<-ctx.Done()
			ended = true
			return 1
		}
		p.ask(asker, "hangs", time.Second, hangs)
		synctest.Wait()
		for range maxProbes - 1 {
			p.slots <- struct{}{}
		}
		p.ask(asker, "waits", time.Second, func(context.Context, controller.Live) any {
			asked++
			return 1
		})
		synctest.Wait()
		p.keep(asker)
		for range maxProbes - 1 {
			<-p.slots
		}
		synctest.Wait()
		if !ended || asked > 0 || len(p.woken) > 0 {
			t.Errorf("the question under way has ended: %t; the one that waited was asked %d times; %d were woken", ended, asked, len(p.woken))
		}
	})
}

func TestProbesEndWithTheManager(*testing.T) {
	p := newProbing()
	begun, ended := make(chan bool), make(chan bool)
	p.ask(asker, "models", time.Second, func(ctx context.Context, _ controller.Live) any {
		close(begun)
		<-ctx.Done()
		close(ended)
		return 1
	})
	<-begun
	p.stop()
	<-ended
}

func TestProbesAskOnceUntilTheyAreAnswered(t *testing.T) {
	for name, failure := range map[string]any{"no answer": nil, "an answer that tells of a failure": passingFailure(true)} {
		t.Run(name, func(t *testing.T) {
			p := newProbing()
			var answer atomic.Pointer[any]
			answer.Store(&failure)
			ask := func() reply {
				return p.ask(asker, "models", controller.Once, func(context.Context, controller.Live) any { return *answer.Load() })
			}
			var last time.Duration
			for i := range 12 {
				if got := ask(); !got.asking {
					t.Fatalf("question %d is not asked: %+v", i, got)
				}
				<-p.woken
				got := ask()
				pause := got.due.Sub(p.now.Now())
				if got.asking || pause < firstPause || pause < min(last, controller.RetryPassing) || pause > controller.RetryPassing*5/4 {
					t.Fatalf("after failure %d the pause is %s, and was %s", i, pause, last)
				}
				last = pause * 3 / 4 // Jitter adds up to a quarter.
				p.now.SetTime(got.due)
			}
			if last*4/3 < controller.RetryPassing {
				t.Fatalf("the pauses grow to %s only", last*4/3)
			}
			var good any = passingFailure(false)
			answer.Store(&good)
			ask()
			<-p.woken
			for range 3 {
				p.now.SetTime(p.now.Now().Add(time.Hour))
				if got := ask(); got.answer != good || !got.due.IsZero() || got.asking {
					t.Fatalf("after the answer: %+v", got)
				}
			}
			if p.rendered.Load() != 13 {
				t.Fatalf("%d renderings were told of, 13 were begun", p.rendered.Load())
			}
		})
	}
}

func TestAPanicEndsOneQuestionOnly(t *testing.T) {
	p := newProbing()
	var bad atomic.Bool
	question := func(context.Context, controller.Live) any {
		if bad.Load() {
			panic("of a template")
		}
		return 1
	}
	p.ask(asker, "chart", time.Second, question)
	<-p.woken
	bad.Store(true)
	p.now.SetTime(p.now.Now().Add(time.Second))
	p.ask(asker, "chart", time.Second, question)
	<-p.woken
	got := p.ask(asker, "chart", time.Second, question)
	if !got.panicked || got.answer != 1 || got.due.Before(p.now.Now().Add(firstPause)) {
		t.Fatalf("after the panic: %+v", got)
	}
	bad.Store(false)
	p.now.SetTime(got.due)
	p.ask(asker, "chart", time.Second, question)
	<-p.woken
	if got := p.ask(asker, "chart", time.Second, question); got.panicked || got.answer != 1 {
		t.Fatalf("after it passed: %+v", got)
	}
}

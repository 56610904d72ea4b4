package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"mlkeeper.dev/internal/engine/room"
	"mlkeeper.dev/internal/engine/watch"
)

// over waits for the end of a probe that tells when it answers.
func (p *probes) over(answers <-chan bool) {
	<-answers
	for range maxProbes {
		p.slots <- struct{}{} // It holds one until its answer is stored.
	}
	for range maxProbes {
		<-p.slots
	}
}

func TestProbesAskInTheBackgroundAndWakeOnAnotherAnswer(t *testing.T) {
	now := testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	woken := make(chan watch.Holder, 10)
	p := newProbes(now, nil, func() { t.Error("a question that is asked again renders") }, func(h watch.Holder) { woken <- h })
	holder := watch.Holder{Kind: schema.GroupKind{Kind: "Tfserv"}, Namespace: "ns", Name: "x"}
	var answer, asked atomic.Int32
	answers := make(chan bool, 10)
	question := func(context.Context, room.Live) any {
		defer func() { answers <- true }()
		asked.Add(1)
		return answer.Load()
	}
	ask := func() any {
		got, due, _ := p.ask(holder, "models", time.Second, question)
		if want := now.Now().Add(time.Second); due.After(want) {
			t.Fatalf("due at %s, after %s", due, want)
		}
		return got
	}

	answer.Store(1)
	if got := ask(); got != nil {
		t.Fatalf("an answer before the question: %v", got)
	}
	if got := <-woken; got != holder {
		t.Fatalf("woke %v", got)
	}
	p.over(answers)
	if got := ask(); got != int32(1) || asked.Load() != 1 {
		t.Fatalf("answer %v after %d questions", got, asked.Load())
	}
	now.SetTime(now.Now().Add(time.Second))
	ask()
	p.over(answers)
	if len(woken) != 0 || asked.Load() != 2 {
		t.Fatalf("the same answer woke somebody (%d), or was not asked for (%d)", len(woken), asked.Load())
	}

	p.keep(holder)
	if len(p.by) != 0 {
		t.Fatal("a question that nobody asks any more is kept")
	}
}

func TestProbesForgetAnAnswerThatNobodyWaitsFor(t *testing.T) {
	now := testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	p := newProbes(now, nil, func() {}, func(watch.Holder) { t.Error("woken by an answer to a dropped question") })
	holder := watch.Holder{Kind: schema.GroupKind{Kind: "Tfserv"}, Namespace: "ns", Name: "x"}
	begun, end, done := make(chan bool), make(chan bool), make(chan bool)
	p.ask(holder, "models", time.Second, func(ctx context.Context, _ room.Live) any {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("a probe without a deadline")
		}
		close(begun)
		<-end
		defer close(done)
		return 1
	})
	<-begun
	p.keep(holder)
	close(end)
	<-done
	p.slots <- struct{}{} // Waits until the probe has returned its slot, if all are taken.
}

func TestProbesAskOnceUntilTheyAreAnswered(t *testing.T) {
	now := testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	rendered := 0
	p := newProbes(now, nil, func() { rendered++ }, func(watch.Holder) {})
	holder := watch.Holder{Kind: schema.GroupKind{Kind: "Tfserv"}, Namespace: "ns", Name: "x"}
	done := make(chan bool, 10)
	var answer atomic.Value
	ask := func() (any, time.Time) {
		answer, due, _ := p.ask(holder, "models", room.Once, func(context.Context, room.Live) any {
			defer func() { done <- true }()
			return answer.Load()
		})
		return answer, due
	}
	if _, due := ask(); due.IsZero() {
		t.Fatal("a question that may stay without an answer is not due again")
	}
	p.over(done)
	if ask(); len(done) > 0 {
		t.Fatal("asked again at once")
	}
	answer.Store("yes")
	now.SetTime(now.Now().Add(unanswered))
	ask()
	p.over(done)
	for range 3 {
		now.SetTime(now.Now().Add(time.Hour))
		if got, due := ask(); got != "yes" || !due.IsZero() {
			t.Fatalf("%v, due %s", got, due)
		}
	}
	if len(done) > 0 {
		t.Fatal("asked although it was answered")
	}
	if rendered != 2 {
		t.Fatalf("%d renderings were told of, 2 were begun", rendered)
	}
}

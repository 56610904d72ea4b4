package background

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	testclock "k8s.io/utils/clock/testing"

	"mlkeeper.dev/internal/engine/controller"
)

// jobs are those of owners with names, on a clock of their own, and the owners that were told of an end.
type jobs struct {
	*Jobs[string]
	now      *testclock.FakePassiveClock
	done     chan string
	rendered atomic.Int32
}

func newJobs() *jobs {
	out := &jobs{
		now: testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), done: make(chan string, 100),
	}
	out.Jobs = New(Options[string]{
		Clock: out.now, Namespace: namespaceOf, Rendering: func() { out.rendered.Add(1) }, Done: func(owner string) { out.done <- owner }, Log: logr.Discard(),
	})
	return out
}

const owner = "ns/x"

func namespaceOf(owner string) string {
	namespace, _, _ := strings.Cut(owner, "/")
	return namespace
}

// passingFailure is a result that says whether the job is to run again.
type passingFailure bool

func (f passingFailure) Retry() time.Duration {
	if f {
		return controller.RetryPassing
	}
	return 0
}

func TestAJobRunsInTheBackgroundAndReportsItsEnd(t *testing.T) {
	p := newJobs()
	var result, runs atomic.Int32
	job := func(context.Context) any {
		runs.Add(1)
		return result.Load()
	}
	result.Store(1)
	if got := p.Get(owner, "models", time.Second, job); got.Result != nil || !got.Running {
		t.Fatalf("before the result: %+v", got)
	}
	if got := <-p.done; got != owner {
		t.Fatalf("reported %v", got)
	}
	if got := p.Get(owner, "models", time.Second, job); got.Result != int32(1) || got.Running || !got.Due.Equal(p.now.Now().Add(time.Second)) {
		t.Fatalf("after the result: %+v", got)
	}
	p.now.SetTime(p.now.Now().Add(time.Second))
	if got := p.Get(owner, "models", time.Second, job); got.Result != int32(1) || !got.Running {
		t.Fatalf("the second run: %+v", got)
	}
	<-p.done // Without it nobody would come back for a third run.
	if runs.Load() != 2 || p.rendered.Load() != 0 {
		t.Fatalf("%d runs, %d renderings", runs.Load(), p.rendered.Load())
	}
	p.Keep(owner)
	if p.Len() != 0 {
		t.Fatal("a job that nobody needs is kept")
	}
}

func TestAJobIsNotDueWhileItRuns(t *testing.T) {
	for name, every := range map[string]time.Duration{"once": controller.Once, "again": time.Second} {
		t.Run(name, func(t *testing.T) {
			p := newJobs()
			end := make(chan struct{})
			// More than there are slots, so that some wait for one.
			for i := range maxJobs + 8 {
				h := string(rune('a' + i))
				job := func(context.Context) any {
					<-end
					return 1
				}
				p.Get(h, "models", every, job)
				p.now.SetTime(p.now.Now().Add(time.Minute))
				if got := p.Get(h, "models", every, job); !got.Due.IsZero() || !got.Running {
					t.Fatalf("job %d: %+v", i, got)
				}
			}
			close(end)
			for range maxJobs + 8 {
				<-p.done
			}
		})
	}
}

func TestADroppedJobEndsAndDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newJobs()
		runs, ended := 0, false
		hangs := func(ctx context.Context) any {
			if _, limited := ctx.Deadline(); !limited {
				t.Error("a run without a deadline")
			}
			<-ctx.Done()
			ended = true
			return 1
		}
		p.Get(owner, "hangs", time.Second, hangs)
		synctest.Wait()
		for range maxOfNamespace - 1 {
			p.questions.Acquire(t.Context(), "ns", 1)
		}
		p.Get(owner, "waits", time.Second, func(context.Context) any {
			runs++
			return 1
		})
		synctest.Wait()
		p.Keep(owner)
		for range maxOfNamespace - 1 {
			p.questions.Release("ns", 1)
		}
		synctest.Wait()
		if !ended || runs > 0 || len(p.done) > 0 {
			t.Errorf("the run under way has ended: %t; the one that waited ran %d times; %d ends were reported", ended, runs, len(p.done))
		}
	})
}

func TestJobsEndWithTheManager(t *testing.T) {
	p := newJobs()
	begun, ended := make(chan bool), make(chan bool)
	p.Get(owner, "models", time.Second, func(ctx context.Context) any {
		close(begun)
		<-ctx.Done()
		close(ended)
		return 1
	})
	<-begun
	p.Stop()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the job goes on")
	}
}

func TestAJobRunsOnceUntilItSucceeds(t *testing.T) {
	for name, failure := range map[string]any{"no result": nil, "a result that reports a failure": passingFailure(true)} {
		t.Run(name, func(t *testing.T) {
			p := newJobs()
			var result atomic.Pointer[any]
			result.Store(&failure)
			get := func() State {
				return p.Render(owner, "models", controller.Once, func(context.Context) any { return *result.Load() })
			}
			var last time.Duration
			for i := range 12 {
				if got := get(); !got.Running {
					t.Fatalf("run %d does not begin: %+v", i, got)
				}
				<-p.done
				got := get()
				pause := got.Due.Sub(p.now.Now())
				if got.Running || pause < firstPause || pause < min(last, controller.RetryPassing) || pause > controller.RetryPassing*5/4 {
					t.Fatalf("after failure %d the pause is %s, and was %s", i, pause, last)
				}
				last = pause * 3 / 4 // Jitter adds up to a quarter.
				p.now.SetTime(got.Due)
			}
			if last*4/3 < controller.RetryPassing {
				t.Fatalf("the pauses grow to %s only", last*4/3)
			}
			var good any = passingFailure(false)
			result.Store(&good)
			get()
			<-p.done
			for range 3 {
				p.now.SetTime(p.now.Now().Add(time.Hour))
				if got := get(); got.Result != good || !got.Due.IsZero() || got.Running {
					t.Fatalf("after the result: %+v", got)
				}
			}
			if p.rendered.Load() != 13 {
				t.Fatalf("%d renderings were reported, 13 began", p.rendered.Load())
			}
		})
	}
}

func TestAPanicEndsOneRunOnly(t *testing.T) {
	p := newJobs()
	var bad atomic.Bool
	job := func(context.Context) any {
		if bad.Load() {
			panic("of a template")
		}
		return 1
	}
	p.Get(owner, "chart", time.Second, job)
	<-p.done
	bad.Store(true)
	p.now.SetTime(p.now.Now().Add(time.Second))
	p.Get(owner, "chart", time.Second, job)
	<-p.done
	got := p.Get(owner, "chart", time.Second, job)
	if !got.Panicked || got.Result != 1 || got.Due.Before(p.now.Now().Add(firstPause)) {
		t.Fatalf("after the panic: %+v", got)
	}
	bad.Store(false)
	p.now.SetTime(got.Due)
	p.Get(owner, "chart", time.Second, job)
	<-p.done
	if got := p.Get(owner, "chart", time.Second, job); got.Panicked || got.Result != 1 {
		t.Fatalf("after it passed: %+v", got)
	}
}

func TestReleasedResultsAreComputedAgain(t *testing.T) {
	p := newJobs()
	var runs atomic.Int32
	job := func(context.Context) any { return runs.Add(1) }
	p.Get(owner, "chart", controller.Once, job)
	<-p.done
	end := make(chan struct{})
	p.Get(owner, "hangs", controller.Once, func(context.Context) any {
		<-end
		return 7
	})
	p.Release(owner)
	if got := p.Get(owner, "chart", controller.Once, job); got.Result != nil || !got.Running {
		t.Errorf("released: %+v", got)
	}
	<-p.done
	close(end)
	<-p.done
	if got := p.Get(owner, "hangs", controller.Once, job); got.Result != 7 || runs.Load() != 2 {
		t.Errorf("a job that ran meanwhile: %+v, %d runs", got, runs.Load())
	}
	p.Release(owner)
	if p.Len() != 0 {
		t.Error("an owner without jobs is kept")
	}
}

// failed is a result that tells why its job failed.
type failed string

func (f failed) Cause() string { return string(f) }

// TestEachFailureIsCountedByItsCause: also that of a job which is not asked for again soon.
func TestEachFailureIsCountedByItsCause(t *testing.T) {
	p := newJobs()
	causes := make(chan string, 100)
	p.Failed = func(of, cause string) { causes <- of + " " + cause }
	for name, c := range map[string]struct {
		job  Job
		want string
	}{
		"a reason":       {func(context.Context) any { return failed("NotFound") }, owner + " NotFound"},
		"no failure":     {func(context.Context) any { return failed("") }, ""},
		"asked again":    {func(context.Context) any { return passingFailure(true) }, ""},
		"another result": {func(context.Context) any { return 1 }, ""},
		"no result":      {func(context.Context) any { return nil }, owner + " NoResult"},
		"a panic":        {func(context.Context) any { panic("bug") }, owner + " Panic"},
	} {
		p.Get(owner, name, time.Second, c.job)
		<-p.done
		got := ""
		select {
		case got = <-causes:
		default:
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Package background runs what takes long for custom resources away from the workers, such as a download, a rendering or a request to a
// server in a pod. It owns the jobs, how many run at once, and when each runs again. It knows nothing of what a job does, and touches
// no cluster.
package background

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/parallel"
)

const (
	// maxJobs is how many questions run at once, whatever the number of custom resources, and how many renderings beside them. maxOfNamespace is
	// how many of either are of custom resources of one namespace. The last keptFree are for those of namespaces of which none runs, so that
	// few namespaces with servers that hardly answer do not hold all.
	maxJobs        = 32
	maxOfNamespace = maxJobs / 4
	keptFree       = maxJobs / 4
	// timeout bounds one run of a job, which may be a download, without what it waits for a slot or for what namespaces share. That has no bound
	// of its own: who is told of it keeps his turn, and one that was given up would lose it. A job in parts has it for each of them (limit.Again).
	timeout = 3 * time.Minute
	// firstPause is how long after a failure a job runs again; the pauses grow to what its result says.
	firstPause = 5 * time.Second
)

// Job computes a result. It ends when its context is done.
type Job func(context.Context) any

// Options configure Jobs.
type Options[Owner comparable] struct {
	Clock clock.PassiveClock
	// Namespace returns the namespace that the jobs of an owner count for.
	Namespace func(Owner) string
	// Done is called after each run of a job, with its owner, and once a run has waited for as long as it may work.
	Done func(Owner)
	// Rendering is called when a rendering begins, which makes much garbage.
	Rendering func()
	// Failed is called after each run that failed, with the owner and why; nil where nobody counts them.
	Failed func(owner Owner, cause string)
	Log    logr.Logger
}

// Jobs are the jobs of all owners, each by its name.
type Jobs[Owner comparable] struct {
	Options[Owner]
	// questions and renderings are the slots of both: a rendering may wait for a server of a user for minutes, which no question does.
	questions, renderings *limit.Limit
	// ctx ends every job; stop ends it.
	ctx  context.Context
	stop context.CancelFunc

	mu sync.Mutex
	by map[Owner]map[string]*state
}

// state is what is known of one job.
type state struct {
	result any
	// cancel ends the run that is under way or waits for a slot; nil when there is none.
	cancel context.CancelFunc
	// ended is when the last run ended; zero before.
	ended time.Time
	// retry is when a job that failed runs again; zero for one that succeeded.
	retry    backoff.Retry
	panicked bool
	// waits says that the run under way has waited for long.
	waits bool
}

// State is what a reconciliation learns of a job.
type State struct {
	// Result is that of the last run, nil while there is none.
	Result any
	// Due is when the job runs again; zero for never, and while it runs, since Done is called at its end.
	Due time.Time
	// Running says that the job runs or waits for a slot, Waits that it has waited for longer than it may work, for that or for what namespaces
	// share, and Panicked that the last run was ended by a panic.
	Running, Waits, Panicked bool
}

// New returns Jobs that run until Stop.
func New[Owner comparable](opts Options[Owner]) *Jobs[Owner] {
	ctx, stop := context.WithCancel(context.Background())
	return &Jobs[Owner]{
		Options: opts, ctx: ctx, stop: stop, by: map[Owner]map[string]*state{},
		questions:  limit.NewKeeping(maxJobs, maxOfNamespace, keptFree),
		renderings: limit.NewKeeping(maxJobs, maxOfNamespace, keptFree),
	}
}

// Stop ends all jobs.
func (j *Jobs[Owner]) Stop() { j.stop() }

// Get returns what is known of a job, and runs it in the background if it is due now: controller.Once has it run until it succeeds, any
// other interval again and again.
func (j *Jobs[Owner]) Get(owner Owner, name string, every time.Duration, job Job) State {
	return j.get(j.questions, owner, name, every, job)
}

// Render is Get for a job that fetches or renders, which waits for no question, and no question for it.
func (j *Jobs[Owner]) Render(owner Owner, name string, every time.Duration, job Job) State {
	return j.get(j.renderings, owner, name, every, job)
}

func (j *Jobs[Owner]) get(slots *limit.Limit, owner Owner, name string, every time.Duration, job Job) State {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.by[owner] == nil {
		j.by[owner] = map[string]*state{}
	}
	one := j.by[owner][name]
	if one == nil {
		one = &state{}
		j.by[owner][name] = one
	}
	due := one.due(every)
	if one.cancel == nil && (one.ended.IsZero() || !due.IsZero() && !j.Clock.Now().Before(due)) {
		ctx, cancel := context.WithCancel(j.ctx)
		one.cancel = cancel
		go j.run(ctx, slots, owner, one, job)
	}
	out := State{Result: one.result, Running: one.cancel != nil, Waits: one.waits, Panicked: one.panicked}
	if !out.Running {
		out.Due = due
	}
	return out
}

// due is when a job that has ended runs again; zero for never.
func (s *state) due(every time.Duration) time.Time {
	switch {
	case s.retry.Failures() > 0:
		return s.retry.Due()
	case every == controller.Once:
		return time.Time{}
	}
	return s.ended.Add(every)
}

// run waits for a slot and runs a job. A job that was dropped meanwhile does not run, and its result is not kept.
func (j *Jobs[Owner]) run(ctx context.Context, slots *limit.Limit, owner Owner, one *state, job Job) {
	namespace := j.Namespace(owner)
	limited, cancel := limit.WithTimeout(log.IntoContext(ctx, j.Log.WithValues("owner", owner)), timeout, func() { j.noteWait(ctx, owner, one) })
	defer cancel()
	if !slots.Acquire(limited, namespace, 1) {
		return
	}
	defer slots.Release(namespace, 1)
	if ctx.Err() != nil {
		return
	}
	if slots == j.renderings {
		j.Rendering()
	}
	result, panicked := recovered(limited, job)
	j.mu.Lock()
	if ctx.Err() != nil {
		j.mu.Unlock()
		return
	}
	one.cancel()
	one.cancel, one.ended, one.panicked, one.waits = nil, j.Clock.Now(), panicked, false
	if !panicked {
		one.result = result
	}
	if longest := longestPause(result, panicked); longest > 0 {
		one.retry.Failed(backoff.Policy{First: firstPause, Longest: longest}, "", one.ended)
	} else {
		one.retry = backoff.Retry{}
	}
	j.mu.Unlock()
	if cause := causeOf(result, panicked); cause != "" && j.Failed != nil {
		j.Failed(owner, cause)
	}
	j.Done(owner)
}

// noteWait has the owner learn that a run waits.
func (j *Jobs[Owner]) noteWait(ctx context.Context, owner Owner, one *state) {
	j.mu.Lock()
	if ctx.Err() != nil {
		j.mu.Unlock()
		return
	}
	one.waits = true
	j.mu.Unlock()
	j.Done(owner)
}

// recovered runs a job. A panic ends this run and nothing else.
func recovered(ctx context.Context, job Job) (result any, panicked bool) {
	err := parallel.Recovered(ctx, func(ctx context.Context) error {
		result = job(ctx)
		return nil
	})
	return result, err != nil
}

// longestPause is what the pauses grow to after a run without a result, or with one that reports a failure; zero after any other.
func longestPause(result any, panicked bool) time.Duration {
	if result == nil || panicked {
		return controller.RetryPassing
	}
	if retryable, ok := result.(controller.Retryable); ok {
		return retryable.Retry()
	}
	return 0
}

// The causes of failures of which a result says nothing.
const causePanic, causeNoResult = "Panic", "NoResult"

// causeOf is why a run failed; empty where it did not, and where a result that is asked for again does not call that a failure.
func causeOf(result any, panicked bool) string {
	switch {
	case panicked:
		return causePanic
	case result == nil:
		return causeNoResult
	}
	if failing, ok := result.(controller.Failing); ok {
		return failing.Cause()
	}
	return ""
}

// Keep drops the jobs of an owner but for those named, and ends the runs that are under way.
func (j *Jobs[Owner]) Keep(owner Owner, names ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	kept := map[string]bool{}
	for _, name := range names {
		kept[name] = true
	}
	for name, one := range j.by[owner] {
		if kept[name] {
			continue
		}
		if one.cancel != nil {
			one.cancel()
		}
		delete(j.by[owner], name)
	}
	if len(j.by[owner]) == 0 {
		delete(j.by, owner)
	}
}

// Release drops what the jobs of an owner gave that are not running: each runs again when it is asked for.
func (j *Jobs[Owner]) Release(owner Owner) {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.by[owner], func(_ string, one *state) bool { return one.cancel == nil })
	if len(j.by[owner]) == 0 {
		delete(j.by, owner)
	}
}

// Len is how many owners have jobs.
func (j *Jobs[Owner]) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.by)
}

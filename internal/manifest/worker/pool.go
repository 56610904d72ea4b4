package worker

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"mlkeeper.dev/internal/limit"
)

const (
	// maxMemory is what a worker may take beyond what the binary takes by itself, in bytes.
	maxMemory = 256 << 20
	// Share is what a worker takes of the memory of all fetches and renders: its own, what the binary takes by itself, and its result.
	Share = maxMemory + 64<<20
	// maxOutput bounds what a worker sends, in bytes, and maxResult what its objects take once they are decoded.
	maxOutput, maxResult = 128 << 20, 96 << 20
	// maxWait bounds how long a worker lives that takes no processor time.
	maxWait = 5 * time.Minute
	// maxStderr bounds what is kept of what a worker writes to stderr, in bytes.
	maxStderr = 16 << 10
)

// ErrUnavailable says that nothing was rendered through no fault of what was to be rendered.
var ErrUnavailable = errors.New("it could not be rendered now")

// LimitError says that what was rendered took more than it may, which may be another time where the machine is busy.
type LimitError struct {
	// What says what it did, as in "rendering it takes longer than 30s".
	What string
	// Took is the processor time of the worker; zero where none was at work.
	Took time.Duration
}

// Error implements error.
func (e *LimitError) Error() string { return e.What }

// KilledError says that the kernel ended the worker, such as for lack of memory. It is an ErrUnavailable, since others may have taken the
// memory.
type KilledError struct {
	// Took is the processor time of the worker.
	Took time.Duration
}

// KilledRemedy is what to do where the kernel ends one worker after the other.
const KilledRemedy = "raise the memory limit of the operator's pod, or lower --work-memory"

// Error implements error.
func (e *KilledError) Error() string {
	return ErrUnavailable.Error() + ": the kernel has ended the process that renders it, such as for lack of memory"
}

// Unwrap makes it an ErrUnavailable.
func (e *KilledError) Unwrap() error { return ErrUnavailable }

// Pool starts workers. Its zero value runs one at a time.
type Pool struct {
	// Memory is what the workers share with whatever else takes memory; nil for a limit of this pool alone.
	Memory *limit.Limit

	once sync.Once
}

// Default is the pool of processes that have no other, such as the commands.
var Default = &Pool{}

// Job is what one worker does.
type Job struct {
	// Kind is that of Serve, Namespace the namespace that the worker counts for.
	Kind, Namespace string
	// Input is sent first, and Handlers answer the requests of the worker, one after the other.
	Input    any
	Handlers map[string]Handler
	// StepTime is how much processor time the worker may take from one call of Parent.NextStep to the next, and TotalTime in all, in whole
	// seconds.
	StepTime, TotalTime time.Duration
}

// Handler answers the requests of one method.
type Handler func(*Run, *gob.Decoder) (any, error)

// Handle makes a handler of a function.
func Handle[A, R any](f func(*Run, A) (R, error)) Handler {
	return func(r *Run, d *gob.Decoder) (any, error) {
		var args A
		if err := d.Decode(&args); err != nil {
			return nil, fmt.Errorf("%w: %w", errEnded, err)
		}
		return f(r, args)
	}
}

// Run is a worker at work.
type Run struct {
	job Job
	// used is the processor time that the worker had taken at its last request.
	used time.Duration
	// took is the processor time of the worker that has ended.
	took time.Duration
}

// Used is the processor time that the worker had taken at its last request.
func (r *Run) Used() time.Duration { return r.used }

// errEnded says that a worker ended in the middle of an exchange.
var errEnded = errors.New("the worker has ended")

// Run has a worker do a job, as soon as there is memory for one. The error is a LimitError where the bounds of the worker ended it,
// ErrUnavailable where nothing could be done, and else says how it ended.
func (p *Pool) Run(ctx context.Context, job Job) error {
	p.once.Do(func() {
		if p.Memory == nil {
			p.Memory = limit.New(Share, Share)
		}
	})
	if !p.Memory.Acquire(ctx, job.Namespace, Share) {
		return unavailable(context.Cause(ctx))
	}
	defer p.Memory.Release(job.Namespace, Share)
	if cause := context.Cause(ctx); cause != nil {
		return unavailable(cause)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxWait, fmt.Errorf("it waited for most of %s", maxWait))
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	run := &Run{job: job}
	err := run.do(ctx, end)
	if limited := new(LimitError); errors.As(err, &limited) {
		limited.Took = run.took
	}
	return err
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

// do starts the process, answers until it ends, and says how it did.
func (r *Run) do(ctx context.Context, end context.CancelCauseFunc) error {
	stderr := &stderrTail{}
	process, to, from, err := r.start(ctx, stderr)
	if err != nil {
		return unavailable(err)
	}
	// Where a handler panics, too, no process is left. A second wait does nothing.
	defer func() {
		end(nil)
		_ = process.Wait()
	}()
	bounded := &io.LimitedReader{R: from, N: maxOutput}
	err = r.answer(gob.NewEncoder(to), gob.NewDecoder(bounded))
	if err != nil {
		end(err) // Nothing, where there is a cause already.
	}
	_ = to.Close()
	ended, cause := process.Wait(), context.Cause(ctx)
	r.took = process.ProcessState.UserTime() + process.ProcessState.SystemTime()
	switch {
	case err == nil && ended == nil:
		return nil
	case err != nil && !errors.Is(err, errEnded):
		return err
	case bounded.N <= 0:
		return &LimitError{What: fmt.Sprintf("rendering it gives more than %d MiB", maxOutput>>20)}
	case stderr.outOfMemory():
		return &LimitError{What: fmt.Sprintf("rendering it takes more than %d MiB of memory", maxMemory>>20)}
	case cause != nil && !errors.Is(cause, errEnded):
		return unavailable(cause)
	}
	return r.verdict(process.ProcessState, errors.Join(ended, err))
}

// start starts the process.
func (r *Run) start(ctx context.Context, stderr io.Writer) (process *exec.Cmd, to io.WriteCloser, from io.Reader, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	process = exec.CommandContext(ctx, self, "renders")
	// One processor is all that an endless template gets, and what is collected less often costs it less. A trace would only hide the reason
	// of an end.
	process.Env = []string{kindVariable + "=" + r.job.Kind, "GOMAXPROCS=1", "GOTRACEBACK=none", "GOGC=200"}
	process.Dir, process.Stderr, process.WaitDelay = "/", stderr, time.Second
	if to, err = process.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	if from, err = process.StdoutPipe(); err != nil {
		return nil, nil, nil, err
	}
	keepDescriptors()
	return process, to, from, process.Start()
}

// verdict says how a worker ended that nobody ended here.
func (r *Run) verdict(state *os.ProcessState, err error) error {
	switch {
	case state.ExitCode() == exitCPUTime:
		return &LimitError{What: fmt.Sprintf("rendering it takes more than %s of processor time", min(r.job.StepTime, r.job.TotalTime))}
	case r.took >= r.job.TotalTime:
		return &LimitError{What: fmt.Sprintf("rendering it takes more than %s of processor time", r.job.TotalTime)}
	case !state.Exited():
		return &KilledError{Took: r.took}
	}
	return fmt.Errorf("rendering it ended too early: %w", err)
}

// answer sends the input, and answers until the worker has no more requests. The error is errEnded where it ended before.
func (r *Run) answer(to *gob.Encoder, from *gob.Decoder) error {
	bounds := limits{Memory: maxMemory, StepTime: uint64(r.job.StepTime / time.Second), TotalTime: uint64(r.job.TotalTime / time.Second)}
	if err := errors.Join(to.Encode(bounds), to.Encode(r.job.Input)); err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	for {
		var asked request
		if err := from.Decode(&asked); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%w: %w", errEnded, err)
		}
		r.used = asked.Used
		handler := r.job.Handlers[asked.Method]
		if handler == nil {
			return fmt.Errorf("bug: the worker asks for %s, which nobody answers", asked.Method)
		}
		result, err := handler(r, from)
		if errors.Is(err, errEnded) || errors.Is(err, ErrUnavailable) || errors.As(err, new(*LimitError)) {
			return err
		}
		if err != nil {
			err = to.Encode(reply{Error: err.Error()})
		} else {
			err = errors.Join(to.Encode(reply{}), to.Encode(result))
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errEnded, err)
		}
	}
}

// stderrTail keeps the end of what a worker writes to stderr. It is never shown: it may quote what is rendered.
type stderrTail struct{ bytes.Buffer }

// Write implements io.Writer.
func (w *stderrTail) Write(p []byte) (int, error) {
	w.Buffer.Write(p[max(0, len(p)-maxStderr):])
	if over := w.Len() - maxStderr; over > 0 {
		w.Next(over)
	}
	return len(p), nil
}

// outOfMemory says that the worker ran out of memory. Go tells it in several ways, by what was asked for last.
func (w *stderrTail) outOfMemory() bool {
	for _, words := range []string{"out of memory", "cannot allocate memory", "stack exceeds", "newosproc"} {
		if strings.Contains(w.String(), words) {
			return true
		}
	}
	return false
}

package helm

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
)

const (
	// maxMemory is what a worker may take beyond what the binary takes by itself, in bytes.
	maxMemory = 256 << 20
	// maxStack bounds the stack of a template that calls itself, in bytes.
	maxStack = 64 << 20
	// maxStderr bounds what is read of the last words of a worker, in bytes.
	maxStderr = 16 << 10
)

// workerEnv is the variable of the environment that makes a process a worker.
const workerEnv = "MLKEEPER_RENDERS_A_CHART"

// slots bounds the workers at one time: together they take a multiple of maxMemory.
var slots = make(chan struct{}, 1)

// ErrUnavailable says that a chart was not rendered through no fault of its own.
var ErrUnavailable = errors.New("the chart could not be rendered now")

// init makes a process a worker before main, so that every binary that renders charts can start itself as one, those of tests
// too.
func init() {
	if os.Getenv(workerEnv) == "" {
		return
	}
	// What a library prints must not come between the messages.
	out := os.Stdout
	os.Stdout = os.Stderr
	if err := work(os.Stdin, out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// renderInWorker renders a chart in a process of its own. Templates are programs: nothing within a process can stop one that goes
// on for ever, or bound what it takes, and memory that runs out ends the process that it runs out in.
func renderInWorker(ctx context.Context, in Input, within time.Duration) (Rendered, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
	}
	if cause := context.Cause(ctx); cause != nil {
		return Rendered{}, fmt.Errorf("%w: %w", ErrUnavailable, cause)
	}
	late := fmt.Errorf("it takes longer than %s: simplify its templates", within)
	ctx, cancel := context.WithTimeoutCause(ctx, within, late)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return Rendered{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	stderr := &stderrBuffer{}
	worker := exec.CommandContext(ctx, self, "renders", in.Chart.Name)
	// One processor is enough for a chart, and all that an endless one gets.
	worker.Env, worker.Stderr, worker.WaitDelay = []string{workerEnv + "=1", "GOMAXPROCS=1"}, stderr, time.Second
	to, err := worker.StdinPipe()
	if err != nil {
		return Rendered{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	from, err := worker.StdoutPipe()
	if err != nil {
		return Rendered{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err := worker.Start(); err != nil {
		return Rendered{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	out, err := serveWorker(ctx, in, within, to, from)
	cause := context.Cause(ctx)
	cancel()
	ended := worker.Wait()
	switch {
	case !errors.Is(err, errWorker):
		return out, err
	case errors.Is(cause, late):
		return Rendered{}, fmt.Errorf("chart %s: %w", in.Chart.Name, late)
	case cause != nil:
		return Rendered{}, fmt.Errorf("%w: %w", ErrUnavailable, cause)
	case stderr.outOfMemory():
		return Rendered{}, fmt.Errorf("chart %s: rendering it takes more than %d MiB of memory: simplify its templates", in.Chart.Name, maxMemory>>20)
	}
	return Rendered{}, fmt.Errorf("chart %s: rendering it ended too early (%w): try helm template on it", in.Chart.Name, ended)
}

// stderrBuffer keeps the beginning of what a worker says about its end. It is never shown: it may quote what templates hold.
type stderrBuffer struct{ bytes.Buffer }

// Write implements io.Writer.
func (w *stderrBuffer) Write(p []byte) (int, error) {
	if left := maxStderr - w.Len(); left > 0 {
		w.Buffer.Write(p[:min(left, len(p))])
	}
	return len(p), nil
}

// outOfMemory says that the worker ran out of memory. Go tells it in several ways, by what was asked for last.
func (w *stderrBuffer) outOfMemory() bool {
	for _, words := range []string{"out of memory", "cannot allocate memory", "stack exceeds", "newosproc"} {
		if strings.Contains(w.String(), words) {
			return true
		}
	}
	return false
}

// work is the life of a worker: one chart.
func work(in io.Reader, out io.Writer) error {
	if err := limitMemory(maxMemory); err != nil {
		return err
	}
	debug.SetMemoryLimit(maxMemory / 2)
	debug.SetMaxStack(maxStack)
	c := &parent{requests: gob.NewEncoder(out), answers: gob.NewDecoder(in)}
	j, chart, err := c.readJob()
	if err != nil {
		return err
	}
	// Whoever started it ends it; if that process is gone, nobody does.
	time.AfterFunc(j.Within+time.Second, func() { os.Exit(1) })
	values := map[string]any{}
	if err := json.Unmarshal(j.Values, &values); err != nil {
		return err
	}
	rendered, err := render(context.Background(), Input{
		Chart: chart, Release: j.Release, Namespace: j.Namespace, Values: values, Kept: c, Lookup: c.Lookup,
		Revision: j.Revision, Upgrade: j.Upgrade,
		Cluster: Cluster{Version: j.Version, Serves: c.Serves, All: c.All},
	})
	return c.requests.Encode(message{Kind: resultMessage, Result: resultOf(rendered, err)})
}

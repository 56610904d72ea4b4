package worker

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// kindVariable is the variable of the environment that makes a process a worker of the kind that it names.
const kindVariable = "MLKEEPER_WORKER"

// maxStack bounds the stack of a worker, such as of a template that calls itself, in bytes.
const maxStack = 64 << 20

// exitCPUTime is the exit status of a worker that took too much processor time.
const exitCPUTime = 3

// limits are the bounds of a worker, the first that it is told.
type limits struct {
	// Memory is in bytes, StepTime and TotalTime are seconds of processor time.
	Memory, StepTime, TotalTime uint64
}

// Parent is the process that started a worker, as the worker has it.
type Parent struct {
	to     *gob.Encoder
	from   *gob.Decoder
	limits limits
}

// Serve makes this process a worker, if it was started as one of the kind, and does not return then. It is called by an init, before
// main, so that every binary that renders can start itself, those of tests too.
func Serve(kind string, work func(*Parent) error) {
	if os.Getenv(kindVariable) != kind {
		return
	}
	// What a library prints must not come between the messages.
	out := os.Stdout
	os.Stdout = os.Stderr
	err := serve(os.Stdin, out, work)
	// Where nothing refers to them any more, they are closed.
	runtime.KeepAlive(out)
	runtime.KeepAlive(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(in io.Reader, out io.Writer, work func(*Parent) error) error {
	c := &Parent{to: gob.NewEncoder(out), from: gob.NewDecoder(in)}
	if err := c.Read(&c.limits); err != nil {
		return err
	}
	if err := setLimits(c.limits); err != nil {
		return err
	}
	debug.SetMemoryLimit(int64(c.limits.Memory / 4 * 3)) //nolint:gosec // a bound on memory is no larger than an int64
	debug.SetMaxStack(maxStack)
	if err := c.NextStep(); err != nil {
		return err
	}
	return work(c)
}

// NextStep begins a step of the work, which has processor time of its own.
func (c *Parent) NextStep() error {
	before := uint64((cpuTime() + time.Second - 1) / time.Second) //nolint:gosec // time that was taken is not negative
	return limitCPU(before+c.limits.StepTime, c.limits.TotalTime)
}

// Read reads what the parent sends at the beginning.
func (c *Parent) Read(input any) error { return c.from.Decode(input) }

// request is the beginning of a request; the arguments follow. Used is the processor time that the worker has taken so far.
type request struct {
	Method string
	Used   time.Duration
}

// reply is the beginning of a response; the result follows unless there is an error.
type reply struct{ Error string }

// Call sends a request to the parent. It panics where nobody is left who answers.
func Call[R, A any](c *Parent, method string, args A) (R, error) {
	var result R
	var r reply
	err := errors.Join(c.to.Encode(request{Method: method, Used: cpuTime()}), c.to.Encode(args))
	if err == nil {
		err = c.from.Decode(&r)
	}
	if err == nil && r.Error != "" {
		return result, errors.New(r.Error)
	}
	if err == nil {
		err = c.from.Decode(&result)
	}
	if err != nil {
		panic(fmt.Sprintf("%s: %v", method, err))
	}
	return result, nil
}

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

// variable is the variable of the environment that makes a process a worker of the kind that it names.
const variable = "MLKEEPER_WORKER"

// maxStack bounds the stack of a worker, such as of a template that calls itself, in bytes.
const maxStack = 64 << 20

// exitLate is the exit status of a worker that took too much processor time.
const exitLate = 3

// limits are the bounds of a worker, the first that it is told.
type limits struct {
	// Memory is in bytes, Piece and Total are seconds of processor time.
	Memory, Piece, Total uint64
}

// Caller is what a worker has of the process that started it.
type Caller struct {
	to     *gob.Encoder
	from   *gob.Decoder
	limits limits
}

// Serve makes this process a worker, if it was started as one of the kind, and does not return then. It is called by an init, before
// main, so that every binary that renders can start itself, those of tests too.
func Serve(kind string, work func(*Caller) error) {
	if os.Getenv(variable) != kind {
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

func serve(in io.Reader, out io.Writer, work func(*Caller) error) error {
	c := &Caller{to: gob.NewEncoder(out), from: gob.NewDecoder(in)}
	if err := c.Read(&c.limits); err != nil {
		return err
	}
	if err := confine(c.limits); err != nil {
		return err
	}
	debug.SetMemoryLimit(int64(c.limits.Memory / 4 * 3)) //nolint:gosec // a bound on memory is no larger than an int64
	debug.SetMaxStack(maxStack)
	if err := c.Next(); err != nil {
		return err
	}
	return work(c)
}

// Next begins a piece of the work, which has time of its own.
func (c *Caller) Next() error {
	begun := uint64((used() + time.Second - 1) / time.Second) //nolint:gosec // time that was taken is not negative
	return confinePiece(begun+c.limits.Piece, c.limits.Total)
}

// Read reads what the caller sends at the beginning.
func (c *Caller) Read(input any) error { return c.from.Decode(input) }

// request is the beginning of a question; the arguments follow. Used is the processor time that the worker has taken so far.
type request struct {
	Method string
	Used   time.Duration
}

// reply is the beginning of an answer; the result follows unless there is an error.
type reply struct{ Error string }

// Call asks the caller something. It panics where nobody is left who answers.
func Call[R, A any](c *Caller, method string, args A) (R, error) {
	var result R
	var r reply
	err := errors.Join(c.to.Encode(request{Method: method, Used: used()}), c.to.Encode(args))
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

package harness

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stopTimeout is how long a manager may take to end.
const stopTimeout = 30 * time.Second

// running is a manager that was started.
type running struct {
	cancel context.CancelFunc
	// ended is closed when the manager has ended, with err.
	ended chan struct{}
	err   error
}

// start starts a manager.
func start(manager func(context.Context) error) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = manager(ctx)
	}()
	return r
}

// died says why the manager ended although nobody stopped it, and is nil while it runs.
func (r *running) died() error {
	select {
	case <-r.ended:
		return fmt.Errorf("the manager ended before it was stopped: %w", cause(r.err))
	default:
		return nil
	}
}

// stop stops the manager, and says what went wrong before that or then.
func (r *running) stop() error {
	err := r.died()
	r.cancel()
	if err != nil {
		return err
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-r.ended:
		if r.err != nil {
			return fmt.Errorf("the manager did not stop cleanly: %w", r.err)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("the manager did not stop within %s", stopTimeout)
	}
}

// cause is why a manager ended by itself.
func cause(err error) error {
	if err == nil {
		return errors.New("it gave no reason")
	}
	return err
}

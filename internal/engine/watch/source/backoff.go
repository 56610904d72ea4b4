package source

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"mlkeeper.dev/internal/engine/backoff"
)

// gracePeriod is how long a watch that was allowed before may be forbidden before it is reported. An API server that has just
// started forbids everything until it has read the roles, which took half a minute with 30,000 objects on two cores.
const gracePeriod = time.Minute

var forbiddenRetry = backoff.Unwatched

// Backoff delays the retries of a watch that is forbidden. The backoff of a reflector ends at one minute. That is too short for
// a permission that may never be granted, and a longer one would delay the retries after every other error. So forbidden
// watches wait here in addition.
type Backoff struct {
	// OnChange is called when the watch becomes forbidden and when it is allowed again. It may be nil, and must be set before
	// the first use.
	OnChange func()

	clock clock.Clock
	log   logr.Logger

	mu    sync.Mutex
	retry backoff.Retry
	// succeeded says that an attempt has succeeded; forbiddenSince is when the attempts after it began to be forbidden.
	succeeded      bool
	forbiddenSince time.Time
	forbidden      error
	// lastError is the error of the last attempt; nil after a success.
	lastError error
}

// NewBackoff returns a Backoff without a delay.
func NewBackoff(c clock.Clock, log logr.Logger) *Backoff {
	return &Backoff{clock: c, log: log}
}

// Forbidden returns the error of a forbidden watch, or nil. A watch that was allowed before is reported after the grace period.
func (b *Backoff) Forbidden() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.forbidden
}

// LastError returns the error of the last attempt, forbidden or not; nil after a success.
func (b *Backoff) LastError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastError
}

// wait waits until the next attempt is due.
func (b *Backoff) wait(ctx context.Context) error {
	b.mu.Lock()
	pause := b.retry.Due().Sub(b.clock.Now())
	b.mu.Unlock()
	if pause <= 0 {
		return ctx.Err()
	}
	timer := b.clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// observe records the result of an attempt. An error other than Forbidden says nothing about the permission, so it leaves the
// delay unchanged. refused says that the watch counts as refused.
func (b *Backoff) observe(err error) (refused bool) {
	b.mu.Lock()
	was := b.forbidden != nil
	if !errors.Is(err, context.Canceled) {
		b.lastError = err
	}
	switch {
	case err == nil:
		if b.forbidden != nil {
			b.log.Info("watch is allowed now")
		}
		b.retry, b.forbidden = backoff.Retry{}, nil
		b.succeeded, b.forbiddenSince = true, time.Time{}
	case apierrors.IsForbidden(err):
		now := b.clock.Now()
		if b.forbiddenSince.IsZero() {
			b.forbiddenSince = now
		}
		if b.succeeded && now.Sub(b.forbiddenSince) < gracePeriod {
			// The delay does not grow, so that the watch resumes soon after the API server has read the roles.
			b.retry = backoff.Retry{}
			b.retry.Failed(forbiddenRetry, "", now)
			break
		}
		b.retry.Failed(forbiddenRetry, "", now)
		if b.forbidden == nil {
			b.log.Info("watch is forbidden; it is retried with backoff until the permission is granted",
				"error", err.Error())
		}
		b.forbidden, refused = err, true
	case apierrors.IsUnauthorized(err):
		refused = true
	}
	changed := was != (b.forbidden != nil)
	b.mu.Unlock()
	if changed && b.OnChange != nil {
		b.OnChange()
	}
	return refused
}

// LogError logs the error that ended a watch at V(1), unless observe has logged it. It returns false for errors that are part of
// the normal operation of a watch.
func (b *Backoff) LogError(err error) bool {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || apierrors.IsResourceExpired(err) ||
		apierrors.IsGone(err) {
		return false
	}
	if !apierrors.IsForbidden(err) {
		b.log.V(1).Info("watch failed; it is retried", "error", err.Error())
	}
	return true
}

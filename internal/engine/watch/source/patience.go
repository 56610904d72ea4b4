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

// grace is how long a watch that was allowed before may be refused before that counts. An API server that has just
// come up refuses everything until it has read the roles, which took half a minute with 30,000 objects on two cores.
const grace = time.Minute

var refusedRetry = backoff.Policy{First: time.Second, Longest: backoff.Longest}

// Patience spaces out the attempts at a watch that is refused. The backoff of a reflector ends at one minute, which is
// too often for a missing right that may never be granted and too seldom to raise for everything else; so refusals
// wait here, on top of it.
type Patience struct {
	// OnChange, when set before the first use, is called when a refusal begins and when it ends.
	OnChange func()

	clock clock.Clock
	log   logr.Logger

	mu    sync.Mutex
	retry backoff.Retry
	// allowed says that there was a success; since is when the refusals after it began.
	allowed bool
	since   time.Time
	refused error
	// failed is what the last attempt met; nil after a success.
	failed error
}

// NewPatience returns a Patience that has not been refused yet.
func NewPatience(c clock.Clock, log logr.Logger) *Patience {
	return &Patience{clock: c, log: log}
}

// Refused returns the refusal that is waited out, or nil. Of a watch that was allowed before it counts after a while.
func (p *Patience) Refused() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// Failed returns what the last attempt met, be it a refusal or not, or nil after a success.
func (p *Patience) Failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// wait returns once another attempt is due.
func (p *Patience) wait(ctx context.Context) error {
	p.mu.Lock()
	pause := p.retry.Due().Sub(p.clock.Now())
	p.mu.Unlock()
	if pause <= 0 {
		return ctx.Err()
	}
	timer := p.clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// heard takes in the answer to an attempt. An answer that is neither a success nor a refusal says nothing about the
// right, and leaves everything as it is.
func (p *Patience) heard(err error) {
	p.mu.Lock()
	was := p.refused != nil
	if !errors.Is(err, context.Canceled) {
		p.failed = err
	}
	switch {
	case err == nil:
		if p.refused != nil {
			p.log.Info("watch is allowed now")
		}
		p.retry, p.refused = backoff.Retry{}, nil
		p.allowed, p.since = true, time.Time{}
	case apierrors.IsForbidden(err):
		now := p.clock.Now()
		if p.since.IsZero() {
			p.since = now
		}
		if p.allowed && now.Sub(p.since) < grace {
			// Not later and later: what is refused by mistake is to go on soon.
			p.retry = backoff.Retry{}
			p.retry.Failed(refusedRetry, "", now)
			break
		}
		p.retry.Failed(refusedRetry, "", now)
		if p.refused == nil {
			p.log.Info("watch is refused; it is retried at most every five minutes until the right is granted",
				"error", err.Error())
		}
		p.refused = err
	}
	changed := was != (p.refused != nil)
	p.mu.Unlock()
	if changed && p.OnChange != nil {
		p.OnChange()
	}
}

// Report logs the end of a watch at V(1), unless it is a refusal, which Patience has logged, or no error at all. It
// says whether it counts as an error.
func (p *Patience) Report(err error) bool {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || apierrors.IsResourceExpired(err) ||
		apierrors.IsGone(err) {
		return false
	}
	if !apierrors.IsForbidden(err) {
		p.log.V(1).Info("watch failed and is retried", "error", err.Error())
	}
	return true
}

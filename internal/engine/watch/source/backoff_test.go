package source

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"mlkeeper.dev/internal/engine/backoff"
)

func TestForbiddenWatchBackoff(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	b := NewBackoff(clock, logr.Discard())
	changes := 0
	b.OnChange = func() { changes++ }
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no"))
	b.observe(errors.New("connection refused"))
	if b.Forbidden() != nil || changes != 0 {
		t.Fatal("another error is reported as forbidden")
	}
	if b.observe(context.Canceled); b.LastError() == nil || b.LastError().Error() != "connection refused" {
		t.Fatalf("the last error is %v", b.LastError())
	}
	var last time.Duration
	for range 20 {
		clock.Step(last)
		b.observe(forbidden)
		if last = b.retry.Due().Sub(clock.Now()); last > backoff.Longest*5/4 {
			t.Fatalf("delay of %s", last)
		}
	}
	if last < backoff.Longest {
		t.Fatalf("the delay ends at %s", last)
	}
	if b.Forbidden() == nil || changes != 1 {
		t.Fatalf("forbidden %v, %d changes", b.Forbidden(), changes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b.wait(ctx) == nil {
		t.Fatal("a cancelled context waits for the next attempt")
	}
	clock.Step(last)
	if err := b.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.observe(nil)
	if b.Forbidden() != nil || b.LastError() != nil || changes != 2 {
		t.Fatalf("forbidden %v, %d changes", b.Forbidden(), changes)
	}
	b.observe(forbidden)
	if pause := b.retry.Due().Sub(clock.Now()); pause > 2*forbiddenRetry.First {
		t.Fatalf("the delay is not reset: %s", pause)
	}
	// The watch was allowed before: the API server may have restarted without having read the roles yet.
	clock.Step(gracePeriod - time.Second)
	b.observe(forbidden)
	if b.Forbidden() != nil || changes != 2 {
		t.Fatalf("reported after %s: %v", gracePeriod-time.Second, b.Forbidden())
	}
	if pause := b.retry.Due().Sub(clock.Now()); pause > 2*forbiddenRetry.First {
		t.Fatalf("the delay grows to %s in the grace period", pause)
	}
	clock.Step(time.Second)
	b.observe(forbidden)
	if b.Forbidden() == nil || changes != 3 {
		t.Fatalf("not reported after %s", gracePeriod)
	}
}

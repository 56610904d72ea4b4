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

func TestPatience(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	p := NewPatience(clock, logr.Discard())
	changes := 0
	p.OnChange = func() { changes++ }
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no"))
	p.heard(errors.New("connection refused"))
	if p.Refused() != nil || changes != 0 {
		t.Fatal("another error counts as a refusal")
	}
	if p.heard(context.Canceled); p.Failed() == nil || p.Failed().Error() != "connection refused" {
		t.Fatalf("what the last attempt met is %v", p.Failed())
	}
	var last time.Duration
	for range 20 {
		clock.Step(last)
		p.heard(refusal)
		if last = p.retry.Due().Sub(clock.Now()); last > backoff.Longest*5/4 {
			t.Fatalf("pause of %s", last)
		}
	}
	if last < backoff.Longest {
		t.Fatalf("the pause ends at %s", last)
	}
	if p.Refused() == nil || changes != 1 {
		t.Fatalf("refused %v, %d changes", p.Refused(), changes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.wait(ctx) == nil {
		t.Fatal("a stop waits for the next attempt")
	}
	clock.Step(last)
	if err := p.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.heard(nil)
	if p.Refused() != nil || p.Failed() != nil || changes != 2 {
		t.Fatalf("refused %v, %d changes", p.Refused(), changes)
	}
	p.heard(refusal)
	if pause := p.retry.Due().Sub(clock.Now()); pause > 2*refusedRetry.First {
		t.Fatalf("the pause does not begin anew: %s", pause)
	}
	// It was allowed before: the API server may just have come up, and not have read the roles yet.
	clock.Step(grace - time.Second)
	p.heard(refusal)
	if p.Refused() != nil || changes != 2 {
		t.Fatalf("a refusal of %s counts: %v", grace-time.Second, p.Refused())
	}
	if pause := p.retry.Due().Sub(clock.Now()); pause > 2*refusedRetry.First {
		t.Fatalf("it is waited out for %s", pause)
	}
	clock.Step(time.Second)
	p.heard(refusal)
	if p.Refused() == nil || changes != 3 {
		t.Fatalf("a refusal of %s does not count", grace)
	}
}

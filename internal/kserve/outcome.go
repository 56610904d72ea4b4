package kserve

import (
	"fmt"
	"time"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/engine/act"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// outcome is how the order of an element ended by what was observed; nil while it is being carried out. It is pure.
//
// A runtime takes back its own TIMEOUT when an order succeeds late, and a participant's FAILED never before its next order. So an
// order fails only by what that order has to change; what is tried again or takes long is told in blocker.
//
// A success stands, whatever becomes of the services later. A failure to deploy or to remove gives way to a success, so that the
// runtime knows the states of the element; that of an update or a migration stands, since what ran before is back.
func outcome(facts Facts, seen controller.ObservedState) *acm.Outcome {
	order := facts.Element.Order
	told := facts.Outcome
	if order.Type == acm.NoOrder || told != nil && (told.Failure == "" || facts.Element.Previous != nil) {
		return told
	}
	failure, done := "", false
	switch order.Type {
	case acm.OrderLock, acm.OrderUnlock:
		done = true
	case acm.OrderPrepare, acm.OrderReview, acm.OrderPrecheck:
		failure, done = refusal(facts), true
	default:
		failure, done = progress(facts, seen)
	}
	if done || failure != "" {
		out := order.Conclude(controller.Cut(failure, maxFailure))
		return &out
	}
	return told
}

// blocker is why an order is not carried out that may still be: what is tried again, or what is waited for when the time that
// the order was given is up. It is empty for an order that is in time, or has ended.
func blocker(facts Facts, seen controller.ObservedState, ended *acm.Outcome) string {
	if facts.Element.Order.Type == acm.NoOrder || ended != nil {
		return ""
	}
	for _, p := range seen.Problems {
		if p.Class == plan.Blocked {
			return controller.Cut(p.Error(), maxFailure)
		}
	}
	if facts.Now.Before(facts.Deadline) {
		return ""
	}
	return controller.Cut(fmt.Sprintf("not done after %s: %s", waited(facts), waiting(facts, seen)), maxFailure)
}

// maxFailure is how much of a failure or a blocker is told, in bytes.
const maxFailure = 900

// progress says whether services are as ordered, or why they never will be.
func progress(facts Facts, seen controller.ObservedState) (failure string, done bool) {
	if why := refusal(facts); why != "" {
		return why, false
	}
	for _, p := range seen.Problems {
		if p.Class == plan.Terminal || p.Reason == act.ReasonConflict {
			return p.Error(), false
		}
	}
	return "", seen.Ready && len(seen.Leaving) == 0 && rollingOut(facts, seen) == ""
}

func refusal(facts Facts) string {
	if facts.Refused == nil {
		return ""
	}
	return facts.Refused.Error()
}

func waited(facts Facts) time.Duration { return timeout(facts.Element).Round(time.Millisecond) }

// waiting says what is waited for.
func waiting(facts Facts, seen controller.ObservedState) string {
	if len(seen.Leaving) > 0 {
		return seen.Leaving[0].String() + " is still there"
	}
	if facts.Held != nil {
		return facts.Held.Error()
	}
	if seen.Waiting != "" {
		return seen.Waiting
	}
	if lacks := rollingOut(facts, seen); lacks != "" {
		return lacks
	}
	return "the services are not ready"
}

package status

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

const debounce = 7 * time.Second

// The statuses of the tables: none, on the way, on the way for another reason, and Ready.
var (
	unreported = state{}
	progresses = state{conditions: []metav1.Condition{readyIs("False", "Progressing")}, generation: 1}
	fetches    = state{conditions: []metav1.Condition{readyIs("False", "Fetching")}, generation: 1}
	isDone     = state{conditions: []metav1.Condition{readyIs("True", "Ready")}, generation: 1}
)

// asked is a status that answers reconcile-at too, edited one of the next generation.
func (s state) asked() state  { s.handled = "now"; return s }
func (s state) edited() state { s.generation++; return s }

func change(before, after state) Change {
	return Change{Before: before.common(), After: after.common(), Debounce: debounce}
}

func TestWhatHoldsAStatus(t *testing.T) {
	incomplete := func(c Change) Change { c.Incomplete = true; return c }
	urgent := func(c Change) Change { c.Urgent = true; return c }
	unacknowledged := func(c Change) Change { c.Unacknowledged = true; return c }
	unanswered := func(c Change) Change { c.Unanswered = true; return c }
	for name, c := range map[string]struct {
		change Change
		cause  Cause
		limit  time.Duration
	}{
		"a first status":                {change(unreported, progresses), None, 0},
		"another reason":                {change(progresses, fetches), None, 0},
		"a progress":                    {change(progresses, progresses), Debounced, debounce},
		"a progress that is a step":     {urgent(change(progresses, progresses)), None, 0},
		"not Ready":                     {change(isDone, progresses), None, 0},
		"a change of one that is Ready": {change(isDone, isDone), Debounced, debounce},
		"an answer to reconcile-at":     {change(progresses, progresses.asked()), None, 0},
		"another spec":                  {change(progresses, progresses.edited()), None, 0},

		"Ready":                          {change(progresses, isDone), None, 0},
		"Ready while a watch is opening": {incomplete(change(progresses, isDone)), None, 0},
		"Ready for the wires":            {unacknowledged(change(progresses, isDone)), DependentsPending, maxAcknowledgement},
		"Ready for an answer":            {unanswered(change(progresses, isDone)), DependentsPending, maxAnswer},
		"Ready for both":                 {unanswered(unacknowledged(change(progresses, isDone))), DependentsPending, maxAcknowledgement},
		"Ready that is a step":           {urgent(unacknowledged(change(progresses, isDone))), None, 0},
		"Ready with another spec":        {unacknowledged(change(progresses, isDone.edited())), None, 0},
		"a progress for the wires":       {unacknowledged(change(progresses, progresses)), Debounced, debounce},

		"Ready, and not known":                    {incomplete(change(isDone, fetches)), CachesIncomplete, maxReadyHeld},
		"Ready, asked, and not known":             {incomplete(change(isDone, fetches.asked())), CachesIncomplete, maxReadyHeld},
		"Ready, of another spec, and not known":   {incomplete(change(isDone, fetches.edited())), None, 0},
		"on its way, and not known":               {incomplete(change(progresses, fetches)), CachesIncomplete, maxReasonHeld},
		"on its way, the same, and not known":     {incomplete(change(progresses, progresses)), Debounced, debounce},
		"on its way, asked, and not known":        {incomplete(change(progresses, fetches.asked())), None, 0},
		"a first status, and not known":           {incomplete(change(unreported, fetches)), None, 0},
		"on its way, a step, and not known":       {urgent(incomplete(change(progresses, fetches))), None, 0},
		"Ready of the last spec, and not known":   {incomplete(change(isDone, isDone.edited())), None, 0},
		"Ready, a change of it, and not known":    {incomplete(change(isDone, isDone)), CachesIncomplete, maxReadyHeld},
		"Ready, another reason, and nothing else": {change(isDone, fetches.asked()), None, 0},
	} {
		now := time.Unix(1e9, 0)
		hold, rest := Hold{}.Next(c.change, now)
		if hold.Cause != c.cause || rest != c.limit || hold.Since.IsZero() != (c.cause == None) {
			t.Errorf("%s: held by %d for %s, want %d for %s", name, hold.Cause, rest, c.cause, c.limit)
		}
		if hold, rest = hold.Next(c.change, now.Add(c.limit/2)); rest != c.limit-c.limit/2 {
			t.Errorf("%s: half of the limit later, %s are left", name, rest)
		}
		if _, rest = hold.Next(c.change, now.Add(time.Hour)); rest != 0 {
			t.Errorf("%s: an hour later, %s are left", name, rest)
		}
	}
}

// TestReadyStandsForTenSecondsInAll: a watch that is being opened and caches that are not complete afterwards are one hold.
func TestReadyStandsForTenSecondsInAll(t *testing.T) {
	now := time.Unix(1e9, 0)
	hold, rest := Hold{}.Opening("ConfigMap a/b", now)
	if rest != maxOpening {
		t.Errorf("a watch is not reported for %s", rest)
	}
	now = now.Add(maxOpening - time.Second)
	if hold, rest = hold.Opening("ConfigMap a/b", now); rest != time.Second {
		t.Errorf("then for %s", rest)
	}
	unknown := change(isDone, fetches)
	unknown.Incomplete = true
	if _, rest = hold.Next(unknown, now); rest != maxReadyHeld-maxOpening+time.Second {
		t.Errorf("Ready stands for %s more", rest)
	}
}

// TestEachWatchHasItsTimeToOpen: a custom resource that came to its next watch late, since others had their turns, has waited for that one
// for no time.
func TestEachWatchHasItsTimeToOpen(t *testing.T) {
	now := time.Unix(1e9, 0)
	hold, _ := Hold{}.Opening("ConfigMap a/models", now)
	now = now.Add(time.Minute)
	hold, rest := hold.Opening("Secret a/credentials", now)
	if rest != maxOpening {
		t.Errorf("the second watch is not reported for %s", rest)
	}
	if _, rest = hold.Opening("Secret a/credentials", now.Add(maxOpening)); rest != 0 {
		t.Errorf("the second watch, which does not open, is not reported for %s more", rest)
	}
}

// TestAReadyIsHeldForASecondAtMost, whatever it waits for meanwhile.
func TestAReadyIsHeldForASecondAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1e9, 0)
		hold, _ := Hold{}.Next(change(progresses, progresses), now.Add(-time.Hour))
		until := now.Add(maxAcknowledgement)
		for {
			c := change(progresses, isDone)
			c.Incomplete = rapid.Bool().Draw(t, "incomplete")
			c.Unacknowledged, c.Unanswered = rapid.Bool().Draw(t, "unacknowledged"), rapid.Bool().Draw(t, "unanswered")
			var rest time.Duration
			if hold, rest = hold.Next(c, now); rest == 0 {
				return
			}
			if now.Add(rest).After(until) {
				t.Fatalf("%s after it was Ready, it is held for %s more", now.Sub(until)+maxAcknowledgement, rest)
			}
			now = now.Add(min(rest, time.Duration(rapid.IntRange(1, 400).Draw(t, "passed"))*time.Millisecond))
		}
	})
}

// TestAnotherCauseBeginsAnotherHold: a progress that has waited for half a minute does not use up what the wires have, nor what the caches
// have.
func TestAnotherCauseBeginsAnotherHold(t *testing.T) {
	now := time.Unix(1e9, 0)
	hold, _ := Hold{}.Next(change(isDone, isDone), now)
	ready, unknown := change(progresses, isDone), change(isDone, fetches)
	ready.Unacknowledged, unknown.Incomplete = true, true
	now = now.Add(30 * time.Second)
	for _, c := range []struct {
		change Change
		want   time.Duration
	}{{ready, maxAcknowledgement}, {unknown, maxReadyHeld}} {
		if _, rest := hold.Next(c.change, now); rest != c.want {
			t.Errorf("%s are left, want %s", rest, c.want)
		}
	}
}

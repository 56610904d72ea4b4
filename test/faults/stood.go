package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mlkeeper.dev/internal/engine/act"
)

// Bounds of all the time that a cause stands, in which the operator is busy at the beginning.
const (
	// perChild is how often a child may be written that follows from the affected one: once, and once for its managedFields. perNewChild is that
	// of one that is created.
	perChild, perNewChild = 2, 3
	// firstPause is the first pause between two attempts (internal/engine/backoff, Unwatched).
	firstPause = time.Second
	// prompt is how soon the end of a cause is noticed that a watch tells of, and perAnswer how many times longer than a neighbour takes
	// to be answered on a slow machine. Both are less than the pause that is due when a cause has stood for long.
	prompt, perAnswer = 3 * time.Second, 10
	// promptAPI is the same of an API: it is established, published, found, listed and watched before anything can be written.
	promptAPI = 10 * time.Second
)

// endIsWatched says that a watch tells the end of the cause: the object that had the name is deleted, the finalizer is gone, or the API is
// served again.
func (r *run) endIsWatched() bool {
	return slices.Contains([]Cause{Foreign, ForeignMarked, Held, APIRemoved}, r.plan.Standing.Cause)
}

// overdone says what the operator did too much of since the cause began: no request too often within a second, and no object written, or
// tried to be, more often than pauses have ended.
func (r *run) overdone(ref *reference, c *cause, began time.Time) []Finding {
	all := r.journal.since(func(e entry) bool { return e.At.After(began) && !e.event() && e.Resource != "" && !r.ofGuest(e) })
	out := r.rushed(all)
	attempts, changes := map[string]int{}, map[string]int{}
	for _, e := range all {
		own := strings.HasPrefix(e.Resource, r.kind.Resource) || strings.HasPrefix(e.Resource, inventories)
		if !e.counted() || e.lostRace() || own {
			continue
		}
		attempts[objectOf(e.Point)]++
		if e.succeeded() {
			changes[objectOf(e.Point)]++
		}
	}
	paused := pauses(firstPause, time.Since(began))
	for key, n := range attempts {
		limit, subject := perChild, r.affects(key)
		if subject || r.plan.Standing.Early {
			limit = perNewChild + ref.updates[key]
		}
		if c.endless {
			// What is rendered from a child that is made anew each time follows it.
			limit += c.fight + paused
		}
		if subject {
			limit = max(limit, c.fight)
		}
		if changes[key] > limit {
			out = append(out, Finding{Oracle: "O8", Text: fmt.Sprintf(
				"%s was written %d times since the cause began; at most %d are due", key, changes[key], limit)})
		}
		again := 1 + paused
		if c.on == onAPI {
			again *= perPause // What the schema does not declare is left out, and the rest sent again.
		}
		if limit += again; n > limit {
			out = append(out, Finding{Oracle: "O8", Text: fmt.Sprintf(
				"%s was tried to be written %d times since the cause began; at most %d are due", key, n, limit)})
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return compareText(a.Text, b.Text) })
	return out
}

// affects says that the cause stands on an object: on the child, or on the API of it.
func (r *run) affects(key string) bool {
	t := r.plan.Standing
	return key == t.Resource+"/"+t.Name || t.changesAPI() && strings.HasPrefix(key, t.Resource+"/")
}

// remade says which child was created or deleted more often than the plan itself caused (O2). Watches of an API that was removed have gaps.
func (r *run) remade(ref *reference) []Finding {
	var out []Finding
	tallies := r.observe().tallies
	for key := range ref.names {
		if r.plan.Standing.changesAPI() && r.affects(key) {
			continue
		}
		most, have := r.allowed[key], tallies[key]
		if r.plan.Standing.Early {
			most = tally{most.Created + ref.most[key].Created, most.Deleted + ref.most[key].Deleted}
		}
		if have.Created > most.Created || have.Deleted > most.Deleted {
			out = append(out, Finding{Oracle: "O2", Text: fmt.Sprintf("%s was created %d times and deleted %d times; the plan has %d and %d",
				key, have.Created, have.Deleted, most.Created, most.Deleted)})
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return compareText(a.Text, b.Text) })
	return out
}

// sparesCeded has the judgement leave out what tells that a field is ceded, which stays when the cause is over: the condition, and the record of
// what is left out.
func (r *run) sparesCeded(condition string) {
	for object, fields := range r.snapshot() {
		for path, value := range fields {
			if strings.Contains(path, ".conditions["+condition+"]") || strings.HasPrefix(value, act.CededField) {
				r.mu.Lock()
				r.spared.add(object, path)
				r.mu.Unlock()
			}
		}
	}
}

// promptness is how soon this operator is to notice what a watch tells, on this machine as it is now: it follows from how long the neighbour
// takes to be answered that asks for a reconcile.
func (r *run) promptness(neighbour *run) time.Duration {
	all, due := neighbour.history.all(r.kind.Resource), prompt
	if r.plan.Standing.changesAPI() {
		due = promptAPI
	}
	if !r.endIsWatched() || len(all) == 0 {
		return due
	}
	asked := time.Now()
	for _, cr := range all {
		if err := neighbour.ask(cr); err != nil {
			r.note("the neighbour cannot ask: %v", err)
			return due
		}
		err := neighbour.await("an answer", func() error {
			return answered(neighbour.history.get(r.kind.Resource, cr.GetName()))
		})
		if err != nil {
			r.note("the neighbour is not answered: %v", err)
		}
	}
	took := time.Since(asked)
	r.note("the neighbour was answered after %s", took)
	return due + perAnswer*took
}

// noticed says that the operator learned from a pause, and not from a watch, that the cause is over: it wrote the child later than the watch
// told it.
func (r *run) noticed(over time.Time, within time.Duration) []Finding {
	if !r.endIsWatched() {
		return nil
	}
	writes := r.journal.since(func(e entry) bool {
		return e.At.After(over.Add(-within)) && e.counted() && e.succeeded() && !r.ofGuest(e) && r.affects(objectOf(e.Point))
	})
	if len(writes) == 0 || writes[0].At.Before(over.Add(within)) {
		return nil
	}
	return []Finding{{Oracle: "O3", Text: fmt.Sprintf("%s was written %s after the cause had ended, of which a watch told at once; %s are due",
		objectOf(writes[0].Point), writes[0].At.Sub(over), within)}}
}

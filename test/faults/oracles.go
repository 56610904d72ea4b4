package faults

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bounds of oracle O8, for one request by verb, resource and name within a second. Retries after an error begin with
// 50 ms and double, so six of them fit; events may add some.
const (
	maxPerSecond = 16
	// perFault is how many writes a fault may add to each object: a migration of its managedFields and an apply, and one
	// more for a status that told of the fault.
	perFault = 3
)

// Finding is what an oracle found wrong.
type Finding struct {
	// Oracle is O1 to O10, or H when the run could not be judged.
	Oracle string `json:"oracle"`
	Text   string `json:"text"`
	// First is the first diverging field.
	First *Diff `json:"first,omitempty"`
}

// String prints the finding in one line.
func (f Finding) String() string { return f.Oracle + ": " + f.Text }

// judge waits for the end of a run and asks every oracle. The answer is empty for a run that is right.
func (r *run) judge(ref *reference, performed error, quiet time.Duration) []Finding {
	var out []Finding
	switch {
	case errors.Is(performed, errLate):
		out = append(out, Finding{Oracle: "O3", Text: performed.Error()})
	case performed != nil:
		return []Finding{{Oracle: "H", Text: performed.Error()}}
	default:
		out = append(out, r.converged(ref, quiet)...)
	}
	o := r.observe()
	out = append(out, r.counted(ref, o)...)
	out = append(out, r.bounded(ref)...)
	out = append(out, r.safe(ref, o)...)
	out = append(out, r.honest(ref)...)
	r.mu.Lock()
	out = append(out, r.failures...)
	r.mu.Unlock()
	if err := r.suite.recorder.failed(); err != nil {
		return []Finding{{Oracle: "H", Text: err.Error()}}
	}
	return out
}

// converged waits until the run is still, and for the state of the reference (O1, O3).
func (r *run) converged(ref *reference, quiet time.Duration) []Finding {
	var diffs []Diff
	events := -1
	err := r.await("the state of the reference", func() error {
		// Comparing is dear, and its answer is the same until something happens.
		if n := r.history.length(); n != events {
			events, diffs = n, r.apart(ref)
		}
		if len(diffs) > 0 {
			return fmt.Errorf("%d fields differ", len(diffs))
		}
		return nil
	})
	if err != nil {
		return r.diverging(diffs)
	}
	if err := r.still(quiet); err != nil {
		return []Finding{{Oracle: "O3", Text: err.Error()}}
	}
	return r.diverging(r.apart(ref))
}

// apart is how the run differs from the reference, but for what follows from what its plan destroyed for good.
func (r *run) apart(ref *reference) []Diff {
	return slices.DeleteFunc(compare(ref.end, r.snapshot(), r.masked(ref)), func(d Diff) bool {
		return r.kind.Follows != nil && r.kind.Follows(r.plan, d)
	})
}

// masked is the mask of the reference with what the plan itself changed for good.
func (r *run) masked(ref *reference) mask {
	r.mu.Lock()
	defer r.mu.Unlock()
	return ref.mask.with(r.spared)
}

func (r *run) diverging(diffs []Diff) []Finding {
	if len(diffs) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d fields differ from the reference; the first: %s", len(diffs), diffs[0])
	return []Finding{{Oracle: "O1", Text: text, First: &diffs[0]}}
}

// injected is the number of faults that took place. A crash after which the next operator is shown what is past counts
// as two.
func (r *run) injected() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := max(r.trap.hits, r.crashes)
	if n > 0 && r.plan.Fault.Back > 0 {
		n++
	}
	return n
}

// leaders is the number of operators that ran at once.
func (r *run) leaders() int {
	if r.plan.Fault != nil && r.plan.Fault.Do == TwoLeaders {
		return 2
	}
	return 1
}

// counted compares creations, deletions and updates with the reference (O2).
func (r *run) counted(ref *reference, o observation) []Finding {
	var out []Finding
	objects := map[string]bool{}
	for key := range o.tallies {
		objects[key] = true
	}
	for key := range ref.least {
		objects[key] = true
	}
	r.mu.Lock()
	exempt := maps.Clone(r.exempt)
	r.mu.Unlock()
	for key := range objects {
		if exempt[key] {
			continue
		}
		have, least, most, more := o.tallies[key], ref.least[key], ref.most[key], r.allowed[key]
		if have.Created < least.Created || have.Created > most.Created+more.Created {
			out = append(out, Finding{Oracle: "O2", Text: fmt.Sprintf(
				"%s was created %d times, the reference has %d", key, have.Created, most.Created+more.Created)})
		}
		if have.Deleted < least.Deleted || have.Deleted > most.Deleted+more.Deleted {
			out = append(out, Finding{Oracle: "O2", Text: fmt.Sprintf(
				"%s was deleted %d times, the reference has %d", key, have.Deleted, most.Deleted+more.Deleted)})
		}
	}
	for key, n := range o.updates {
		limit := ref.updates[key]*r.leaders() + perFault*max(r.injected(), 1)*r.leaders()
		if strings.HasPrefix(key, inventories) {
			limit += ref.forgotten() * r.leaders()
		}
		if n > limit {
			out = append(out, Finding{Oracle: "O2", Text: fmt.Sprintf(
				"%s was updated %d times; the reference has %d, and with %d faults at most %d are due",
				key, n, ref.updates[key], r.injected(), limit)})
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return compareText(a.Text, b.Text) })
	return out
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// bounded says whether the work was bounded: no request too often within a second, and not too many writes (O8).
func (r *run) bounded(ref *reference) []Finding {
	all := r.journal.since(func(e entry) bool { return !e.event() && e.Resource != "" })
	out := r.rushed(all)
	writes := 0
	for _, e := range all {
		if e.counted() && !e.lostRace() {
			writes++
		}
	}
	if limit := ref.attempts*r.leaders() + max(r.injected(), 1)*2*(ref.size+2)*r.leaders(); writes > limit {
		out = append(out, Finding{Oracle: "O8", Text: fmt.Sprintf(
			"%d writes; the reference has %d, and with %d faults at most %d are due", writes, ref.attempts, r.injected(), limit)})
	}
	return out
}

// rushed says which request was sent too often within a second.
func (r *run) rushed(entries []entry) []Finding {
	if p, n := busiest(entries); n > maxPerSecond*r.leaders() {
		return []Finding{{Oracle: "O8", Text: fmt.Sprintf("%s was asked for %d times within a second", p, n)}}
	}
	return nil
}

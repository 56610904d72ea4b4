package wiring

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/backoff"
)

// conflictLimit and conflictWindow are those of invariant 11: who takes a field back three times in ten minutes wants it otherwise, and
// answering each time would roll the pods of both for ever.
const (
	conflictLimit  = 3
	conflictWindow = 10 * time.Minute
)

var (
	// conflicts has the pauses after that long: each attempt may roll pods.
	conflicts = backoff.Bound{
		Free: conflictLimit - 1, Window: conflictWindow, Pauses: backoff.Policy{First: 8 * time.Minute, Longest: 6 * time.Hour},
	}
	// refusals are those after the API server refused a read or a write, whatever events come meanwhile.
	refusals = backoff.Unwatched
)

const (
	// ReasonCeded is the reason while the writes of another are no longer answered.
	ReasonCeded = "FieldOwnershipCeded"
	// ReasonRefused is the reason after the API server refused a read or a write.
	ReasonRefused = "WriteForbidden"
)

// memo is what a reconciler remembers of one object. Only the worker that has the key uses it.
type memo struct {
	// lost is when a write that lost a race is tried again; it is zero after one that succeeded.
	lost backoff.Retry
	// wired says that the object held our entries when it was last seen.
	wired bool
	// written are the entries of the last write, none for one that took ours out, and nil before the first, and at is when that was. repairs
	// bounds how often the same ones are written again, and rival had changed the object before the last time.
	written []Entry
	at      time.Time
	repairs backoff.Repetition
	rival   string
	// refusal is when what the API server refused is tried again, asked and content the entries and the object that it was, and refused the
	// error.
	refusal backoff.Retry
	asked   []Entry
	content string
	refused error
	// reported is what was reported last, by owner.
	reported map[string][]Outcome
}

func (r *Reconciler) memo(key types.NamespacedName) *memo {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memos[key]
	if m == nil {
		m = &memo{}
		r.memos[key] = m
	}
	return m
}

// prune drops a memo that remembers nothing, so that the memory follows the wired objects and not all objects ever seen.
func (r *Reconciler) prune(key types.NamespacedName, m *memo) {
	if m.wired || len(m.reported) > 0 || m.lost.Failures() > 0 || m.refused != nil || m.lately(r.deps.Clock.Now()) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memos, key)
}

// lately says that the object was written not long ago, so that another write of the same may be a repair.
func (m *memo) lately(now time.Time) bool {
	return now.Sub(m.at) <= conflictWindow || !m.repairs.Over(conflicts, now)
}

// forget drops what is remembered of an object that is gone: nothing may enqueue its key again.
func (m *memo) forget() {
	*m = memo{wired: m.wired, reported: m.reported}
}

// count books a write: the same entries once more are a repair, others start anew.
func (m *memo) count(now time.Time, entries []Entry, rival string) {
	m.refusal, m.refused = backoff.Retry{}, nil
	if m.written == nil || !slices.Equal(entries, m.written) {
		m.written, m.at, m.repairs, m.rival = append([]Entry{}, entries...), now, backoff.Repetition{}, ""
		return
	}
	m.repairs.Again(conflicts, now)
	m.at, m.rival = now, rival
}

// conflictPause says how long the same entries are not written again.
func (m *memo) conflictPause(now time.Time, entries []Entry) time.Duration {
	if m.written == nil || !slices.Equal(entries, m.written) || !m.repairs.Waits(now) {
		return 0
	}
	return m.repairs.Due().Sub(now)
}

// refusedPause says how long the entries are not tried again that the API server refused for the same content of the object.
func (m *memo) refusedPause(now time.Time, target *unstructured.Unstructured, entries []Entry) time.Duration {
	if m.refused == nil || !slices.Equal(entries, m.asked) || contentOf(target) != m.content || !m.refusal.Waits(now) {
		return 0
	}
	return m.refusal.Due().Sub(now)
}

// refuse takes in that the API server refused a read or a write.
func (m *memo) refuse(now time.Time, target *unstructured.Unstructured, entries []Entry, err error) {
	m.refusal.Failed(refusals, "", now)
	m.asked, m.content, m.refused = slices.Clone(entries), contentOf(target), err
}

// contentOf tells whether somebody changed more of an object than its status; empty for one that is not there.
func contentOf(u *unstructured.Unstructured) string {
	switch {
	case u == nil:
		return ""
	case u.GetGeneration() > 0:
		return fmt.Sprint(u.GetUID(), u.GetGeneration())
	}
	return u.GetResourceVersion()
}

func (m *memo) asCeded(outcomes []Outcome) []Outcome {
	who := "somebody else"
	if m.rival != "" {
		who = fmt.Sprintf("%q", m.rival)
	}
	out := slices.Clone(outcomes)
	for i := range out {
		out[i].Wired, out[i].Reason = false, ReasonCeded
		out[i].Message = fmt.Sprintf("%s took the entry out %d times in ten minutes, so it is not added again for now; "+
			"keep that controller or pipeline from owning the field", who, conflictLimit)
	}
	return out
}

// rivalOf names who changed the object last.
func rivalOf(live *unstructured.Unstructured) string {
	name, last := "", time.Time{}
	for _, e := range live.GetManagedFields() {
		if e.Manager != FieldManager && e.Subresource == "" && e.Time != nil && !e.Time.Time.Before(last) {
			name, last = e.Manager, e.Time.Time
		}
	}
	return name
}

// report tells every owner whose outcomes changed, and those about whom nothing is left to tell.
func (r *Reconciler) report(key types.NamespacedName, m *memo, outcomes []Outcome) {
	now := map[string][]Outcome{}
	for i := range outcomes {
		now[outcomes[i].Entry.Owner] = append(now[outcomes[i].Entry.Owner], outcomes[i])
	}
	before := m.reported
	m.reported = now
	if r.deps.Report == nil {
		return
	}
	for owner, list := range now {
		if !slices.Equal(list, before[owner]) {
			r.deps.Report(owner, r.keyOf(key), list)
		}
	}
	for owner := range before {
		if _, still := now[owner]; !still {
			r.deps.Report(owner, r.keyOf(key), nil)
		}
	}
}

// refused marks the entries that a refused write would have added.
func refused(outcomes []Outcome, err error) []Outcome {
	out := slices.Clone(outcomes)
	for i := range out {
		if out[i].Wired {
			out[i].Wired, out[i].Reason = false, ReasonRefused
			out[i].Message = fmt.Sprintf("%v; grant the operator the right or remove what refuses it", err)
		}
	}
	return out
}

package wiring

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/backoff"
)

const (
	// conflictLimit and conflictWindow are those of invariant 11: who takes a field back three times in ten minutes wants it
	// otherwise, and answering each time would roll the pods of both for ever.
	conflictLimit  = 3
	conflictWindow = 10 * time.Minute
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
	// written are the entries of the last write, repairs the times at which they had to be written again, and rival
	// who had changed the object before the last of those.
	written []Entry
	repairs []time.Time
	rival   string
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
	if m.wired || len(m.reported) > 0 || len(m.repairs) > 0 || m.lost.Failures() > 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memos, key)
}

// forget drops what is remembered of an object that is gone: nothing may enqueue its key again.
func (m *memo) forget() {
	m.lost, m.written, m.repairs, m.rival = backoff.Retry{}, nil, nil, ""
}

// count books a write: the same entries once more are a repair, others start anew.
func (m *memo) count(now time.Time, entries []Entry, rival string) {
	if len(entries) == 0 || !slices.Equal(entries, m.written) {
		m.written, m.repairs, m.rival = entries, nil, ""
		return
	}
	m.repairs, m.rival = append(m.recent(now), now), rival
}

// conflictPause says how long the same entries are not written again.
func (m *memo) conflictPause(now time.Time, entries []Entry) time.Duration {
	m.repairs = m.recent(now)
	if len(m.repairs) < conflictLimit || !slices.Equal(entries, m.written) {
		return 0
	}
	return m.repairs[0].Add(conflictWindow).Sub(now)
}

func (m *memo) recent(now time.Time) []time.Time {
	return slices.DeleteFunc(m.repairs, func(t time.Time) bool { return now.Sub(t) >= conflictWindow })
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

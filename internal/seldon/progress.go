package seldon

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
)

// countings is how often the time of a revision is recorded while it is being applied: each costs a write of the status.
const countings = 5

// progress is how much of its timeout a revision has had in which it could become ready, and whether that is to be recorded now. What is
// recorded tells the time of a manager that was there from that without one, whoever counts: after more than twice the interval nobody was.
// A revision that was interrupted, such as by a suspension, has an interval at least to become ready.
func progress(r v1alpha1.ComponentRevision, timeout time.Duration, resumed bool, now time.Time) (had time.Duration, record bool) {
	had, interval := time.Duration(r.ProgressSeconds)*time.Second, timeout/countings
	if r.ProgressAt == nil || resumed {
		return min(had, timeout-interval), true
	}
	since := now.Sub(r.ProgressAt.Time)
	if since > 2*interval {
		return min(had+interval, timeout-interval), true
	}
	return had + since, since >= interval
}

// await sets when a revision that is not ready has failed, and when its time is counted next.
func (p *Part) await(r v1alpha1.ComponentRevision, now time.Time) {
	had, record := progress(r, p.timeout(), p.Rollback.Resumed, now)
	counted := now
	if !record {
		counted = r.ProgressAt.Time
	}
	p.Rollback.Deadline, p.Rollback.CountAt = now.Add(p.timeout()-had), counted.Add(p.timeout()/countings)
	if p.Rollback.Deadline.Before(p.Rollback.CountAt) {
		p.Rollback.CountAt = p.Rollback.Deadline
	}
}

// counted is a history with the time of its latest revision, where that is rolled back once it has had too much of it.
func (p Part) counted(history []v1alpha1.ComponentRevision, now time.Time) []v1alpha1.ComponentRevision {
	if len(history) == 0 {
		return history
	}
	history = slices.Clone(history)
	r, at := &history[0], metav1.NewTime(now)
	had, record := progress(*r, p.timeout(), p.Rollback.Resumed, now)
	switch {
	case r.Outcome != v1alpha1.RevisionPending || r.RollbackTo != 0 || !p.rollsBack():
		r.ProgressSeconds, r.ProgressAt = 0, nil
	case p.spec.Suspend && r.ProgressAt != nil:
		r.ProgressSeconds, r.ProgressAt = int32(had/time.Second), nil
	case !p.spec.Suspend && record:
		r.ProgressSeconds, r.ProgressAt = int32(had/time.Second), &at
	}
	return history
}

package faults

import "time"

// trap decides which requests meet the fault of a plan. It is pure but for what it counts; its owner guards it.
type trap struct {
	fault Fault
	armed bool
	// hits is how many requests met the fault, first and last are when.
	hits        int
	first, last time.Time
	// counts are the requests since arming, by point without occurrence.
	counts map[Point]int
	// dying says that the next write ends the operator.
	dying bool
}

// newTrap makes a trap that lets everything pass until it is armed.
func newTrap(f *Fault) *trap {
	t := &trap{counts: map[Point]int{}}
	if f != nil {
		t.fault = *f
	}
	return t
}

// number gives a request its occurrence; before the trap is armed it has none.
func (t *trap) number(p Point) Point {
	if !t.armed {
		return p
	}
	t.counts[p]++
	p.Occurrence = t.counts[p]
	return p
}

// meets says what a numbered request meets; the empty action lets it pass.
func (t *trap) meets(p Point, write bool, now time.Time) Action {
	if !t.armed || t.fault.Do == "" || t.fault.At.Verb == "" {
		return ""
	}
	if t.dying {
		if !write {
			return ""
		}
		t.dying = false
		t.hit(now)
		return DieBefore
	}
	if !t.matches(p, now) {
		return ""
	}
	t.hit(now)
	if t.fault.Do == LoseDie {
		t.dying = true
		return Lose
	}
	return t.fault.Do
}

func (t *trap) hit(now time.Time) {
	if t.hits == 0 {
		t.first = now
	}
	t.hits++
	t.last = now
}

// matches says that a request meets the fault: the one it is keyed by and, after it, those of its run or its time.
func (t *trap) matches(p Point, now time.Time) bool {
	at := t.fault.At
	if p.Verb != at.Verb || p.Resource != at.Resource || at.Name != "" && p.Name != at.Name {
		return false
	}
	if t.hits == 0 {
		return at.Occurrence == 0 || p.Occurrence == at.Occurrence
	}
	if t.fault.Do.dies() || t.fault.Do.streams() || t.fault.Do == Lose {
		return false
	}
	if t.fault.For > 0 {
		return now.Sub(t.first) < time.Duration(t.fault.For)
	}
	return t.hits < t.fault.Times
}

// reached says that the fault took place.
func (t *trap) reached() bool { return t.hits > 0 }

// overAt is when the fault ends at the latest; the zero time while it has not begun.
func (t *trap) overAt() time.Time {
	if t.hits == 0 {
		return time.Time{}
	}
	end := t.last
	if by := t.first.Add(time.Duration(t.fault.For)); by.After(end) {
		end = by
	}
	return end
}

package decide

import (
	"fmt"
	"hash/maphash"
)

// schedules are the orders in which the stacks take their turns once nothing interferes any more: the first before the
// second, the second before the first, and both deciding before either acts.
const schedules = 3

// calmRounds is how many rounds without interference lead to rest: one to make, one to make again what had to go first
// or what waited for a gate, one for what the garbage collector took, one for the loser of a conflict to say so, and two
// in which nothing happens.
const calmRounds = 6

// seed makes hashes of states; which one it is does not matter within a process.
var seed = maphash.MakeSeed()

// judgeWrite names the invariant that a write violated, if any.
func (m *model) judgeWrite(s *state, i int, mv move, before, after object) string {
	mine := ownerOf(i, s.work[i].pass.incarnation)
	switch {
	case before == after:
		return ""
	case before.uid == 0 && mv.verb != moveCreate:
		return "an apply made again what was deleted"
	case before.uid == 0:
		return ""
	case mv.uid == 0 && mv.verb != moveCreate:
		return "a write is not guarded by the UID"
	case before.ctrl != nobody && before.ctrl != mine:
		return "an object that another controls was written"
	case after.uid == 0 && before.kept != 0:
		return "what must be kept was deleted"
	case after.uid == 0 && before.ctrl == nobody && before.maker != uint8(i)+1:
		return "an object was deleted that another made"
	case before.ctrl == nobody && before.mark == 0 && before.maker != uint8(i)+1 && before.uid != mv.known && !m.adopt[i]:
		return "an object of nobody was adopted without leave"
	}
	return ""
}

// heldByAnother says that an object without an owner reference bears the marks of another custom resource, which exists
// and has recorded it. What is read just before it is adopted must not be so. Of what was decided from a cache it may
// have become true meanwhile; then the search sees to it that the two do not take it from each other for ever.
func (m *model) heldByAnother(s *state, i, k int, o object) bool {
	if o.mark == 0 || o.mark == uint8(i)+1 || o.maker == uint8(i)+1 {
		return false
	}
	other := int(o.mark) - 1
	w := &s.work[other]
	return s.crs[other].alive != 0 && w.pass.incarnation == s.crs[other].incarnation && w.entries[k].uid == o.uid
}

// rest lets everything run without interference and says what is wrong with where that ends, if anything.
func (m *model) rest(s state, schedule int) string {
	s.faults, s.edits = 0, 0
	for i := range m.controllers {
		for s.work[i].count > 0 {
			if _, broken := m.perform(&s, i, false); broken != "" {
				return broken
			}
		}
	}
	m.pass(&s)
	s.canonical()
	id := maphash.Comparable(seed, s)
	if known, ok := m.calm[schedule][id]; ok {
		return known
	}
	out := m.run(&s, schedule)
	m.calm[schedule][id] = out
	return out
}

// pass is what happens by itself in time: caches catch up, finalizers end, what has no owner goes, pods start.
func (m *model) pass(s *state) {
	for k := range m.children {
		if s.real[k].is(flagTerminating) || m.orphaned(s, s.real[k]) {
			m.set(s, k, object{})
		}
		if o := s.real[k]; o.uid != 0 && o.health == unready {
			o.health = ready
			m.set(s, k, o)
		}
	}
	for k := range m.children {
		for r := range s.feeds {
			f := &s.feeds[r][k]
			f.synced = 1
			f.advance(maxLag)
		}
	}
	for i := range m.controllers {
		s.save(i)
		s.work[i].cr = s.crs[i]
	}
}

func (m *model) run(s *state, schedule int) string {
	for round := range calmRounds {
		writes, broken := m.round(s, schedule)
		if broken != "" {
			return broken
		}
		if writes != "" && round >= calmRounds-2 {
			return fmt.Sprintf("no rest: in round %d there still is %s", round+1, writes)
		}
		m.pass(s)
		s.canonical()
	}
	return m.match(s)
}

// round lets every stack decide and act once. It names the last write that is no sign of rest: only to try a name again
// that another holds, which no watch tells of, is (invariant 15).
func (m *model) round(s *state, schedule int) (writes, broken string) {
	order := []int{0, 1}[:len(m.controllers)]
	if schedule == 1 {
		order = []int{1, 0}
	}
	act := func(i int) {
		mv := s.work[i].pending[0]
		changed, invariant := m.perform(s, i, false)
		if invariant != "" {
			broken = invariant
		}
		if changed || mv.verb != moveCreate {
			writes = fmt.Sprintf("%s of %s by stack %d", verbNames[mv.verb], m.keys[mv.key], i)
		}
	}
	for _, i := range order {
		if invariant := m.decideFor(s, i); invariant != "" {
			return "", invariant
		}
		for schedule != 2 && s.work[i].count > 0 {
			act(i)
		}
	}
	for left := true; left; {
		left = false
		for _, i := range order {
			if s.work[i].count > 0 {
				act(i)
				left = true
			}
		}
	}
	return writes, broken
}

var verbNames = map[uint8]string{moveCreate: "a create", moveApply: "an apply", moveDelete: "a delete"}

// match says in what the cluster differs from what the custom resources declare, if it does.
func (m *model) match(s *state) string {
	for i := range m.controllers {
		if s.crs[i].alive == 0 {
			continue
		}
		for k := range m.children {
			if bad := m.matchOne(s, i, k); bad != "" {
				return fmt.Sprintf("%s of stack %d %s: %+v", m.keys[k], i, bad, s.real[k])
			}
		}
	}
	for k := range m.children {
		if m.orphaned(s, s.real[k]) {
			return fmt.Sprintf("%s has an owner that is gone", m.keys[k])
		}
	}
	return ""
}

func (m *model) matchOne(s *state, i, k int) string {
	w, o, cr := &s.work[i], s.real[k], s.crs[i]
	mine := ownerOf(i, cr.incarnation)
	r := m.rendered[mine-1][cr.version][k]
	ours := o.uid != 0 && m.owns(i, cr.incarnation, o)
	conflict := w.conflicts&(1<<k) != 0
	adopted, own := o.is(flagAdopted), mine
	if m.children[k].retain || adopted {
		own = nobody
	}
	switch {
	case !r.wanted && ours && o.kept == 0 && o.ctrl == mine && o.label == uint8(i)+1:
		return "was not pruned"
	case !r.wanted:
	case (!ours || o.label != uint8(i)+1) && w.gated&(1<<k) != 0 && m.gateShut(s, i):
		// What lost its labels cannot be told from what does not exist until the name is tried.
	case o.uid == 0:
		return "is missing"
	case !ours && !conflict:
		return "is another's, and nobody is told"
	case ours && conflict:
		return "is reported as another's"
	case !ours:
		if o.ctrl == nobody && o.mark == 0 && m.adopt[i] {
			return "was not adopted"
		}
	case o.digest != r.digest:
		return "is not as declared"
	case o.fields != fieldsOf(r.digest, true) && o.fields != fieldsOf(r.digest, false):
		return "has drifted"
	case o.label != uint8(i)+1 || o.ctrl != own:
		return "is not marked as ours"
	}
	return ""
}

// gateShut says that the gate of a stack stays shut, since what it waits for is another's or never becomes ready. In the
// product it opens with a warning when its time is over.
func (m *model) gateShut(s *state, i int) bool {
	for k, c := range m.children {
		if c.stage == 0 && m.gate && (s.real[k].health == sick || !m.owns(i, s.crs[i].incarnation, s.real[k])) {
			return true
		}
	}
	return false
}

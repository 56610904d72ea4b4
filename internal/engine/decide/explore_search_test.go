package decide

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// step is one thing that may happen in a state.
type step struct{ op, a, b, c uint8 }

// What may happen.
const (
	opDecide  uint8 = iota + 1 // Stack a decides; b and c are how far its caches are by then.
	opAct                      // Stack a performs its next action.
	opLost                     // The same, but the answer is lost.
	opSave                     // Stack a writes its inventory into its status.
	opCrash                    // The process ends and another begins: memory is lost, and what caches know may be old.
	opSync                     // The watch of controller a on object b is complete.
	opGone                     // What held object a is over.
	opCollect                  // The garbage collector deletes object a.
	opHealthy                  // Object a becomes ready.
	opHarm                     // Somebody does b to object a.
	opEdit                     // Stack a is changed, deleted or made again.
)

// What somebody may do to an object.
const (
	harmDelete   uint8 = iota
	harmHold           // Deleted, but held by a finalizer.
	harmOrphan         // The owner reference is taken off.
	harmUnlabel        // The labels are taken off.
	harmStrip          // Everything is taken off that tells whose it is.
	harmChange         // A field of ours is changed.
	harmUndigest       // The digest is taken off.
	harmSicken         // It never becomes ready.
	harmRestore        // It is deleted and made again from a copy, so that its UID is another.
	harmReplace        // It is deleted and made anew by somebody who controls it.
	harmUsurp          // It is deleted and made anew by nobody in particular.
	harmRelabel        // It gets the marks of the other stack.
	harms
)

var (
	opNames = map[uint8]string{
		opDecide: "decides", opAct: "acts", opLost: "acts, and the answer is lost", opSave: "saves its inventory",
		opCrash: "crash", opSync: "a watch is complete", opGone: "gone at last", opCollect: "collected", opHealthy: "healthy",
	}
	harmNames = [harms]string{
		"delete", "delete, held", "orphan", "unlabel", "strip", "change", "take the digest off", "sicken", "restore a copy",
		"replace", "replace by nobody's", "give the marks of the other stack",
	}
)

func (t step) String() string {
	switch t.op {
	case opHarm:
		return fmt.Sprintf("somebody: %s object %d", harmNames[t.b], t.a)
	case opEdit:
		return fmt.Sprintf("custom resource %d: %s", t.a, []string{"changed", "deleted", "made again"}[t.b])
	case opDecide:
		return fmt.Sprintf("stack %d decides, caches advanced by %d, custom resources %d", t.a, t.b, t.c)
	}
	return fmt.Sprintf("%d: %s", t.a, opNames[t.op])
}

// steps calls f with everything that may happen in a state.
func (m *model) steps(s *state, f func(step)) {
	for i := range m.controllers {
		w, a := &s.work[i], uint8(i)
		if w.count > 0 {
			f(step{op: opAct, a: a})
			if s.faults > 0 {
				f(step{op: opLost, a: a})
			}
			continue
		}
		m.lags(s, i, f)
		if w.entries != w.saved && s.crs[i].alive != 0 && w.pass.incarnation == s.crs[i].incarnation {
			f(step{op: opSave, a: a})
		}
	}
	if s.faults > 0 {
		f(step{op: opCrash})
	}
	for k := range m.children {
		o, a := s.real[k], uint8(k)
		for r := range s.feeds {
			if s.feeds[r][k].synced == 0 {
				f(step{op: opSync, a: uint8(r), b: a})
			}
		}
		if o.is(flagTerminating) {
			f(step{op: opGone, a: a})
		}
		if m.orphaned(s, o) {
			f(step{op: opCollect, a: a})
		}
		if m.gate && o.uid != 0 && o.health == unready {
			f(step{op: opHealthy, a: a})
		}
		for harm := range harms {
			if s.faults > 0 && m.harmful(o, harm) {
				f(step{op: opHarm, a: a, b: harm})
			}
		}
	}
	for i := range m.controllers {
		switch {
		case s.edits == 0:
		case s.crs[i].alive == 0 && s.crs[i].incarnation+1 < ownerCount:
			f(step{op: opEdit, a: uint8(i), b: 2})
		case s.crs[i].alive == 0:
		default:
			if s.crs[i].version == 0 {
				f(step{op: opEdit, a: uint8(i), b: 0})
			}
			if m.deletes {
				f(step{op: opEdit, a: uint8(i), b: 1})
			}
		}
	}
}

// lags lets a stack decide with its caches anywhere between what they know and what there is. That caches learn of
// something matters to nothing but decisions, so that it is a part of them and no step of its own.
func (m *model) lags(s *state, i int, f func(step)) {
	feeds := &s.feeds[m.controllers[i]]
	ways := uint8(1)
	for range m.children {
		ways *= maxLag
	}
	refresh := uint8(1)
	for j := range m.controllers {
		if s.work[j].cr != s.crs[j] {
			refresh = 2
		}
	}
	for way := range ways {
		rest, possible := way, true
		for k := range m.children {
			possible = possible && rest%maxLag < feeds[k].n
			rest /= maxLag
		}
		for c := range refresh {
			if possible {
				f(step{op: opDecide, a: uint8(i), b: way, c: c})
			}
		}
	}
}

// harmful says whether something may be done to an object, and would change it.
func (m *model) harmful(o object, harm uint8) bool {
	switch harm {
	case harmUsurp, harmReplace:
		return true
	case harmOrphan:
		return o.ctrl != nobody
	case harmUnlabel:
		return o.label != 0
	case harmStrip:
		return o.ctrl != nobody || o.label != 0 || o.mark != 0
	case harmChange:
		return o.uid != 0 && o.fields != disturbed
	case harmUndigest:
		return o.digest != 0
	case harmSicken:
		return m.gate && o.uid != 0 && o.health != sick
	case harmRelabel:
		return m.relabel && o.label != 0
	case harmHold:
		return o.uid != 0 && !o.is(flagTerminating)
	}
	return o.uid != 0
}

// do returns the state after a step, and which invariant was violated.
func (m *model) do(s state, t step) (after state, broken string) {
	k, i := int(t.a), int(t.a)
	switch t.op {
	case opDecide:
		for rest, key := t.b, 0; key < len(m.children); key++ {
			s.feeds[m.controllers[i]][key].advance(rest % maxLag)
			rest /= maxLag
		}
		for j := range m.controllers {
			if t.c != 0 {
				s.work[j].cr = s.crs[j]
			}
		}
		broken = m.decideFor(&s, i)
	case opAct:
		_, broken = m.perform(&s, i, false)
	case opLost:
		s.faults--
		_, broken = m.perform(&s, i, true)
	case opSave:
		s.save(i)
	case opCrash:
		s.faults--
		for j := range m.controllers {
			w := &s.work[j]
			*w = worker{cr: w.cr, pass: w.cr, saved: w.saved, entries: w.saved}
		}
		for r := range s.feeds {
			for key := range m.children {
				s.feeds[r][key].view, s.feeds[r][key].synced = 0, 0
			}
		}
	case opSync:
		s.feeds[t.a][t.b].synced = 1
	case opGone, opCollect:
		m.set(&s, k, object{})
	case opHealthy:
		o := s.real[k]
		o.health = ready
		m.set(&s, k, o)
	case opHarm:
		s.faults--
		m.harm(&s, k, t.b)
	case opEdit:
		s.edits--
		s.edit(i, t.b)
	}
	s.canonical()
	return s, broken
}

func (s *state) edit(i int, what uint8) {
	cr := &s.crs[i]
	switch what {
	case 0:
		cr.version = 1
	case 1:
		cr.alive, s.work[i].saved = 0, [maxKeys]entry{}
	case 2:
		cr.alive = 1
		cr.incarnation++
	}
}

// harm changes an object as somebody else may. What they change of ours is not ours any more, so that the hash differs.
func (m *model) harm(s *state, k int, what uint8) {
	o := s.real[k]
	if what != harmSicken && o.fields != 0 {
		o.fields = disturbed
	}
	switch what {
	case harmDelete:
		o = object{}
	case harmHold:
		m.remove(s, k, true)
		return
	case harmOrphan:
		o.ctrl = nobody
	case harmUnlabel:
		o.label = 0
	case harmStrip:
		o.ctrl, o.label, o.mark = nobody, 0, 0
	case harmUndigest:
		o.digest = 0
	case harmSicken:
		o.health = sick
	case harmRestore:
		o.uid, o.fields, o.flags = s.freshUID(), 0, o.flags&flagAdopted
	case harmReplace:
		o = object{uid: s.freshUID(), ctrl: somebody, health: ready}
	case harmUsurp:
		o = object{uid: s.freshUID(), health: ready}
	case harmRelabel:
		other := uint8(3) - o.label
		o.label, o.mark = other, other
	}
	m.set(s, k, o)
}

// finding is a state in which an invariant is violated, and the way to it.
type finding struct {
	invariant string
	way       []step
}

func (f *finding) String() string {
	lines := []string{f.invariant, "after:"}
	for _, t := range f.way {
		lines = append(lines, "  "+t.String())
	}
	return strings.Join(lines, "\n")
}

// explore searches every state that can be reached, breadth first, so that what it finds comes with a shortest way. It
// returns how many states and steps there are. States are told apart by hashes of 64 bits: among ten million of them the
// odds that two share one, so that one is not looked at, are one in three hundred thousand.
func (m *model) explore(start state) (states, steps int, found *finding) {
	type origin struct {
		from int32
		by   step
	}
	known := map[uint64]bool{maphash.Comparable(seed, start): true}
	origins := []origin{{from: -1}}
	way := func(at int32) (out []step) {
		for ; origins[at].from >= 0; at = origins[at].from {
			out = append([]step{origins[at].by}, out...)
		}
		return out
	}
	frontier, next := []state{start}, []state(nil)
	at, base := int32(0), int32(0)
	for len(frontier) > 0 && found == nil {
		for n := range frontier {
			at = base + int32(n)
			for schedule := range schedules {
				if invariant := m.rest(frontier[n], schedule); invariant != "" && found == nil {
					found = &finding{invariant: invariant, way: way(at)}
				}
				if len(m.controllers) == 1 {
					break
				}
			}
			if found != nil {
				break
			}
			m.steps(&frontier[n], func(t step) {
				steps++
				after, broken := m.do(frontier[n], t)
				if broken != "" && found == nil {
					found = &finding{invariant: broken, way: append(way(at), t)}
				}
				id := maphash.Comparable(seed, after)
				if !known[id] {
					known[id] = true
					origins = append(origins, origin{from: at, by: t})
					next = append(next, after)
				}
			})
		}
		base += int32(len(frontier))
		frontier, next = next, frontier[:0]
	}
	return len(known), steps, found
}

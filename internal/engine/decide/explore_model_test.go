package decide

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/plan"
)

// This file and its neighbours explore_*_test.go check decide the way a model checker does (campaign C10): a small model
// of an API server, of its garbage collector and of the engine around decide is searched breadth first through every
// interleaving, crash, lost answer, stale cache and interference within a bound. decide itself is no model: the search
// calls the product's Decide.
//
// Everything of a state is a byte, so that a state is compared and hashed as one piece of memory.
const (
	maxStacks      = 2
	maxKeys        = 3
	maxControllers = 2
	// maxLag is how many versions of an object a cache knows or has yet to learn of: the one it has and the later ones.
	// A watch that is behind by more counts as having delivered the oldest.
	maxLag = 3
)

// Values of object.ctrl beyond ownerOf, and of object.fields beyond fieldsOf.
const (
	nobody     = 0
	somebody   = 100 // An owner that MLKeeper knows nothing of and that never goes away.
	disturbed  = 255 // What is left of MLKeeper's fields after somebody changed one of them.
	ownerCount = 2   // How often a custom resource of one name is made.
)

// Flags of an object.
const (
	flagCreated uint8 = 1 << iota
	flagAdopted
	flagTerminating
)

// Healths of an object.
const (
	unready uint8 = iota
	ready
	sick // It never becomes ready.
)

// object is one object of the cluster, or a cache's copy of it; the zero value is none.
type object struct {
	uid, ctrl uint8
	// label is the stack whose controller and stack labels the object carries, mark the one that its owner annotation names,
	// both counted from one.
	label, mark    uint8
	digest, fields uint8
	flags, health  uint8
	// maker and kept exist in the model alone: which stack made or adopted the object, counted from one, and that no
	// stack may delete it.
	maker, kept uint8
}

func (o object) is(flag uint8) bool { return o.flags&flag != 0 }

// entry is one entry of an inventory.
type entry struct{ uid, digest, fields, retain uint8 }

// move is an action of a decision that has not been performed yet.
type move struct{ verb, key, uid, known, digest, adopted uint8 }

// Verbs of moves.
const (
	moveCreate uint8 = iota + 1
	moveApply
	moveDelete
)

// resource is a custom resource.
type resource struct{ alive, incarnation, version uint8 }

// worker is what the engine holds in memory for one custom resource, but for saved, which is in its status.
type worker struct {
	cr resource // As the cache has it.
	// pass is the custom resource that the pass under way, or the last one, is about.
	pass    resource
	pending [maxKeys]move
	count   uint8 // Of pending.
	// keep are the objects that the last decision was about, conflicts those that it reported as another's, gated those
	// that wait for a gate; bits by key.
	keep, conflicts, gated uint8
	entries, saved         [maxKeys]entry
	deleted                [maxKeys]uint8
}

// feed is one object as the watch of a controller knows it: hist[0] is in the cache, the rest is on its way, and view is the
// first that the engine may see, since it reads its own writes (invariant 12).
type feed struct {
	hist            [maxLag]object
	n, view, synced uint8
}

type state struct {
	real  [maxKeys]object
	feeds [maxControllers][maxKeys]feed
	crs   [maxStacks]resource
	work  [maxStacks]worker
	// faults and edits are how many more there may be.
	faults, edits uint8
}

// child is one object that stacks of a scenario declare.
type child struct {
	gvk    schema.GroupVersionKind
	retain bool
	stage  int
	// versions has a bit for each version of the custom resource that declares the child, by stack.
	versions [maxStacks]uint8
}

// scenario is what a search starts from.
type scenario struct {
	name     string
	children []child
	// controllers is the controller of each stack.
	controllers []uint8
	// adopt says which stacks have the annotation that lets them adopt.
	adopt [maxStacks]bool
	// planted puts objects of nobody where the children are to be.
	planted bool
	// gate says that the first stage waits to be healthy.
	gate bool
	// relabel lets the adversary give an object the marks of the other stack.
	relabel bool
	// deletes lets users delete custom resources and make them again; without it they only change them.
	deletes bool
	// faults and edits bound what interferes, in the short and in the long form.
	faults, edits [2]uint8
}

// rendering is what decide is told of the desired object of one stack, incarnation and version.
type rendering struct {
	item   Item
	digest uint8
	wanted bool
}

// model is a scenario with everything derived from it that does not change during a search.
type model struct {
	scenario
	stacks  []plan.Stack // By stack and incarnation.
	keys    []plan.Key
	digests []string // By code; 0 is none.
	// rendered is by owner (see ownerOf, less one), version and key.
	rendered  [maxStacks * ownerCount][2][maxKeys]rendering
	decisions map[question]decision
	calm      [schedules]map[uint64]string
}

// ownerOf is the value of object.ctrl for a custom resource, by which its incarnations are told apart.
func ownerOf(stack int, incarnation uint8) uint8 { return uint8(stack)*ownerCount + incarnation + 1 }

// fieldsOf is the hash of what MLKeeper owns after it wrote a digest by POST or by apply.
func fieldsOf(digest uint8, applied bool) uint8 {
	if applied {
		return digest*2 + 1
	}
	return digest * 2
}

func newModel(sc scenario) (*model, error) {
	m := &model{scenario: sc, digests: []string{""}, decisions: map[question]decision{}}
	for i := range m.calm {
		m.calm[i] = map[uint64]string{}
	}
	codes := map[string]uint8{}
	for s, controller := range sc.controllers {
		for inc := range uint8(ownerCount) {
			st := plan.Stack{
				Controller: fmt.Sprint("controller-", controller), GVK: schema.GroupVersionKind{Group: "g.io", Version: "v1", Kind: "Thing"},
				Namespace: "ns", Name: fmt.Sprint("cr-", s), UID: ownerUID(ownerOf(s, inc)),
			}
			m.stacks = append(m.stacks, st)
			for version := range 2 {
				for k, c := range sc.children {
					r, err := c.render(st, s, version, k)
					if err != nil {
						return nil, err
					}
					if codes[r.item.Digest] == 0 {
						codes[r.item.Digest] = uint8(len(m.digests))
						m.digests = append(m.digests, r.item.Digest)
					}
					r.digest = codes[r.item.Digest]
					m.rendered[ownerOf(s, inc)-1][version][k] = r
				}
			}
		}
	}
	for k := range sc.children {
		m.keys = append(m.keys, m.rendered[0][0][k].item.Key)
	}
	return m, nil
}

// render stamps a child with the marks of a stack, as the product does.
func (c child) render(st plan.Stack, s, version, k int) (rendering, error) {
	o := desired(c.gvk, keyFor(c.gvk, fmt.Sprint("child-", k)))
	o.Desired.Object["data"] = map[string]any{"of": fmt.Sprint(s), "version": fmt.Sprint(version)}
	o.Retain = c.retain
	owner := plan.Owner{APIVersion: "g.io/v1", Kind: "Thing", Name: st.Name, UID: st.UID}
	stamped, err := plan.Stamp(digest.Key{}, o, st, owner, c.stage)
	return rendering{
		item: Item{Stamped: stamped, Served: true}, wanted: c.versions[s]&(1<<version) != 0,
	}, err
}

// start is the state in which the stacks have just been made.
func (m *model) start(long bool) state {
	form := 0
	if long {
		form = 1
	}
	s := state{faults: m.faults[form], edits: m.edits[form]}
	for k := range m.children {
		if m.planted {
			s.real[k] = object{uid: s.freshUID(), health: ready}
		}
		for r := range s.feeds {
			s.feeds[r][k] = feed{n: 1, synced: 1}
		}
	}
	for i := range m.controllers {
		s.crs[i].alive = 1
		s.work[i].cr.alive = 1
	}
	s.canonical()
	return s
}

// shown is what a watch restricted to a controller's label shows of an object.
func (m *model) shown(controller uint8, o object) object {
	if o.label == 0 || m.controllers[o.label-1] != controller {
		return object{}
	}
	o.maker, o.kept = 0, 0
	return o
}

// set changes an object and sends the change on its way to the caches.
func (m *model) set(s *state, k int, o object) {
	if o.uid == 0 {
		o = object{}
	}
	s.real[k] = o
	for controller := range s.feeds {
		f := &s.feeds[controller][k]
		seen := m.shown(uint8(controller), o)
		if f.hist[f.n-1] == seen {
			continue
		}
		if f.n == maxLag {
			f.advance(1)
		}
		f.hist[f.n] = seen
		f.n++
	}
}

// advance lets a cache learn of further versions.
func (f *feed) advance(by uint8) {
	for ; by > 0 && f.n > 1; by-- {
		copy(f.hist[:], f.hist[1:])
		f.n--
		f.hist[f.n] = object{}
		if f.view > 0 {
			f.view--
		}
	}
}

// remove deletes an object as the API server does.
func (m *model) remove(s *state, k int, held bool) {
	if held {
		o := s.real[k]
		o.flags |= flagTerminating
		m.set(s, k, o)
		return
	}
	m.set(s, k, object{})
}

// orphaned says that the garbage collector deletes an object: it has an owner, and that is gone.
func (m *model) orphaned(s *state, o object) bool {
	if o.uid == 0 || o.ctrl == nobody || o.ctrl == somebody || o.is(flagTerminating) {
		return false
	}
	owner := s.crs[(o.ctrl-1)/ownerCount]
	return owner.alive == 0 || owner.incarnation != (o.ctrl-1)%ownerCount
}

// uids calls f with every UID of a state.
func (s *state) uids(f func(*uint8)) {
	for k := range maxKeys {
		f(&s.real[k].uid)
		for r := range s.feeds {
			for i := range s.feeds[r][k].hist {
				f(&s.feeds[r][k].hist[i].uid)
			}
		}
		for i := range s.work {
			w := &s.work[i]
			f(&w.entries[k].uid)
			f(&w.saved[k].uid)
			f(&w.deleted[k])
			f(&w.pending[k].uid)
			f(&w.pending[k].known)
		}
	}
}

// canonical renumbers UIDs in the order in which they come, since only which are the same matters.
func (s *state) canonical() {
	var names [256]uint8
	next := uint8(0)
	s.uids(func(uid *uint8) {
		if *uid == 0 {
			return
		}
		if names[*uid] == 0 {
			next++
			names[*uid] = next
		}
		*uid = names[*uid]
	})
}

// freshUID is a UID that nothing has.
func (s *state) freshUID() uint8 {
	highest := uint8(0)
	s.uids(func(uid *uint8) { highest = max(highest, *uid) })
	return highest + 1
}

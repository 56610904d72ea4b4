package decide

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// question is everything that a decision depends on, so that each is asked of Decide once.
type question struct {
	stack   uint8
	cr      resource
	others  uint8 // Bits of the custom resources that exist, as the cache has it.
	views   [maxKeys]object
	synced  [maxKeys]uint8
	entries [maxKeys]entry
	deleted [maxKeys]uint8
}

// decision is what Decide answered, as far as it matters to the model.
type decision struct {
	moves                  [maxKeys]move
	count                  uint8
	keep, conflicts, gated uint8
	// deleted is what is left of the deletions that are remembered.
	deleted [maxKeys]uint8
	// broken names the invariant that the decision violates, if any.
	broken string
}

func ownerUID(ctrl uint8) types.UID { return types.UID(fmt.Sprint("owner-", ctrl)) }

func objectUID(uid uint8) types.UID {
	if uid == 0 {
		return ""
	}
	return types.UID(fmt.Sprint("uid-", uid))
}

// observed is what the engine keeps of an object.
func (m *model) observed(k int, o object) *observe.Object {
	if o.uid == 0 {
		return nil
	}
	out := &observe.Object{
		Key: m.keys[k], APIVersion: m.children[k].gvk.GroupVersion().String(), OwnedFieldsHash: hashOf(o.fields),
		Created: o.is(flagCreated), Health: health.Result{Status: health.InProgress},
	}
	out.UID = objectUID(o.uid)
	out.Labels, out.Annotations = map[string]string{}, map[string]string{}
	if o.health == ready {
		out.Health.Status = health.Current
	}
	if o.label != 0 {
		st := m.stacks[(o.label-1)*ownerCount]
		out.Labels[keeper.ControllerLabel], out.Labels[keeper.StackLabel] = st.Controller, st.Hash()
	}
	if o.mark != 0 {
		out.Annotations[keeper.OwnerAnnotation] = m.stacks[(o.mark-1)*ownerCount].ID()
	}
	if o.digest != 0 {
		out.Annotations[keeper.AppliedHashAnnotation] = m.digests[o.digest]
	}
	if o.is(flagAdopted) {
		out.Annotations[keeper.AdoptedAnnotation] = "true"
	}
	if o.ctrl != nobody {
		yes := true
		out.OwnerReferences = []metav1.OwnerReference{{UID: ownerUID(o.ctrl), Controller: &yes}}
	}
	if o.is(flagTerminating) {
		at := metav1.Unix(0, 0)
		out.DeletionTimestamp = &at
	}
	return out
}

func hashOf(fields uint8) string {
	if fields == 0 {
		return ""
	}
	return fmt.Sprint("hash-", fields)
}

func (m *model) known(k int, e entry) keeper.InventoryEntry {
	out := keeper.InventoryEntry{
		ObjectReference: keeper.ObjectReference{
			Group: m.keys[k].Group, Version: m.children[k].gvk.Version, Kind: m.keys[k].Kind,
			Namespace: m.keys[k].Namespace, Name: m.keys[k].Name,
		},
		UID: objectUID(e.uid), AppliedHash: m.digests[e.digest], OwnedFieldsHash: hashOf(e.fields),
	}
	if e.retain != 0 {
		out.Policy = keeper.Retain
	}
	return out
}

// input does what the pass does before it decides: it looks at the caches through what is known of its own writes.
func (m *model) input(q *question) Input {
	st := m.stacks[ownerOf(int(q.stack), q.cr.incarnation)-1]
	in := Input{Stack: st, Owners: []plan.Owner{{UID: st.UID}}, Prune: true, Stages: make([]Stage, 2)}
	in.Stages[0].WaitHealthy = m.gate
	rendered := &m.rendered[ownerOf(int(q.stack), q.cr.incarnation)-1][q.cr.version]
	for k, c := range m.children {
		view := q.views[k]
		if q.deleted[k] != 0 && view.uid != 0 && !view.is(flagTerminating) {
			if q.deleted[k] == view.uid {
				view.flags |= flagTerminating
			} else {
				q.deleted[k] = 0
			}
		}
		seen, e := m.observed(k, view), q.entries[k]
		recorded := e != entry{}
		switch {
		case rendered[k].wanted:
			item := rendered[k].item
			item.Synced, item.Observed = q.synced[k] != 0, seen
			if recorded {
				known := m.known(k, e)
				item.Known = &known
			}
			item.Adopt = m.adopt[q.stack] && seen != nil && view.ctrl == nobody && view.mark != 0 &&
				q.others&(1<<(view.mark-1)) == 0
			item.Held = seen != nil && view.mark != 0 && view.mark != q.stack+1 && q.others&(1<<(view.mark-1)) != 0
			in.Stages[c.stage].Items = append(in.Stages[c.stage].Items, item)
		case recorded:
			gone := seen == nil && q.deleted[k] == e.uid
			in.Extras = append(in.Extras, Extra{Entry: m.known(k, e), Observed: seen, Gone: gone, Unwatched: q.synced[k] == 0})
		case seen != nil && view.label == q.stack+1:
			in.Extras = append(in.Extras, Extra{Observed: seen})
		}
	}
	return in
}

// ask has Decide judge, and judges what it answered.
func (m *model) ask(q question) decision {
	if d, ok := m.decisions[q]; ok {
		return d
	}
	asked := q
	in := m.input(&q)
	out := decision{deleted: q.deleted}
	waits := map[plan.Key]bool{}
	for _, stage := range in.Stages {
		for _, item := range stage.Items {
			waits[item.Key] = item.Observed != nil
		}
	}
	for _, a := range Decide(in) {
		k := 0
		for m.keys[k] != a.Key {
			k++
		}
		if invariant := unsafe(in, a); invariant != "" && !recordedAsOurs(in, a) {
			out.broken = fmt.Sprintf("%s: %s %s (%s)", invariant, a.Verb, a.Key, a.Reason)
		}
		if a.Reason == ReasonDependency && (a.Verb != Wait || waits[a.Key]) {
			out.broken = "a gate holds back what exists: " + a.Key.String()
		}
		out.keep |= 1 << k
		mv := move{key: uint8(k), uid: codeOf(a.UID), known: codeOf(a.KnownUID)}
		if a.Adopted {
			mv.adopted = 1
		}
		switch {
		case a.Verb == Conflict:
			out.conflicts |= 1 << k
		case a.Verb == Wait && a.Reason == ReasonDependency:
			out.gated |= 1 << k
		case a.Verb == Create:
			mv.verb = moveCreate
		case a.Verb == Apply:
			mv.verb = moveApply
		case a.Verb == Delete:
			mv.verb = moveDelete
		}
		if mv.verb == 0 {
			continue
		}
		if mv.verb != moveDelete {
			mv.digest = m.rendered[ownerOf(int(q.stack), q.cr.incarnation)-1][q.cr.version][k].digest
		}
		out.moves[out.count] = mv
		out.count++
	}
	m.decisions[asked] = out
	return out
}

// recordedAsOurs says that somebody else's marks are on an object of which we know by its UID that it is ours, which
// unsafe does not know of.
func recordedAsOurs(in Input, a Action) bool {
	all, _ := items(in)
	item := all[a.Key]
	return a.Verb == Apply && item.Observed != nil && item.recorded() && a.UID == item.Observed.UID
}

// codeOf is the inverse of objectUID.
func codeOf(uid types.UID) uint8 {
	var code uint8
	if _, err := fmt.Sscanf(string(uid), "uid-%d", &code); err != nil {
		return 0
	}
	return code
}

// decideFor lets a worker decide from what its caches show.
func (m *model) decideFor(s *state, i int) string {
	w := &s.work[i]
	if w.cr.alive == 0 {
		*w = worker{cr: w.cr, saved: w.saved} // The product forgets what is gone.
		return ""
	}
	if w.cr.incarnation != w.pass.incarnation {
		w.entries = [maxKeys]entry{}
		if s.crs[i].incarnation == w.cr.incarnation {
			w.entries = w.saved
		}
	}
	q := question{stack: uint8(i), cr: w.cr, entries: w.entries, deleted: w.deleted}
	for j := range m.controllers {
		q.others |= s.work[j].cr.alive << j
	}
	for k := range m.children {
		f := &s.feeds[m.controllers[i]][k]
		q.synced[k] = f.synced
		if f.synced != 0 {
			q.views[k] = f.hist[f.view]
		}
	}
	d := m.ask(q)
	w.pass, w.deleted, w.pending, w.count = w.cr, d.deleted, d.moves, d.count
	w.keep, w.conflicts, w.gated = d.keep, d.conflicts, d.gated
	if w.count == 0 {
		w.endPass()
	}
	return d.broken
}

// endPass forgets what the decision was not about any more.
func (w *worker) endPass() {
	for k := range w.entries {
		if w.keep&(1<<k) != 0 {
			continue
		}
		if w.deleted[k] != 0 && (w.entries[k] == entry{} || w.entries[k].uid == w.deleted[k]) {
			w.deleted[k] = 0
		}
		w.entries[k] = entry{}
	}
}

// save writes the inventory into the status, which is guarded by the UID of the custom resource.
func (s *state) save(i int) {
	w := &s.work[i]
	if s.crs[i].alive != 0 && s.crs[i].incarnation == w.pass.incarnation {
		w.saved = w.entries
	}
}

// owns says that an object belongs to the custom resource of a pass, as observe.Object.OwnedBy says it.
func (m *model) owns(i int, incarnation uint8, o object) bool {
	if o.ctrl != nobody {
		return o.ctrl == ownerOf(i, incarnation)
	}
	return o.label != 0 && m.controllers[o.label-1] == m.controllers[i] && o.mark == uint8(i)+1
}

// perform does what act does with the next action of a worker. With lost the answer does not arrive: what was written
// is written, but nobody knows. It says whether the cluster was changed, and which invariant was violated.
func (m *model) perform(s *state, i int, lost bool) (changed bool, broken string) {
	w := &s.work[i]
	mv := w.pending[0]
	k := int(mv.key)
	before := s.real[k]
	switch mv.verb {
	case moveCreate:
		broken = m.create(s, i, mv, lost)
	case moveApply:
		m.applyMove(s, i, mv, lost)
	case moveDelete:
		switch {
		case before.ctrl != ownerOf(i, w.pass.incarnation) &&
			(before.ctrl != nobody || before.mark != 0 && before.mark != uint8(i)+1):
			w.entries[k] = entry{}
		case before.uid == 0 || mv.uid != 0 && before.uid != mv.uid:
			if !lost {
				w.entries[k] = entry{}
			}
		default:
			m.remove(s, k, false)
			if !lost {
				w.deleted[k] = before.uid
			}
		}
	}
	copy(w.pending[:], w.pending[1:])
	w.pending[maxKeys-1] = move{}
	w.count--
	if w.count == 0 {
		w.endPass()
	}
	if broken == "" {
		broken = m.judgeWrite(s, i, mv, before, s.real[k])
	}
	return before != s.real[k], broken
}

// create posts an object; when the name is taken, what is read then decides. Nothing comes between the read and the
// apply that takes the object up, since that carries the resourceVersion.
func (m *model) create(s *state, i int, mv move, lost bool) (broken string) {
	w, k := &s.work[i], int(mv.key)
	live := s.real[k]
	if live.uid == 0 {
		o := object{
			uid: s.freshUID(), label: uint8(i) + 1, mark: uint8(i) + 1, digest: mv.digest,
			fields: fieldsOf(mv.digest, false), flags: flagCreated, maker: uint8(i) + 1,
		}
		if m.children[k].retain {
			o.kept = 1
		} else {
			o.ctrl = ownerOf(i, w.pass.incarnation)
		}
		m.set(s, k, o)
		m.answered(s, i, k, lost)
		return ""
	}
	if lost {
		return ""
	}
	ours := m.owns(i, w.pass.incarnation, live) || live.ctrl == nobody && mv.known != 0 && mv.known == live.uid &&
		(live.mark == 0 || live.mark == uint8(i)+1)
	adopts := live.ctrl == nobody && live.mark == 0 && m.adopt[i]
	switch {
	case !ours && !adopts:
		w.conflicts |= 1 << k
		return ""
	case live.is(flagTerminating):
		return ""
	case m.heldByAnother(s, i, k, live):
		return "an object is taken from another custom resource that holds it"
	}
	mv.verb, mv.uid, mv.adopted = moveApply, live.uid, 0
	if !ours || live.is(flagAdopted) {
		mv.adopted = 1
	}
	m.applyMove(s, i, mv, lost)
	return ""
}

// applyMove applies by UID. Without one it is by name, and makes the object where there is none, as the API server does.
func (m *model) applyMove(s *state, i int, mv move, lost bool) {
	w, k := &s.work[i], int(mv.key)
	o := s.real[k]
	if mv.uid != 0 && o.uid != mv.uid {
		return
	}
	if o.uid == 0 {
		o.uid = s.freshUID()
	}
	owned := !m.children[k].retain && mv.adopted == 0
	mine := ownerOf(i, w.pass.incarnation)
	switch {
	case owned && o.ctrl != nobody && o.ctrl != mine:
		return // The API server refuses a second controller.
	case owned:
		o.ctrl = mine
	case o.ctrl == mine:
		o.ctrl = nobody
	}
	o.label, o.mark, o.maker = uint8(i)+1, uint8(i)+1, uint8(i)+1
	if o.digest != mv.digest && o.health != sick {
		o.health = unready
	}
	o.digest, o.fields = mv.digest, fieldsOf(mv.digest, true)
	o.flags &^= flagCreated | flagAdopted
	o.kept = 0
	if mv.adopted != 0 {
		o.flags |= flagAdopted
	}
	if !owned {
		o.kept = 1
	}
	m.set(s, k, o)
	m.answered(s, i, k, lost)
}

// answered remembers the answer of a write: in the inventory, and over an older cache.
func (m *model) answered(s *state, i, k int, lost bool) {
	if lost {
		return
	}
	o := s.real[k]
	e := entry{uid: o.uid, digest: o.digest, fields: o.fields}
	if m.children[k].retain || o.is(flagAdopted) {
		e.retain = 1
	}
	s.work[i].entries[k] = e
	f := &s.feeds[m.controllers[i]][k]
	f.view = f.n - 1
}

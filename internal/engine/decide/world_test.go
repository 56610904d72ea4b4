package decide

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

var (
	stack = plan.Stack{
		Controller: "trustyai", GVK: schema.GroupVersionKind{Group: "g.io", Version: "v1", Kind: "Thing"},
		Namespace: "ns", Name: "cr", UID: "cr-uid",
	}
	self = plan.Owner{APIVersion: "g.io/v1", Kind: "Thing", Name: "cr", UID: "cr-uid"}
)

// kinds that the worlds are made of; two of them differ in their group only.
var kinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ConfigMap"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Version: "v1", Kind: "Namespace"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "x.io", Version: "v1", Kind: "Gateway"},
	{Group: "y.io", Version: "v1", Kind: "Gateway"},
}

// thing is one object of a model cluster.
type thing struct {
	uid types.UID
	// controller is the UID of the controlling owner, marked whether it carries our labels, so that a watch shows it.
	controller types.UID
	marked     bool
	// id is the owner annotation.
	id     string
	digest string
	fields string
	// created says that what we own is still the entry of a POST.
	created, adopted, terminating bool
	// immutable says that applies of another digest are refused, and that the object may be recreated.
	immutable bool
	// lingers says that a finalizer holds the object for a moment.
	lingers bool
	health  health.Status
	// run is what a hook was run for, completed that it has ended.
	run       string
	completed bool
	// sick says that the object never becomes healthy.
	sick bool
}

func (th thing) observed(gvk schema.GroupVersionKind, key plan.Key) *observe.Object {
	o := &observe.Object{
		Key: key, APIVersion: gvk.GroupVersion().String(), OwnedFieldsHash: th.fields, Created: th.created,
		Health: health.Result{Status: th.health},
	}
	o.Namespace, o.Name, o.UID, o.ResourceVersion = key.Namespace, key.Name, th.uid, "1"
	o.Annotations = map[string]string{}
	if th.id != "" {
		o.Annotations[keeper.OwnerAnnotation] = th.id
	}
	if th.digest != "" {
		o.Annotations[keeper.AppliedHashAnnotation] = th.digest
	}
	if th.run != "" {
		o.Annotations[keeper.RunAnnotation] = th.run
	}
	o.Completed = th.completed
	if th.adopted {
		o.Annotations[keeper.AdoptedAnnotation] = "true"
	}
	if th.marked {
		o.Labels = map[string]string{keeper.ControllerLabel: stack.Controller, keeper.StackLabel: stack.Hash()}
	}
	if th.controller != "" {
		yes := true
		o.OwnerReferences = []metav1.OwnerReference{{UID: th.controller, Controller: &yes}}
	}
	if th.terminating {
		now := metav1.Unix(0, 0)
		o.DeletionTimestamp = &now
	}
	return o
}

// world is a model cluster together with what MLKeeper wants of it and remembers of it.
type world struct {
	things  map[plan.Key]thing
	gvks    map[plan.Key]schema.GroupVersionKind
	entries map[plan.Key]keeper.InventoryEntry
	// deleted is what the engine remembers in memory of its deletions.
	deleted map[plan.Key]types.UID
	// closed counts for how many rounds the gate of a stage has been closed.
	closed []int
	stages []Stage
	adopt  bool
	next   int
	// unsettled are objects of which it depends on the inventory whose they are.
	unsettled map[plan.Key]bool
}

func (w *world) clone() *world {
	out := *w
	out.things, out.entries, out.deleted = maps.Clone(w.things), maps.Clone(w.entries), maps.Clone(w.deleted)
	out.closed = slices.Clone(w.closed)
	return &out
}

func (w *world) uid() types.UID {
	w.next++
	return types.UID(fmt.Sprint("uid-", w.next))
}

// seen is what a watch restricted to our labels shows of an object.
func (w *world) seen(key plan.Key) *observe.Object {
	th, ok := w.things[key]
	if !ok || !th.marked {
		return nil
	}
	return th.observed(w.gvks[key], key)
}

// input is what the engine puts together before it decides.
func (w *world) input() Input {
	in := Input{Stack: stack, Owners: []plan.Owner{self}, Prune: true}
	desired := map[plan.Key]bool{}
	for i, stage := range w.stages {
		stage.Items = slices.Clone(stage.Items)
		for j := range stage.Items {
			item := &stage.Items[j]
			desired[item.Key] = true
			item.Observed, item.Known = w.seen(item.Key), nil
			if e, ok := w.entries[item.Key]; ok {
				item.Known = &e
			}
			item.Adopt = w.adopt && item.Observed != nil && w.things[item.Key].controller == "" &&
				w.things[item.Key].id == "Thing.g.io/ns/gone"
		}
		stage.TimedOut = w.closed[i] >= 2
		in.Stages = append(in.Stages, stage)
	}
	for key, e := range w.entries {
		if !desired[key] {
			x := Extra{Entry: e, Observed: w.seen(key)}
			x.Gone = x.Observed == nil && w.deleted[key] == e.UID && e.UID != ""
			in.Extras = append(in.Extras, x)
		}
	}
	for key := range w.things {
		if _, known := w.entries[key]; !known && !desired[key] && w.seen(key) != nil {
			in.Extras = append(in.Extras, Extra{Observed: w.seen(key)})
		}
	}
	return in
}

func written(digest string, operation string) string { return operation + " of " + digest }

// perform does what act does with one action, and says whether the cluster was changed.
func (w *world) perform(a Action) bool {
	th, exists := w.things[a.Key]
	switch {
	case a.Verb == Create && !exists:
		th = thing{
			uid: w.uid(), marked: true, id: stack.ID(), digest: a.Object.Digest, created: true,
			fields: written(a.Object.Digest, "Update"), health: health.InProgress,
		}
		if !a.Object.Retain && !plan.AlwaysRetained(a.Key) {
			th.controller = self.UID
		}
		w.things[a.Key] = th
	case a.Verb == Create:
		o := th.observed(w.gvks[a.Key], a.Key)
		ours := o.OwnedBy(stack, self) || o.Refers(self) || th.controller == "" && a.KnownUID == th.uid
		adopts := th.controller == "" && th.id == "" && w.adopt
		if a.Object.IfNotPresent && ours || !ours && !adopts || th.terminating {
			return false
		}
		a.Adopted = th.adopted || !ours
		return w.apply(a, th)
	case a.Verb == Apply:
		if !exists || th.uid != a.UID {
			return false
		}
		return w.apply(a, th)
	case a.Verb == Delete:
		if !exists || th.uid != a.UID {
			delete(w.entries, a.Key)
			return false
		}
		w.remove(a.Key, th)
		return true
	}
	w.remember(a)
	return a.Verb == Create
}

func (w *world) apply(a Action, th thing) bool {
	if th.immutable && th.digest != a.Object.Digest {
		w.remove(a.Key, th)
		return true
	}
	after := th
	after.marked, after.id, after.digest, after.created = true, stack.ID(), a.Object.Digest, false
	after.fields = written(a.Object.Digest, "Apply")
	after.adopted = th.adopted || a.Adopted
	if !after.adopted && !a.Object.Retain && !plan.AlwaysRetained(a.Key) {
		after.controller = self.UID
	}
	if a.Object.Retain && after.controller == self.UID {
		after.controller = ""
	}
	w.things[a.Key] = after
	w.remember(a)
	return after != th
}

func (w *world) remove(key plan.Key, th thing) {
	w.deleted[key] = th.uid
	if th.lingers {
		th.terminating = true
		w.things[key] = th
		return
	}
	delete(w.things, key)
}

func (w *world) remember(a Action) {
	e := w.entry(a.Key, w.things[a.Key])
	if a.Object.Retain || w.things[a.Key].adopted {
		e.Policy = keeper.Retain
	}
	w.entries[a.Key] = e
}

func (w *world) entry(key plan.Key, th thing) keeper.InventoryEntry {
	return keeper.InventoryEntry{
		ObjectReference: keeper.ObjectReference{
			Group: key.Group, Version: w.gvks[key].Version, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name,
		},
		UID: th.uid, AppliedHash: th.digest, OwnedFieldsHash: th.fields,
	}
}

// round runs the loop once, and ends after a number of writes as a crash would when limit is not negative. It returns
// how many writes changed the cluster and which there were to make.
func (w *world) round(limit int) (changes int, in Input, actions []Action) {
	in = w.input()
	actions = Decide(in)
	for i, stage := range in.Stages {
		if ClosedBy(in, stage) == "" {
			w.closed[i] = 0
		} else {
			w.closed[i]++
		}
	}
	writes, before := 0, maps.Clone(w.entries)
	keep := map[plan.Key]bool{}
	for _, a := range actions {
		keep[a.Key] = true
		if !a.Writes() {
			continue
		}
		if writes == limit {
			break
		}
		writes++
		if w.perform(a) {
			changes++
		}
	}
	if limit >= 0 {
		// What was written was not recorded.
		w.entries, w.deleted = before, map[plan.Key]types.UID{}
		clear(w.closed)
	} else {
		maps.DeleteFunc(w.entries, func(key plan.Key, _ keeper.InventoryEntry) bool { return !keep[key] })
	}
	return changes, in, actions
}

// settle is what the cluster does by itself between two rounds.
func (w *world) settle() {
	for key, th := range w.things {
		switch {
		case th.terminating:
			delete(w.things, key)
		case !th.sick && th.health != health.Current:
			th.health = health.Current
			w.things[key] = th
		}
	}
}

func keyFor(gvk schema.GroupVersionKind, name string) plan.Key {
	k := plan.Key{GroupKind: gvk.GroupKind(), Namespace: stack.Namespace, Name: name}
	if plan.AlwaysRetained(k) {
		k.Namespace = ""
	}
	if gvk.Kind == "Namespace" && name == "a" {
		k.Name = stack.Namespace // The one that everything is in.
	}
	return k
}

func desired(gvk schema.GroupVersionKind, key plan.Key) plan.Object {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	if key.Kind == "CustomResourceDefinition" {
		u.Object["spec"] = map[string]any{"group": "x.io", "names": map[string]any{"kind": "Gateway"}}
	}
	return plan.Object{Desired: u}
}

// drawThing draws an object in any state that it may be in when the engine comes to it.
func (w *world) drawThing(t *rapid.T, key plan.Key, digest string) {
	th := thing{
		uid: w.uid(), digest: digest, fields: written(digest, "Apply"), health: health.Current,
		lingers:   rapid.Bool().Draw(t, "lingers"),
		sick:      rapid.IntRange(0, 5).Draw(t, "sick") == 5,
		immutable: rapid.IntRange(0, 5).Draw(t, "immutable") == 5,
	}
	state := rapid.SampledFrom([]string{
		"absent", "ours", "posted", "changed", "drifted", "unlabelled", "retained", "retained unlabelled", "adopted",
		"of a custom resource that is gone", "of another", "nobody's", "never ours but controlled",
	}).Draw(t, "state")
	th.marked, th.id = true, stack.ID()
	if !plan.AlwaysRetained(key) {
		th.controller = self.UID
	}
	switch state {
	case "absent":
		return
	case "posted":
		th.created, th.fields = true, written(digest, "Update")
	case "changed":
		th.digest, th.fields = "old", written("old", "Apply")
	case "drifted":
		th.fields = "something else"
	case "unlabelled":
		th.marked = false
		w.unsettled[key] = th.controller == ""
	case "retained":
		th.controller = ""
	case "retained unlabelled":
		th.controller, th.marked, th.id = "", false, ""
		w.unsettled[key] = true
	case "adopted":
		th.controller, th.adopted = "", true
	case "of a custom resource that is gone":
		th.controller, th.id = "", "Thing.g.io/ns/gone"
	case "of another":
		th.controller = "other"
	case "nobody's":
		th.controller, th.marked, th.id, th.digest, th.fields = "", false, "", "", ""
	case "never ours but controlled":
		th.controller, th.marked, th.id, th.digest, th.fields = "other", false, "", "", ""
	}
	th.terminating = rapid.IntRange(0, 5).Draw(t, "terminating") == 5
	if th.sick {
		th.health = health.InProgress
	}
	w.things[key] = th
}

// drawEntry draws what is remembered of an object: nothing, the truth, an earlier digest, or another object of the
// name.
func (w *world) drawEntry(t *rapid.T, key plan.Key, retain bool) {
	th, exists := w.things[key]
	foreign := exists && (th.controller == "other" || th.id != stack.ID() && !w.unsettled[key])
	e := w.entry(key, th)
	if th.fields == "something else" {
		e.OwnedFieldsHash = written(th.digest, "Apply")
	}
	switch rapid.SampledFrom([]string{"nothing", "truth", "older", "predecessor", "listed"}).Draw(t, "inventory") {
	case "nothing":
		return
	case "truth":
		if !exists || foreign {
			e.UID = "before"
		}
	case "older":
		e.AppliedHash, e.OwnedFieldsHash = "old", written("old", "Apply")
		if foreign || !exists {
			e.UID = "before"
		}
	case "predecessor":
		e.UID = "before"
	case "listed": // In an Inventory, before the object was written.
		e.UID, e.AppliedHash, e.OwnedFieldsHash = "", "", ""
	}
	if retain && th.controller != self.UID || th.adopted {
		e.Policy = keeper.Retain
	}
	w.entries[key] = e
}

// drawWorld draws a plan, a cluster and a memory.
func drawWorld(t *rapid.T) *world {
	w := &world{
		things: map[plan.Key]thing{}, gvks: map[plan.Key]schema.GroupVersionKind{},
		entries: map[plan.Key]keeper.InventoryEntry{}, deleted: map[plan.Key]types.UID{}, unsettled: map[plan.Key]bool{},
		adopt: rapid.Bool().Draw(t, "adopt"),
	}
	w.stages = make([]Stage, rapid.IntRange(1, 3).Draw(t, "stages"))
	w.closed = make([]int, len(w.stages))
	for i := range w.stages {
		w.stages[i].Name = fmt.Sprint("stage-", i)
		w.stages[i].WaitHealthy = rapid.Bool().Draw(t, "gate")
	}
	for _, gvk := range kinds {
		for _, name := range []string{"a", "b"} {
			key := keyFor(gvk, name)
			w.gvks[key] = gvk
			retain := rapid.IntRange(0, 4).Draw(t, "retain") == 4
			stage := rapid.IntRange(-1, len(w.stages)-1).Draw(t, "stage") // -1: not in the plan any more
			if stage < 0 {
				w.drawThing(t, key, "old")
				w.drawEntry(t, key, retain)
				continue
			}
			o := desired(gvk, key)
			o.Retain = retain
			o.IfNotPresent = rapid.IntRange(0, 7).Draw(t, "createOnly") == 7
			o.Optional = rapid.IntRange(0, 3).Draw(t, "optional") == 3
			st, err := plan.Stamp(digest.Key{}, o, stack, self, stage)
			if err != nil {
				t.Fatal(err)
			}
			w.stages[stage].Items = append(w.stages[stage].Items, Item{Stamped: st, Served: true, Synced: true})
			w.drawThing(t, key, st.Digest)
			w.drawEntry(t, key, retain)
		}
	}
	return w
}

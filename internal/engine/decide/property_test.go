package decide

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// drawInput draws an input that the convergence tests would not come to by themselves: APIs that are not served, caches
// that are not complete, gates that have timed out, and problems that forbid pruning.
func drawInput(t *rapid.T) Input {
	in := drawWorld(t).input()
	in.Prune = rapid.IntRange(0, 3).Draw(t, "prune") < 3
	for i := range in.Stages {
		in.Stages[i].TimedOut = rapid.IntRange(0, 3).Draw(t, "timedOut") == 3
		for j := range in.Stages[i].Items {
			item := &in.Stages[i].Items[j]
			item.Served = rapid.IntRange(0, 5).Draw(t, "served") < 5
			item.Synced = rapid.IntRange(0, 5).Draw(t, "synced") < 5
		}
	}
	return in
}

// items lists the desired objects of an input with the gates before them.
func items(in Input) (all map[plan.Key]Item, gates map[plan.Key]string) {
	all, gates = map[plan.Key]Item{}, map[plan.Key]string{}
	for i, stage := range in.Stages {
		for _, item := range stage.Items {
			all[item.Key], gates[item.Key] = item, gateOf(in, in.Stages[:i], item.Key)
		}
	}
	return all, gates
}

// gateOf names what an object waits for that comes after stages.
func gateOf(in Input, stages []Stage, key plan.Key) string {
	for _, stage := range stages {
		if stage.TimedOut {
			continue
		}
		if stage.WaitHealthy && ClosedBy(in, stage) != "" {
			return ClosedBy(in, stage)
		}
		for _, item := range stage.Items {
			holds := item.Key.Kind == "Namespace" && item.Key.Name == key.Namespace ||
				item.Key.Kind == "CustomResourceDefinition" && key.Group == "x.io" && key.Kind == "Gateway"
			if by := ClosedBy(in, Stage{Items: []Item{item}}); holds && by != "" {
				return by
			}
		}
	}
	return ""
}

func extras(in Input) map[plan.Key]Extra {
	out := map[plan.Key]Extra{}
	for _, e := range in.Extras {
		if e.Observed != nil {
			out[e.Observed.Key] = e
			continue
		}
		k := plan.Key{Namespace: e.Entry.Namespace, Name: e.Entry.Name}
		k.Group, k.Kind = e.Entry.Group, e.Entry.Kind
		out[k] = e
	}
	return out
}

// unsafe names the invariant that an action violates, if any.
func unsafe(in Input, a Action) string {
	all, gates := items(in)
	item, wanted := all[a.Key]
	extra := extras(in)[a.Key]
	retained := plan.AlwaysRetained(a.Key) || a.Key.Kind == "PersistentVolumeClaim"
	switch a.Verb {
	case Create:
		switch {
		case !wanted || item.Observed != nil:
			return "what is there, or not wanted, is created"
		case !item.Served || !item.Synced:
			return "an object is created while nobody knows whether it is there"
		case gates[a.Key] != "":
			return "an object is created while a gate is closed"
		case a.UID != "":
			return "a create has a UID"
		}
	case Apply:
		switch {
		case !wanted || item.Observed == nil:
			return "what was not observed, or is not wanted, is applied"
		case !item.Observed.OwnedBy(in.Stack, in.Owners...) && !item.Adopt:
			return "somebody else's object is written"
		case a.UID == "" || a.UID != item.Observed.UID:
			return "an apply is not guarded by the UID"
		case item.Observed.Terminating():
			return "an object that is being deleted is written"
		case item.IfNotPresent:
			return "an object that is only to be created is written"
		}
	case Delete:
		switch {
		case !in.Prune:
			return "something is pruned while a problem stands"
		case wanted:
			return "what is wanted is deleted"
		case retained || extra.Entry.Policy == keeper.Retain:
			return "what must be retained is deleted"
		case a.UID == "" || a.Version == "":
			return "a delete is not guarded by the UID, or has no version"
		case extra.Observed == nil && (a.UID != extra.Entry.UID || extra.Gone):
			return "an object is deleted that we did not write, or that is gone"
		case extra.Observed == nil && extra.Unwatched:
			return "an object is deleted that no watch could show"
		case extra.Observed != nil && (a.UID != extra.Observed.UID || !extra.Observed.OwnedBy(in.Stack, in.Owners...)):
			return "somebody else's object is deleted"
		case extra.Observed != nil && extra.Observed.Terminating():
			return "an object that is being deleted is deleted again"
		case extra.Observed != nil && extra.Observed.Adopted():
			return "an object is deleted that we did not make"
		}
	}
	return ""
}

func TestDecideIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		for _, a := range Decide(in) {
			if invariant := unsafe(in, a); invariant != "" {
				t.Fatalf("%s: %s %s (%s)", invariant, a.Verb, a.Key, a.Reason)
			}
			if a.Reason == "" && a.Verb != Leave {
				t.Fatalf("%s %s has no reason", a.Verb, a.Key)
			}
			if a.Verb == Wait && a.Detail == "" {
				t.Fatalf("%s: nobody is told what is waited for", a.Key)
			}
		}
	})
}

func TestDecideIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		first := Decide(in)
		if !reflect.DeepEqual(first, Decide(in)) {
			t.Fatal("the same input is decided differently")
		}
		shuffled := in
		shuffled.Extras = rapid.Permutation(in.Extras).Draw(t, "extras")
		if again := Decide(shuffled); !reflect.DeepEqual(first, again) {
			t.Fatalf("the order of extras matters:\n%v\n%v", verbs(first), verbs(again))
		}
	})
}

func verbs(actions []Action) (out []string) {
	for _, a := range actions {
		out = append(out, fmt.Sprintf("%s %s %s/%s", a.Verb, a.Reason, a.Key.Group, a.Key))
	}
	return out
}

// TestEveryObjectIsDecidedOnceAndUpdatesPass compares with the same input when every gate is open: only what does not
// exist may be held back (invariant 14).
func TestEveryObjectIsDecidedOnceAndUpdatesPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		open := in
		open.Stages = append([]Stage(nil), in.Stages...)
		for i := range open.Stages {
			open.Stages[i].TimedOut = true
		}
		all, _ := items(in)
		with, without := Decide(in), Decide(open)
		seen := map[plan.Key]bool{}
		for i, a := range with {
			if seen[a.Key] {
				t.Fatalf("%s is decided twice", a.Key)
			}
			seen[a.Key] = true
			item, wanted := all[a.Key]
			if wanted && item.Observed == nil && a.Verb == Wait && a.Reason == ReasonDependency {
				if without[i].Verb != Create {
					t.Fatalf("%s waits for a gate that does not hold it back", a.Key)
				}
				continue
			}
			if !reflect.DeepEqual(a, without[i]) {
				t.Fatalf("%s is held back though it exists", a.Key)
			}
		}
		for key := range all {
			if !seen[key] {
				t.Fatalf("%s was forgotten", key)
			}
		}
	})
}

// converge runs the loop until nothing is written any more.
func converge(t *rapid.T, w *world, from string) {
	// One round writes, one makes again what had to go first, and one finds nothing to do. A gate costs two more rounds
	// when it opens, and two until it times out.
	limit := 3
	for _, stage := range w.stages {
		gated := stage.WaitHealthy
		for _, item := range stage.Items {
			gated = gated || plan.AlwaysRetained(item.Key)
		}
		if gated {
			limit += 4
		}
	}
	// At rest it stays at rest, whoever asks.
	for i := range limit + 3 {
		changes, in, actions := w.round(-1)
		for _, a := range actions {
			if invariant := unsafe(in, a); invariant != "" {
				t.Fatalf("%s, round %d: %s: %s %s (%s)", from, i+1, invariant, a.Verb, a.Key, a.Reason)
			}
		}
		if changes > 0 && i >= limit-1 {
			t.Fatalf("%s: still writing in round %d: %v", from, i+1, verbs(actions))
		}
		w.settle()
	}
}

// judgeEnd compares the end with what the start calls for.
func judgeEnd(t *rapid.T, start, end *world, from string) {
	all, _ := items(start.input())
	for key, gvk := range start.gvks {
		was, existed := start.things[key]
		is, exists := end.things[key]
		if was.terminating {
			existed = false
		}
		o := was.observed(gvk, key)
		ours := o.OwnedBy(stack, self) || o.Refers(self)
		item, wanted := all[key]
		switch {
		case start.unsettled[key] && existed:
			// Its owner was known from the inventory alone.
		case existed && was.controller == "other":
			if !exists || is != was {
				t.Fatalf("%s: %s of another was touched: %+v, before %+v", from, key, is, was)
			}
		case wanted && existed && !ours && (!start.adopt || was.controller != ""):
			if is != was {
				t.Fatalf("%s: %s was adopted: %+v, before %+v", from, key, is, was)
			}
		case wanted && !exists:
			t.Fatalf("%s: %s is missing", from, key)
		case wanted && (is.id != stack.ID() || !is.marked) && !item.IfNotPresent:
			t.Fatalf("%s: %s is not marked: %+v", from, key, is)
		case wanted && is.digest != item.Digest && !item.IfNotPresent:
			t.Fatalf("%s: %s is not as declared: %+v", from, key, is)
		case wanted && !item.IfNotPresent && is.fields != written(item.Digest, "Apply") && is.fields != written(item.Digest, "Update"):
			t.Fatalf("%s: drift of %s was not repaired: %+v", from, key, is)
		case wanted && !item.IfNotPresent && item.Retain && is.controller == self.UID:
			t.Fatalf("%s: %s goes with the custom resource: %+v", from, key, is)
		case wanted && existed && is.uid != was.uid && !was.immutable:
			t.Fatalf("%s: %s was replaced", from, key)
		case wanted && is.terminating:
			t.Fatalf("%s: %s is going", from, key)
		case !wanted && existed && !exists && (plan.AlwaysRetained(key) || key.Kind == "PersistentVolumeClaim" || was.adopted || !ours):
			t.Fatalf("%s: %s was deleted", from, key)
		case !wanted && exists && is.controller == self.UID && is.marked && key.Kind != "PersistentVolumeClaim" &&
			start.entries[key].Policy != keeper.Retain:
			t.Fatalf("%s: %s was not pruned: %+v", from, key, is)
		}
	}
}

func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := drawWorld(t)
		end := start.clone()
		converge(t, end, "from the start")
		judgeEnd(t, start, end, "from the start")
		// The same decisions follow when the memory is lost at rest: everything is verified, and stays.
		lost := end.clone()
		clear(lost.entries)
		converge(t, lost, "at rest without an inventory")
		for key, th := range end.things {
			after, ok := lost.things[key]
			if !ok || after.uid != th.uid || after.digest != th.digest {
				t.Fatalf("%s changed since the inventory was lost: %+v, before %+v", key, after, th)
			}
		}
	})
}

func TestConvergesAfterACrash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := drawWorld(t)
		writes := 0
		for _, a := range Decide(start.input()) {
			if a.Writes() {
				writes++
			}
		}
		for k := range writes + 1 {
			for _, kept := range []bool{true, false} {
				from := fmt.Sprintf("after a crash after %d writes, inventory kept %v", k, kept)
				w := start.clone()
				w.round(k)
				if !kept {
					clear(w.entries)
				}
				converge(t, w, from)
				if kept {
					judgeEnd(t, start, w, from)
				}
			}
		}
	})
}

package rollout

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestSlot(t *testing.T) {
	at := func(ns, name string) Key {
		return Key{schema.GroupKind{Kind: "Thing"}, client.ObjectKey{Namespace: ns, Name: name}}
	}
	holders := []string{}
	s := Slot{Changed: func(holder string, _ time.Time) { holders = append(holders, holder) }}
	now := time.Unix(1e9, 0)
	if woken := s.Release(at("a", "1")); woken != nil {
		t.Error("who never rolled wakes", woken)
	}
	for _, name := range []string{"1", "2", "1"} {
		if !s.Acquire(at("a", name), now).OK {
			t.Error("the namespace that rolls is held back")
		}
	}
	if got := s.Acquire(at("b", "1"), now.Add(Deadline-1)); got.OK || got.Holder != "a" || !got.Until.Equal(now.Add(Deadline)) {
		t.Errorf("two namespaces roll at once: %+v", got)
	}
	s.Acquire(at("c", "1"), now)
	// Who is gone waits no more.
	if woken := s.Release(at("c", "1")); woken != nil {
		t.Error(woken)
	}
	if woken := s.Release(at("a", "1")); woken != nil {
		t.Error("woken although one still rolls:", woken)
	}
	// That the last one is gone wakes as well as that it is Ready.
	if woken := s.Release(at("a", "2")); len(woken) != 1 || woken[0] != at("b", "1") {
		t.Error(woken)
	}
	other := at("b", "1")
	other.Kind.Kind = "Other"
	if !s.Acquire(other, now).OK {
		t.Error("the next namespace is held back")
	}
	if got := s.Acquire(at("a", "1"), now); got.OK || got.Holder != "b" {
		t.Errorf("%+v", got)
	}
	if woken := s.Release(at("b", "1")); woken != nil {
		t.Error("one kind's custom resource ends the rollout of another's:", woken)
	}
	if woken := s.Release(other); len(woken) != 1 {
		t.Error(woken)
	}
	if want := []string{"a", "", "b", ""}; !slices.Equal(holders, want) {
		t.Errorf("the holders were %q, want %q", holders, want)
	}
}

func TestOneNamespaceHasTheSlotAndNobodyWaitsForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Slot
		now := time.Unix(1e9, 0)
		in, waits := map[Key]bool{}, map[Key]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			key := Key{schema.GroupKind{Kind: rapid.SampledFrom([]string{"A", "B"}).Draw(t, "kind")}, client.ObjectKey{
				Namespace: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"), Name: "n",
			}}
			if rapid.Bool().Draw(t, "acquire") {
				if s.Acquire(key, now).OK {
					in[key] = true
					delete(waits, key)
				} else {
					waits[key] = true
				}
			} else {
				delete(in, key)
				delete(waits, key)
				for _, k := range s.Release(key) {
					if !waits[k] {
						t.Fatalf("%v is woken and did not wait", k)
					}
					delete(waits, k)
				}
			}
			for a := range in {
				for b := range in {
					if a.Namespace != b.Namespace {
						t.Fatalf("%v and %v roll at once", a, b)
					}
				}
			}
			if len(in) == 0 && len(waits) > 0 {
				t.Fatalf("nobody rolls, and %v wait for ever", waits)
			}
		}
	})
}

// TestManagersThatShareShardsTakeTurns: outside its turn, a manager lets every custom resource wait, and its turn lasts until none has the
// slot or waits for it.
func TestManagersThatShareShardsTakeTurns(t *testing.T) {
	now := time.Unix(1e9, 0)
	at := func(ns string) Key {
		return Key{schema.GroupKind{Kind: "Thing"}, client.ObjectKey{Namespace: ns, Name: "x"}}
	}
	s := Slot{}
	ends := func() bool {
		ended, exceeded := s.EndTurn(now)
		if len(exceeded) > 0 {
			t.Errorf("%v lose the slot before the deadline", exceeded)
		}
		return ended
	}
	if !ends() || s.Wanted() || s.Acquire(at("a"), now).OK || !s.Wanted() || ends() {
		t.Fatal("outside the turn of this manager, a custom resource does not wait")
	}
	if waited := s.TakeTurn(); !slices.Equal(waited, []Key{at("a")}) || !s.Acquire(at("a"), now).OK {
		t.Fatalf("in the turn of this manager, %v have waited", waited)
	}
	if s.Acquire(at("b"), now).OK || ends() {
		t.Error("the turn ends while a namespace has the slot")
	}
	s.Release(at("a"))
	if !s.Acquire(at("b"), now).OK || ends() {
		t.Error("the turn ends before the next namespace")
	}
	s.Release(at("b"))
	if s.Wanted() || !ends() || s.Acquire(at("a"), now).OK {
		t.Error("the turn does not end when nobody wants it")
	}
}

// TestATurnLastsUntilThoseItCalledHaveAsked: they are enqueued, and a manager looks at its turn before they are reconciled.
func TestATurnLastsUntilThoseItCalledHaveAsked(t *testing.T) {
	now := time.Unix(1e9, 0)
	at := func(ns string) Key {
		return Key{schema.GroupKind{Kind: "Thing"}, client.ObjectKey{Namespace: ns, Name: "x"}}
	}
	for name, answer := range map[string]func(*Slot){
		"it needs the slot no more": func(s *Slot) { s.Release(at("a")) },
		"it rolls and is Ready":     func(s *Slot) { s.Acquire(at("a"), now); s.Release(at("a")) },
		"it never asks":             func(*Slot) { now = now.Add(answerTime) },
	} {
		s := Slot{}
		s.EndTurn(now)
		s.Acquire(at("a"), now)
		s.TakeTurn()
		for range 2 {
			if ended, _ := s.EndTurn(now.Add(answerTime - 1)); ended {
				t.Errorf("%s: the turn ends before that", name)
			}
		}
		now = now.Add(answerTime - 1)
		answer(&s)
		if ended, _ := s.EndTurn(now); !ended {
			t.Errorf("%s: the turn goes on", name)
		}
	}
	s := Slot{}
	s.Acquire(at("a"), now)
	s.Acquire(at("b"), now)
	s.Release(at("a"))
	if ended, _ := s.EndTurn(now); ended {
		t.Error("the turn ends before the next namespace has asked")
	}
	s = Slot{}
	s.EndTurn(now)
	s.Acquire(at("a"), now)
	s.Acquire(at("b"), now)
	s.TakeTurn()
	s.Acquire(at("a"), now)
	s.Release(at("a"))
	if ended, _ := s.EndTurn(now); ended {
		t.Error("the turn ends with the first of those that it has called")
	}
}

// TestATurnEndsAtTheDeadline: a namespace that does not become Ready again, such as one whose pods cannot start with a new release, does not
// keep the other managers from their turns.
func TestATurnEndsAtTheDeadline(t *testing.T) {
	now := time.Unix(1e9, 0)
	at := func(ns string) Key {
		return Key{schema.GroupKind{Kind: "Thing"}, client.ObjectKey{Namespace: ns, Name: "x"}}
	}
	holder := ""
	s := Slot{Changed: func(of string, _ time.Time) { holder = of }}
	s.Acquire(at("a"), now)
	s.Acquire(at("b"), now)
	if ended, _ := s.EndTurn(now.Add(Deadline - 1)); ended {
		t.Fatal("the turn ends before the deadline of the namespace that has the slot")
	}
	ended, exceeded := s.EndTurn(now.Add(Deadline))
	if !ended || !slices.Equal(exceeded, []Key{at("a")}) || holder != "" || !s.Exceeded(at("a")) {
		t.Errorf("at the deadline, the turn ends: %t, %v lose the slot, which %q has", ended, exceeded, holder)
	}
	if !s.Wanted() || s.Acquire(at("a"), now.Add(Deadline)).OK || s.Release(at("a")) != nil {
		t.Error("after the turn a namespace gets the slot, or those that wait do not want the next one")
	}
	if waited := s.TakeTurn(); !slices.Equal(waited, []Key{at("b")}) || !s.Acquire(at("b"), now.Add(Deadline)).OK {
		t.Errorf("in the next turn, %v have waited", waited)
	}
}

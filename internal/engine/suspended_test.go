package engine

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/reader"
	"mlkeeper.dev/internal/engine/status"
)

// TestASuspensionKeepsTheInventory: the status that was held when the custom resource was suspended lists children that exist.
func TestASuspensionKeepsTheInventory(t *testing.T) {
	s, _ := bareStacks()
	p := passOf("a", newState("uid"), "")
	p.cr, p.reader = p.before.DeepCopy(), &reader.Reader{}
	p.cr.Annotations = map[string]string{keeper.SuspendAnnotation: "true"}
	p.state.pendingStatus = &keeper.ResourceInventory{Entries: []keeper.InventoryEntry{{UID: "child"}}}
	if _, err := s.suspended(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := p.cr.Status.Inventory.Entries; len(got) != 1 || got[0].UID != "child" {
		t.Errorf("the inventory is %v", got)
	}
}

// TestASuspensionSealsTheInventory: what a release before has recorded is not left as it is until somebody ends the suspension.
func TestASuspensionSealsTheInventory(t *testing.T) {
	s, _ := bareStacks()
	p := passOf("a", newState("uid"), "")
	p.cr, p.reader = p.before.DeepCopy(), &reader.Reader{}
	p.cr.Annotations = map[string]string{keeper.SuspendAnnotation: "true"}
	p.cr.Status.Inventory.Entries = []keeper.InventoryEntry{{UID: "child", AppliedHash: "abc", OwnedFieldsHash: "def"}}
	if _, err := s.suspended(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := p.cr.Status.Inventory.Entries; len(got) != 1 || got[0].UID != "child" || got[0].AppliedHash == "abc" || got[0].OwnedFieldsHash == "def" {
		t.Errorf("the inventory is %v", got)
	}
}

// TestAFailedGatherKeepsTheInventory: the next status replaces the one that was held, which lists children that exist.
func TestAFailedGatherKeepsTheInventory(t *testing.T) {
	s, _ := readingStacks()
	s.sys = projecting{func() {}}
	p := passOf("a", newState("uid"), "")
	p.cr, p.reader = p.before.DeepCopy(), s.readers.New(reader.Request{})
	p.state.pendingStatus = &keeper.ResourceInventory{Entries: []keeper.InventoryEntry{{UID: "child"}}}
	p.gatherFailed, p.problems = true, []plan.Problem{{Class: plan.Waiting, Reason: "Missing"}}
	if _, err := s.report(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := p.cr.Status.Inventory.Entries; len(got) != 1 || got[0].UID != "child" {
		t.Errorf("the inventory is %v", got)
	}
}

// TestTheStatusOfASuspendedIsRepairedAfterAPause: nothing else looks at it again.
func TestTheStatusOfASuspendedIsRepairedAfterAPause(t *testing.T) {
	s, clock := bareStacks()
	state := newState("uid")
	for range 6 {
		state.rewrites.Again(backoff.TakenBack, clock.Now())
	}
	pass := func() reconcile.Result {
		t.Helper()
		p := passOf("a", state, "")
		p.cr, p.reader = p.before.DeepCopy(), &reader.Reader{}
		p.cr.Annotations = map[string]string{keeper.SuspendAnnotation: "true"}
		result, err := s.suspended(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if state.written, err = status.Sum(p.cr); err != nil {
			t.Fatal(err)
		}
		return result
	}
	pass()
	if result := pass(); !state.rewrites.Waits(clock.Now()) || result.RequeueAfter != state.rewrites.Due().Sub(clock.Now()) {
		t.Errorf("it is looked at again after %s", result.RequeueAfter)
	}
}

// TestALongRequestIsRecordedInPart: the schema bounds what the status says of it, and a status that is refused tells nothing at all.
func TestALongRequestIsRecordedInPart(t *testing.T) {
	for at, want := range map[string]string{
		"2026-01-02T03:04:05Z": "2026-01-02T03:04:05Z", strings.Repeat("x", 64): strings.Repeat("x", 64), strings.Repeat("x", 65): strings.Repeat("x", 61) + "...",
	} {
		s, _ := bareStacks()
		p := passOf("a", newState("uid"), "")
		p.cr, p.reader = p.before.DeepCopy(), &reader.Reader{}
		p.cr.Annotations = map[string]string{keeper.SuspendAnnotation: "true", keeper.ReconcileAtAnnotation: at}
		if _, err := s.suspended(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got := *s.def.Common(p.cr).LastHandledReconcileAt; got != want {
			t.Errorf("of %q the status has %q", at, got)
		}
	}
}

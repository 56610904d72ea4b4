package finalize

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/observe"
)

// TestStagesAreDeletedInReverseOrder: old Inventories without conditions are finalized stage by stage.
func TestStagesAreDeletedInReverseOrder(t *testing.T) {
	w := newWorld(t, webhook())
	f := w.manager()
	w.reconcile(f)
	if w.waits(1) != "deleted" || w.waits(0) == "deleted" {
		t.Fatalf("the Inventories after the first reconcile: %v", w.invs)
	}
	w.children = []*observe.Object{child("b"), child("a")}
	if again := w.reconcile(f); again != maxWait {
		t.Errorf("checked again after %s", again)
	}
	if got, want := w.waits(0), "waiting for ConfigMap ns/a to be deleted"; got != want {
		t.Errorf("the first stage says %q, want %q", got, want)
	}
	w.children = nil
	w.reconcile(f)
	if len(w.invs) > 0 {
		t.Errorf("the Inventories at the end: %v", w.invs)
	}
	if n := w.requests("delete", "validatingwebhookconfigurations"); n != 1 {
		t.Errorf("%d deletions of the webhook", n)
	}
	if w.reconcile(f); !slices.Equal(w.stopped, []types.UID{ownerUID}) {
		t.Errorf("the watches of %v are ended", w.stopped)
	}
}

// TestPartsOfAStageGoTogether: the Inventories of one stage do not wait for each other's objects, and the next stage for those of all.
func TestPartsOfAStageGoTogether(t *testing.T) {
	w := newWorld(t)
	second := w.invs["inv-1"].DeepCopy()
	second.Name, second.UID, second.Spec.Part = "inv-1-1", "uid-inv-1-1", 1
	w.invs[second.Name] = second
	f := w.manager()
	w.reconcile(f)
	if _, exists := w.invs[second.Name]; exists || len(w.invs) != 2 {
		t.Fatalf("the Inventories after the first reconcile: %v", w.invs)
	}
	left := child("left")
	left.OwnerReferences[0].Name = second.Name
	w.children = []*observe.Object{left}
	w.reconcile(f)
	if w.waits(1) != "deleted" {
		t.Errorf("the first part waits for an object of the second: %s", w.waits(1))
	}
	w.reconcile(f)
	if got, want := w.waits(0), "waiting for ConfigMap ns/left to be deleted"; got != want {
		t.Errorf("the first stage says %q, want %q", got, want)
	}
}

// TestAStageWaitsForTheCaches: without the caches, the objects of a later stage would seem to be deleted.
func TestAStageWaitsForTheCaches(t *testing.T) {
	w := newWorld(t)
	w.unwatched = true
	f := w.manager()
	if again := w.reconcile(f); again != time.Second || w.waits(1) == "deleted" {
		t.Errorf("checked again after %s, the last stage: %s", again, w.waits(1))
	}
	writes := w.writes
	w.clock.Step(maxWait - time.Second)
	if w.reconcile(f); w.writes != writes || w.waits(1) == "deleted" {
		t.Errorf("%d more writes while it waits, the last stage: %s", w.writes-writes, w.waits(1))
	}
	w.clock.Step(time.Second)
	if w.reconcile(f); w.waits(1) != "deleted" {
		t.Error("a watch that cannot be opened holds up the deletion for longer than other waits")
	}
}

// TestNothingIsDeletedBeforeAllInventoriesAreSeen: the last one that is seen may be that of an earlier stage.
func TestNothingIsDeletedBeforeAllInventoriesAreSeen(t *testing.T) {
	w := newWorld(t)
	w.incomplete = true
	f := w.manager()
	if again := w.reconcile(f); again != time.Second || w.writes > 0 || w.waits(1) == "deleted" {
		t.Errorf("checked again after %s, with %d writes, the last stage: %s", again, w.writes, w.waits(1))
	}
	w.incomplete = false
	if w.reconcile(f); w.waits(1) != "deleted" {
		t.Errorf("all are seen, and the last stage: %s", w.waits(1))
	}
}

// TestAnObjectOfOthersHoldsNothingUp: whoever may write a ConfigMap somewhere can give it the label of any stack, and a controller that is
// called Inventory, but does not know the UID of the custom resource.
func TestAnObjectOfOthersHoldsNothingUp(t *testing.T) {
	for name, ref := range map[string]metav1.OwnerReference{
		"an Inventory of nobody":            {APIVersion: keeper.GroupVersion.String(), Kind: inventory.GVK.Kind, Name: "guessed"},
		"an Inventory of another UID":       {APIVersion: keeper.GroupVersion.String(), Kind: inventory.GVK.Kind, Name: "inv2-2"},
		"an Inventory of another API":       {APIVersion: "example.test/v1", Kind: inventory.GVK.Kind, Name: "inv-2"},
		"an Inventory of the prefix itself": {APIVersion: keeper.GroupVersion.String(), Kind: inventory.GVK.Kind, Name: "inv"},
	} {
		w, yes := newWorld(t), true
		forged := child("forged")
		ref.UID, ref.Controller = "uid", &yes
		forged.OwnerReferences = []metav1.OwnerReference{ref}
		w.children = []*observe.Object{forged}
		if again := w.reconcile(w.manager()); again != 0 || w.waits(1) != "deleted" {
			t.Errorf("%s: checked again after %s, the last stage: %s", name, again, w.waits(1))
		}
	}
}

// TestAFailOverContinuesTheWait: a manager that starts in the middle of a wait does not begin it again.
func TestAFailOverContinuesTheWait(t *testing.T) {
	w := newWorld(t)
	w.children = []*observe.Object{child("held")}
	if again := w.reconcile(w.manager()); again != maxWait {
		t.Fatalf("the first manager checks again after %s", again)
	}
	w.clock.Step(3 * time.Minute)
	if again := w.reconcile(w.manager()); again != maxWait-3*time.Minute {
		t.Errorf("the second manager checks again after %s", again)
	}
	w.clock.Step(2 * time.Minute)
	w.reconcile(w.manager())
	if w.waits(1) != "deleted" {
		t.Errorf("the third manager waits: %q", w.waits(1))
	}
	// Each stage has a wait of its own.
	if again := w.reconcile(w.manager()); again != maxWait || w.waits(0) == "deleted" {
		t.Errorf("the next stage is checked again after %s: %q", again, w.waits(0))
	}
}

// TestAFailOverContinuesTheWaitForTheGarbageCollector: the pauses grow with the time of the wait, whoever waited.
func TestAFailOverContinuesTheWaitForTheGarbageCollector(t *testing.T) {
	w := newWorld(t, namespace())
	w.listNamespace()
	if err := w.metadata.Tracker().Create(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, orphan(), "apps"); err != nil {
		t.Fatal(err)
	}
	if again := w.reconcile(w.manager()); again != time.Second {
		t.Errorf("checked again after %s", again)
	}
	if got := w.waits(1); !strings.Contains(got, "Namespace apps contains configmaps orphan") {
		t.Errorf("the condition says %q", got)
	}
	w.clock.Step(20 * time.Second)
	if again := w.reconcile(w.manager()); again != 20*time.Second {
		t.Errorf("after a fail-over, checked again after %s", again)
	}
	w.clock.Step(maxWait)
	w.reconcile(w.manager())
	if w.waits(1) != "deleted" || w.requests("delete", "namespaces") > 0 {
		t.Errorf("after the wait the Inventory says %q, with %d deletions of the Namespace", w.waits(1), w.requests("delete", "namespaces"))
	}
	select {
	case event := <-w.events.Events:
		if !strings.Contains(event, "configmaps orphan") {
			t.Errorf("the event says %q", event)
		}
	default:
		t.Error("no event tells why the Namespace stays")
	}
}

func TestAnEmptyNamespaceIsDeleted(t *testing.T) {
	w := newWorld(t, namespace())
	w.listNamespace()
	if again := w.reconcile(w.manager()); again != 0 || w.requests("delete", "namespaces") != 1 || w.waits(1) != "deleted" {
		t.Errorf("checked again after %s, %d deletions, the Inventory says %q", again, w.requests("delete", "namespaces"), w.waits(1))
	}
}

// TestWhatIsAppliedDuringTheListingKeepsTheNamespace: its resource was listed before.
func TestWhatIsAppliedDuringTheListingKeepsTheNamespace(t *testing.T) {
	w := newWorld(t, namespace())
	w.listNamespace()
	configMaps, lists := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, 0
	w.metadata.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if lists++; lists == len(resourcesOfNamespaces) {
			applied := orphan()
			applied.Name, applied.OwnerReferences = "applied", nil
			if err := w.metadata.Tracker().Create(configMaps, applied, "apps"); err != nil {
				t.Error(err)
			}
		}
		return false, nil, nil
	})
	w.reconcile(w.manager())
	if n := w.requests("delete", "namespaces"); n != 0 || w.waits(1) != "deleted" {
		t.Errorf("%d deletions, the Inventory says %q", n, w.waits(1))
	}
	select {
	case event := <-w.events.Events:
		if !strings.Contains(event, "configmaps applied") {
			t.Errorf("the event says %q", event)
		}
	default:
		t.Error("no event tells why the Namespace stays")
	}
}

// TestAFailOverRepeatsNoRequest: neither the live read of the custom resource nor the cleanup of webhooks is repeated.
func TestAFailOverRepeatsNoRequest(t *testing.T) {
	w := newWorld(t)
	w.children = []*observe.Object{child("held")}
	for range 3 {
		w.reconcile(w.manager())
	}
	if n := w.requests("get", "things"); n != 1 {
		t.Errorf("%d live reads of the custom resource", n)
	}
	if n := w.requests("list", "validatingwebhookconfigurations"); n != 1 {
		t.Errorf("%d cleanups of webhooks", n)
	}
}

// TestARestoredOwnerIsReadAgain: where the caches show the UID again, the recorded deletion does not count any more.
func TestARestoredOwnerIsReadAgain(t *testing.T) {
	w := newWorld(t)
	w.children = []*observe.Object{child("held")}
	w.reconcile(w.manager())
	w.owner.UID = ownerUID
	w.reconcile(w.manager())
	for name, inv := range w.invs {
		if len(inv.Status.Conditions) > 0 {
			t.Errorf("%s has conditions although its owner exists: %v", name, inv.Status.Conditions)
		}
	}
	w.owner.UID = ""
	w.reconcile(w.manager())
	if n := w.requests("get", "things"); n != 2 {
		t.Errorf("%d live reads", n)
	}
	if n := w.requests("list", "validatingwebhookconfigurations"); n != 2 {
		t.Errorf("%d cleanups of webhooks", n)
	}
}

// TestARecordedDeletionIsNoProof: the condition counts only where complete caches do not show the custom resource.
func TestARecordedDeletionIsNoProof(t *testing.T) {
	for name, owner := range map[string]Owner{
		"the caches are incomplete": {MayFinalize: true},
		"the owner exists":          {Synced: true, MayFinalize: true, UID: ownerUID},
		"another manager's":         {Synced: true},
	} {
		w := newWorld(t)
		w.invs["inv-0"].Status.Conditions = []metav1.Condition{{Type: ConditionOwnerDeleted, Status: metav1.ConditionTrue}}
		w.owner = owner
		w.reconcile(w.manager())
		if len(w.invs) != 2 || len(w.client.Actions()) > 0 {
			t.Errorf("%s: %d Inventories are left, requests %v", name, len(w.invs), w.client.Actions())
		}
	}
}

// TestAnotherUIDIsAnotherOwner: one that was created again under the name keeps nothing.
func TestAnotherUIDIsAnotherOwner(t *testing.T) {
	w := newWorld(t)
	w.owner.UID = "uid-of-the-next"
	w.reconcile(w.manager())
	if w.waits(1) != "deleted" {
		t.Error("the Inventory of the former custom resource stays")
	}
}

// TestTheStateIsWrittenOnce: a status is written only if it changed, and never while the owner exists.
func TestTheStateIsWrittenOnce(t *testing.T) {
	w := newWorld(t)
	w.owner.UID = ownerUID
	f := w.manager()
	w.reconcile(f)
	if w.writes > 0 {
		t.Errorf("%d writes while the owner exists", w.writes)
	}
	w.owner.UID = ""
	w.children = []*observe.Object{child("a"), child("b")}
	for range 3 {
		w.reconcile(f)
		w.clock.Step(time.Second)
		w.children[0], w.children[1] = w.children[1], w.children[0] // Caches have no order.
	}
	// The state of the first Inventory, and what the last waits for.
	if w.writes != 2 {
		t.Errorf("%d writes", w.writes)
	}
}

// TestAnOlderDefinitionIsReported: without conditions no wait would end.
func TestAnOlderDefinitionIsReported(t *testing.T) {
	w := newWorld(t)
	w.oldCRD = true
	_, err := w.manager().Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: ownerUID}})
	if err == nil || !strings.Contains(err.Error(), "make install") || len(w.invs) != 2 {
		t.Errorf("%v, %d Inventories", err, len(w.invs))
	}
}

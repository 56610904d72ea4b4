package invariants

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
)

// rival undoes what the operator writes to an object, as soon as it sees it, until the test is over or stop is called.
type rival struct {
	mu   sync.Mutex
	at   []undoing
	stop func()
}

// undoing is one time that a rival undid something.
type undoing struct {
	// at is when it had, and clean a time after which the operator wrote what it undid.
	at, clean time.Time
}

// undone returns when the rival undid something.
func (r *rival) undone() []undoing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.at)
}

// repairs are the writes that come without a pause where each is taken back: the first one, and five repairs.
const repairs = 6

// isBounded waits until the operator has written three times more than it may without a pause, and checks the pauses.
func (r *rival) isBounded(t *testing.T, free int) {
	t.Helper()
	var undone []undoing
	cluster.Eventually(t, patience, func() error {
		if undone = r.undone(); len(undone) < free+3 {
			return fmt.Errorf("it was written %d times", len(undone))
		}
		return nil
	})
	for i, least := free, 700*time.Millisecond; i < free+3; i, least = i+1, 2*least {
		// A rival that was late at the last one must not make the pause seem short.
		if pause := undone[i].at.Sub(undone[i-1].clean); pause < least {
			t.Errorf("after %d writes it is written again after %s, and not %s", i, pause, least)
		}
	}
}

// rival starts one. undo changes the object, and returns false where there is nothing to undo.
func (b *bench) rival(gvk schema.GroupVersionKind, name string, undo func(*unstructured.Unstructured) bool, write func(*unstructured.Unstructured) error) *rival {
	namespace := b.ns
	if gvk == inventoryGVK {
		namespace = ""
	}
	ctx, cancel := context.WithCancel(b.Context())
	r, done := &rival{}, make(chan struct{})
	r.stop = sync.OnceFunc(func() { cancel(); <-done })
	b.Cleanup(r.stop)
	go func() {
		defer close(done)
		clean := time.Now()
		for ctx.Err() == nil {
			looked := time.Now()
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(gvk)
			if b.c.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, u) == nil && undo(u) && write(u) == nil {
				r.mu.Lock()
				r.at = append(r.at, undoing{at: time.Now(), clean: clean})
				r.mu.Unlock()
			}
			clean = looked
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return r
}

// TestInvariant18WhatSomebodyTakesBackIsWrittenLessAndLessOften: five repairs come at once, and then pauses that grow, although ceding ends
// none of these fights. Nobody holds a field that was removed, and MLKeeper's own marks, the status and the finalizers are never ceded.
func TestInvariant18WhatSomebodyTakesBackIsWrittenLessAndLessOften(t *testing.T) {
	b := open(t, options{})
	update := func(u *unstructured.Unstructured) error { return b.c.Client.Update(b.Context(), u) }
	status := func(u *unstructured.Unstructured) error { return b.c.Client.Status().Update(b.Context(), u) }
	for name, c := range map[string]struct {
		gvk    schema.GroupVersionKind
		undo   func(*unstructured.Unstructured) bool
		write  func(*unstructured.Unstructured) error
		object bool
	}{
		"field": {configMapGVK, func(u *unstructured.Unstructured) bool {
			_, has, _ := unstructured.NestedString(u.Object, "data", "k")
			unstructured.RemoveNestedField(u.Object, "data", "k")
			return has
		}, update, true},
		"labels": {configMapGVK, func(u *unstructured.Unstructured) bool {
			had := u.GetLabels()[keeper.StackLabel] != ""
			u.SetLabels(nil)
			return had
		}, update, true},
		"annotations": {configMapGVK, func(u *unstructured.Unstructured) bool {
			had := u.GetAnnotations()[keeper.AppliedHashAnnotation] != ""
			u.SetAnnotations(nil)
			return had
		}, update, true},
		"status": {bundleGVK, func(u *unstructured.Unstructured) bool {
			list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
			unstructured.RemoveNestedField(u.Object, "status", "conditions")
			return len(list) > 0
		}, status, false},
		"finalizer": {bundleGVK, func(u *unstructured.Unstructured) bool {
			if slices.Contains(u.GetFinalizers(), bundle.OriginalFinalizer) {
				return false
			}
			u.SetFinalizers(append(u.GetFinalizers(), bundle.OriginalFinalizer))
			return true
		}, update, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := *b
			b.T = t
			b.apply(name, one(configMap(b.ns, name, "v")))
			b.ready(name)
			r := b.rival(c.gvk, name, c.undo, c.write)
			if c.object {
				b.condition(name, "Ready", "False", "RepairBackOff")
			}
			r.isBounded(t, repairs)
			r.stop()
			if c.gvk == bundleGVK {
				b.patch(bundleGVK, b.ns, name, `{"metadata":{"finalizers":null}}`)
			}
			b.ready(name)
		})
	}
}

// TestInvariant18AnInventoryThatSomebodyDeletesIsMadeAgainLessAndLessOften: with the Inventory go the objects that it owns, each time. Somebody deletes
// it as soon as he sees it, while what it owns is not healthy yet, and nothing of it is recorded.
func TestInvariant18AnInventoryThatSomebodyDeletesIsMadeAgainLessAndLessOften(t *testing.T) {
	b := open(t, options{})
	other := b.namespace()
	spec := func(value string) bundle.Spec {
		return one(configMap(other, "far", value), deployment(b.ns, "near", false))
	}
	b.apply("b", spec("v"))
	b.ready("b")
	inventory := b.inventories("b")[0]
	deleted := map[types.UID]bool{}
	r := b.rival(inventoryGVK, inventory.Name, func(u *unstructured.Unstructured) bool {
		return !deleted[u.GetUID()]
	}, func(u *unstructured.Unstructured) error {
		deleted[u.GetUID()] = true
		return b.c.Client.Delete(b.Context(), u)
	})
	b.condition("b", "Ready", "False", "RecreationBackOff")
	r.isBounded(t, repairs)
	r.stop()
	b.apply("b", spec("w"))
	b.ready("b")
}

// TestInvariant18PodsOfWhatTwoClientsFightOverAreReplacedLessAndLessOften: two clients disagree about a Secret, and each of them writes it as soon
// as the Deployment that is rendered from it has followed the other. Other content is written at once.
func TestInvariant18PodsOfWhatTwoClientsFightOverAreReplacedLessAndLessOften(t *testing.T) {
	b := open(t, options{})
	r := b.rewritten(func(writes int) string { return strconv.Itoa((writes + 1) % 2) })
	r.isBounded(t, repairs+1) // The first write is not remembered, so that its content is new once more.
	r.stop()
	b.patch(secretGVK, b.ns, "s", `{"stringData":{"a":"another"}}`)
	b.ready("b")
}

// TestInvariant18PodsOfASecretThatIsNewEachTimeAreReplacedLessAndLessOften: a client such as an issuer of certificates that is in a loop puts other
// content into a Secret as soon as the Deployment that is rendered from it has followed. What the user asks for is written at once.
func TestInvariant18PodsOfASecretThatIsNewEachTimeAreReplacedLessAndLessOften(t *testing.T) {
	b := open(t, options{})
	r := b.rewritten(func(writes int) string { return "new " + strconv.Itoa(writes) })
	r.isBounded(t, repairs)
	r.stop()
	b.patch(bundleGVK, b.ns, "b", `{"metadata":{"annotations":{"`+keeper.ReconcileAtAnnotation+`":"now"}}}`)
	b.ready("b")
}

// rewritten has a Deployment m that a custom resource b renders from a Secret s, into which a rival puts what content says as soon as the
// Deployment has followed.
func (b *bench) rewritten(content func(writes int) string) *rival {
	secret := &unstructured.Unstructured{Object: map[string]any{"stringData": map[string]any{"a": "1"}}}
	secret.SetGroupVersionKind(secretGVK)
	secret.SetNamespace(b.ns)
	secret.SetName("s")
	if err := b.c.Client.Create(b.Context(), secret); err != nil {
		b.Fatal(err)
	}
	spec := one(deployment(b.ns, "m", false))
	spec.Secret = "s"
	b.apply("b", spec)
	b.ready("b")
	followed, writes := "", 0
	r := b.rival(deploymentGVK, "m", func(u *unstructured.Unstructured) bool {
		digest := u.GetAnnotations()[keeper.AppliedHashAnnotation]
		if digest == followed {
			return false
		}
		followed = digest
		return true
	}, func(*unstructured.Unstructured) error {
		writes++
		b.patch(secretGVK, b.ns, "s", fmt.Sprintf(`{"stringData":{"a":"%s"}}`, content(writes)))
		return nil
	})
	b.condition("b", "Ready", "False", "RepairBackOff")
	return r
}

package invariants

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/requests"
	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// staged is a bundle whose children its custom resource cannot own: one is cluster-scoped, one in another namespace.
func (b *bench) staged(other string) bundle.Spec {
	return bundle.Spec{Stages: []bundle.Stage{
		stage("first", clusterRole(b.ns+"-role", "get"), configMap(b.ns, "near", "v")),
		stage("second", configMap(other, "far", "v")),
	}}
}

func TestInvariant03InventoriesOwnWhatTheCustomResourceCannot(t *testing.T) {
	b := open(t, options{})
	other := b.namespace()
	b.apply("b", b.staged(other))
	b.ready("b")
	invs := b.inventories("b")
	if len(invs) != 2 {
		t.Fatalf("%d Inventories, want one per stage", len(invs))
	}
	for _, inv := range invs {
		if len(inv.Finalizers) > 0 || len(inv.OwnerReferences) > 0 {
			t.Errorf("Inventory %s has finalizers or owners: %+v", inv.Name, inv.ObjectMeta)
		}
		for _, e := range inv.Status.Entries {
			if e.UID == "" || e.AppliedHash == "" || e.OwnedFieldsHash == "" {
				t.Errorf("Inventory %s does not record %+v", inv.Name, e)
			}
		}
	}
	for i, u := range []metav1.Object{
		b.must(clusterRoleGVK, "", b.ns+"-role"), b.must(configMapGVK, b.ns, "near"), b.must(configMapGVK, other, "far"),
	} {
		refs := u.GetOwnerReferences()
		want := invs[i/2]
		if len(refs) != 1 || refs[0].Kind != "Inventory" || refs[0].UID != want.UID || refs[0].BlockOwnerDeletion != nil {
			t.Errorf("%s is owned by %+v, want Inventory %s", u.GetName(), refs, want.Name)
		}
		listed := false
		for _, e := range want.Spec.Entries {
			listed = listed || e.Name == u.GetName() && e.Namespace == u.GetNamespace()
		}
		if !listed {
			t.Errorf("%s is not listed in %+v", u.GetName(), want.Spec.Entries)
		}
	}
	if n := len(b.bundle("b").Status.Inventory.Entries); n > 0 {
		t.Errorf("the status lists %d children besides", n)
	}
}

// TestInvariant03AStageWithManyObjectsHasSeveralInventories has more objects than etcd can list in one Inventory, and a manager that ends in
// the middle of them. Each object has the owner that lists it, and the deletion leaves nothing.
func TestInvariant03AStageWithManyObjectsHasSeveralInventories(t *testing.T) {
	const number, long = 1700, 5 * time.Minute
	b := open(t, options{})
	other := b.namespace()
	all := bundle.Stage{Name: "all"}
	for i := range number {
		all.Objects = append(all.Objects, configMap(other, fmt.Sprintf("%s-%d", strings.Repeat("n", 245), i), "v"))
	}
	made := func() []corev1.ConfigMap {
		list := &corev1.ConfigMapList{}
		if err := b.c.Client.List(t.Context(), list, client.InNamespace(other)); err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(list.Items, func(m corev1.ConfigMap) bool { return !strings.HasPrefix(m.Name, "nnn") })
	}
	b.apply("b", bundle.Spec{Stages: []bundle.Stage{stage("first", configMap(other, "before", "v")), all}})
	cluster.Eventually(t, long, func() error {
		if n := len(made()); n < number/10 {
			return fmt.Errorf("%d objects exist", n)
		}
		return nil
	})
	b.op.Stop()
	b.start()
	cluster.Eventually(t, long, func() error {
		if conditions := b.bundle("b").Status.Conditions; !meta.IsStatusConditionTrue(conditions, "Ready") {
			return fmt.Errorf("%d objects exist, %+v", len(made()), conditions)
		}
		return nil
	})
	owners := map[types.UID]map[string]bool{}
	for i, inv := range b.inventories("b") {
		raw, err := json.Marshal(inv)
		if err != nil || len(raw) > 1<<20 {
			t.Errorf("Inventory %d, of stage %d, has %d bytes: %v", i, inv.Spec.Stage, len(raw), err)
		}
		owners[inv.UID] = map[string]bool{}
		for _, e := range inv.Status.Entries {
			owners[inv.UID][e.Name] = e.UID != ""
		}
	}
	if len(owners) < 3 {
		t.Errorf("%d Inventories for two stages", len(owners))
	}
	objects := made()
	if len(objects) != number {
		t.Errorf("%d objects exist", len(objects))
	}
	for _, m := range objects {
		if refs := m.OwnerReferences; len(refs) != 1 || !owners[refs[0].UID][m.Name] {
			t.Fatalf("%s has the owners %v, which do not list it", m.Name, refs)
		}
	}
	b.c.Kubectl(t, "-n", b.ns, "delete", "bundle", "b")
	cluster.Eventually(t, long, func() error {
		if left, of := len(made()), len(b.inventories("b")); left > 0 || of > 0 {
			return fmt.Errorf("%d objects and %d Inventories are left", left, of)
		}
		return nil
	})
}

func TestInvariant03AnObjectIsListedBeforeItExists(t *testing.T) {
	b := open(t, options{})
	b.apply("b", b.staged(b.namespace()))
	b.ready("b")
	spec := b.staged(b.ns)
	spec.Stages[1].Objects = append(spec.Stages[1].Objects, configMap(b.ns, "late", "v"))
	// The list fails to be written, so the object must not appear.
	b.journal.hook(func(r *http.Request) *http.Response {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/inventories") && r.Method != http.MethodDelete {
			return answer(r, http.StatusInternalServerError, "InternalError")
		}
		return nil
	})
	mark := b.journal.mark()
	b.apply("b", spec)
	cluster.Eventually(t, patience, func() error {
		if len(b.journal.since(mark, func(r request) bool { return strings.Contains(r.path, "/inventories/") })) == 0 {
			return fmt.Errorf("the Inventory was not written")
		}
		return nil
	})
	cluster.Consistently(t, while, func() error {
		if b.c.Get(t, configMapGVK, b.ns, "late") != nil {
			return fmt.Errorf("the object exists and no Inventory lists it")
		}
		return nil
	})
	b.journal.hook(nil)
	b.ready("b")
	b.value("late", "v")
}

func TestInvariant03TeardownGoesBackwardsStageByStage(t *testing.T) {
	b := open(t, options{})
	other := b.namespace()
	b.apply("b", b.staged(other))
	b.ready("b")
	b.patch(configMapGVK, other, "far", `{"metadata":{"finalizers":["invariants.test/hold"]}}`)
	b.delete(bundleGVK, b.ns, "b")
	cluster.Eventually(t, patience, func() error {
		if b.must(configMapGVK, other, "far").GetDeletionTimestamp() == nil {
			return fmt.Errorf("the last stage is not being deleted")
		}
		return nil
	})
	cluster.Consistently(t, while, func() error {
		b.must(clusterRoleGVK, "", b.ns+"-role")
		b.must(configMapGVK, b.ns, "near")
		if n := len(b.inventories("b")); n != 1 {
			return fmt.Errorf("%d Inventories stand", n)
		}
		return nil
	})
	cluster.Eventually(t, patience, func() error {
		out, want := b.c.Kubectl(t, "get", "inventories", b.inventories("b")[0].Name), "waiting for ConfigMap "+other+"/far to be deleted"
		if !strings.Contains(out, want) {
			return fmt.Errorf("kubectl get inventories does not say %q:\n%s", want, out)
		}
		return nil
	})
	b.settle()
	before := b.inventories("b")[0]
	// A manager that starts now continues: it neither asks again whether the custom resource is deleted nor begins the wait again.
	b.op.Stop()
	mark := b.journal.mark()
	b.restart()
	cluster.Consistently(t, while, func() error {
		if after := b.inventories("b"); len(after) != 1 || after[0].ResourceVersion != before.ResourceVersion {
			return fmt.Errorf("the Inventories after a restart are %+v", after)
		}
		return nil
	})
	for _, r := range b.journal.since(mark, func(r request) bool { return strings.HasSuffix(r.path, b.ns+"/bundles/b") }) {
		t.Errorf("after a restart the operator sent %s %s", r.method, r.path)
	}
	b.patch(configMapGVK, other, "far", `{"metadata":{"finalizers":null}}`)
	b.gone(clusterRoleGVK, "", b.ns+"-role")
	b.gone(configMapGVK, b.ns, "near")
	b.gone(configMapGVK, other, "far")
	b.noInventories("b")
}

func TestInvariant03WhatLeftThePlanIsPruned(t *testing.T) {
	b := open(t, options{})
	other := b.namespace()
	spec := b.staged(other)
	spec.Stages[0].Objects = append(spec.Stages[0].Objects, clusterRole(b.ns+"-old", "get"), configMap(b.ns, "hidden", "v"))
	spec.Stages = append(spec.Stages, stage("third", configMap(b.ns, "moves", "v"), deployment(b.ns, "goes", false)))
	b.apply("b", spec)
	b.ready("b")
	moves := b.must(configMapGVK, b.ns, "moves").GetUID()
	// Pruning works from the Inventory: an object whose labels are gone is in no cache.
	b.patch(configMapGVK, b.ns, "hidden", `{"metadata":{"annotations":{"keeper.mlkeeper.dev/owner":null}}}`)
	b.op.Stop()
	b.patch(configMapGVK, b.ns, "hidden", `{"metadata":{"labels":null}}`)
	// The third stage goes, and one of its objects moves to the second.
	spec = b.staged(other)
	spec.Stages[1].Objects = append(spec.Stages[1].Objects, configMap(b.ns, "moves", "v"))
	b.apply("b", spec)
	b.restart()
	b.gone(clusterRoleGVK, "", b.ns+"-old")
	b.gone(configMapGVK, b.ns, "hidden")
	b.gone(deploymentGVK, b.ns, "goes")
	b.ready("b")
	cluster.Eventually(t, patience, func() error {
		invs := b.inventories("b")
		if len(invs) != 2 {
			return fmt.Errorf("%d Inventories stand, want 2", len(invs))
		}
		u := b.must(configMapGVK, b.ns, "moves")
		if refs := u.GetOwnerReferences(); u.GetUID() != moves || len(refs) != 1 || refs[0].UID != invs[1].UID {
			return fmt.Errorf("the object that moved is %s and owned by %v", u.GetUID(), refs)
		}
		return nil
	})
	b.must(clusterRoleGVK, "", b.ns+"-role")
	if len(b.inventories("b")[0].Spec.Entries) != 2 || len(b.inventories("b")[1].Spec.Entries) != 2 {
		t.Errorf("the lists are %+v and %+v", b.inventories("b")[0].Spec.Entries, b.inventories("b")[1].Spec.Entries)
	}
}

func TestInvariant03WithoutInventoriesWhatLeftThePlanIsPrunedToo(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(configMap(b.ns, "stays", "v"), configMap(b.ns, "goes", "v"), deployment(b.ns, "goes", false)))
	b.ready("b")
	b.apply("b", one(configMap(b.ns, "stays", "v")))
	b.gone(configMapGVK, b.ns, "goes")
	b.gone(deploymentGVK, b.ns, "goes")
	b.ready("b")
	b.must(configMapGVK, b.ns, "stays")
	if n := len(b.inventories("b")); n > 0 {
		t.Errorf("%d Inventories for a bundle that owns its children itself", n)
	}
}

func TestInvariant03InventoryDeletedByHandHeals(t *testing.T) {
	b := open(t, options{})
	other := b.namespace()
	b.apply("b", b.staged(other))
	b.ready("b")
	for _, inv := range b.inventories("b") {
		b.delete(inventoryGVK, "", inv.Name)
	}
	cluster.Eventually(t, 2*patience, func() error {
		invs := b.inventories("b")
		if len(invs) != 2 {
			return fmt.Errorf("%d Inventories", len(invs))
		}
		for i, key := range []string{b.ns + "/near", other + "/far"} {
			ns, name, _ := strings.Cut(key, "/")
			u := b.c.Get(t, configMapGVK, ns, name)
			if u == nil || u.GetDeletionTimestamp() != nil || u.GetOwnerReferences()[0].UID != invs[i].UID {
				return fmt.Errorf("%s is not there, or not owned by the new Inventory", key)
			}
		}
		return nil
	})
	b.ready("b")
}

// TestInvariant03AnInventoryThatWentWhileItWasWrittenIsNotBelievedIn: an Inventory is deleted, and the watch has told of that, before the
// answer to its last update arrives.
func TestInvariant03AnInventoryThatWentWhileItWasWrittenIsNotBelievedIn(t *testing.T) {
	var armed atomic.Bool
	held, release := make(chan struct{}), make(chan struct{})
	late := func(cfg *rest.Config) {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return requests.RoundTripper(func(r *http.Request) (*http.Response, error) {
				answer, err := next.RoundTrip(r)
				if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/inventories/") && armed.CompareAndSwap(true, false) {
					close(held)
					<-release
				}
				return answer, err
			})
		})
	}
	b := open(t, options{Options: harness.Options{Config: late}})
	spec := func(names ...string) bundle.Spec {
		one := stage("one", clusterRole(b.ns+"-role", "get"))
		for _, name := range names {
			one.Objects = append(one.Objects, configMap(b.ns, name, "v"))
		}
		return bundle.Spec{Stages: []bundle.Stage{one}}
	}
	b.apply("b", spec("near"))
	b.ready("b")
	before := b.inventories("b")[0]
	armed.Store(true)
	b.apply("b", spec("near", "more"))
	<-held
	b.delete(inventoryGVK, "", before.Name)
	b.gone(inventoryGVK, "", before.Name)
	// Long enough for the watch to tell.
	cluster.Consistently(t, while, func() error {
		if len(b.inventories("b")) > 0 {
			return errors.New("there is an Inventory again, of which the pass under way cannot know")
		}
		return nil
	})
	close(release)
	cluster.Eventually(t, 2*patience, func() error {
		invs := b.inventories("b")
		if len(invs) != 1 {
			return fmt.Errorf("%d Inventories", len(invs))
		}
		for _, name := range []string{"near", "more"} {
			u := b.c.Get(t, configMapGVK, b.ns, name)
			if u == nil || u.GetDeletionTimestamp() != nil || u.GetOwnerReferences()[0].UID != invs[0].UID {
				return fmt.Errorf("%s is not there, or not owned by the new Inventory", name)
			}
		}
		return nil
	})
	b.ready("b")
}

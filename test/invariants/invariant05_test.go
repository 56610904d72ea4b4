package invariants

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
)

// claim is a PersistentVolumeClaim of a bundle.
func claim(ns, name, class string) bundle.Object {
	return object(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":%q,"name":%q},"spec":{
		"accessModes":["ReadWriteOnce"],"storageClassName":%q,"resources":{"requests":{"storage":"1Gi"}}}}`, ns, name, class)
}

// secret is a Secret of a bundle.
func secret(ns, name, value string) bundle.Object {
	return object(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":%q},"stringData":{"k":%q}}`,
		ns, name, value)
}

func TestInvariant05RetainedObjectsStayAndAreAdoptedAgain(t *testing.T) {
	b := open(t, options{})
	spec := one(retained(claim(b.ns, "data", "none")), retained(secret(b.ns, "key", "v")), configMap(b.ns, "goes", "v"))
	b.apply("b", spec)
	b.value("goes", "v")
	// They are made at once, so that another may be there first.
	b.field(claimGVK, b.ns, "data", "data", "metadata", "name")
	b.field(secretGVK, b.ns, "key", "key", "metadata", "name")
	data, key := b.must(claimGVK, b.ns, "data"), b.must(secretGVK, b.ns, "key")
	if len(data.GetOwnerReferences())+len(key.GetOwnerReferences()) > 0 {
		t.Fatalf("retained objects have owners: %v %v", data.GetOwnerReferences(), key.GetOwnerReferences())
	}
	b.delete(bundleGVK, b.ns, "b")
	b.gone(configMapGVK, b.ns, "goes")
	cluster.Consistently(t, while, func() error {
		for _, u := range []metav1.Object{b.must(claimGVK, b.ns, "data"), b.must(secretGVK, b.ns, "key")} {
			if u.GetDeletionTimestamp() != nil {
				return fmt.Errorf("%s is being deleted", u.GetName())
			}
		}
		return nil
	})
	b.apply("b", spec)
	b.value("goes", "v")
	cluster.Eventually(t, patience, func() error {
		for _, e := range b.bundle("b").Status.Inventory.Entries {
			if e.UID == data.GetUID() {
				return nil
			}
		}
		return fmt.Errorf("the claim is not among the children")
	})
	if b.must(claimGVK, b.ns, "data").GetUID() != data.GetUID() || b.must(secretGVK, b.ns, "key").GetUID() != key.GetUID() {
		t.Error("a retained object was made anew")
	}
	if n := b.events("b", "ResourceConflict"); n > 0 {
		t.Errorf("%d events say ResourceConflict", n)
	}
}

// TestInvariant05OrphanedObjectsStayAndArePruned changes the policy of a bundle that exists: its objects lose their owners, also
// those that its Inventories own, and one that leaves the plan is deleted all the same.
func TestInvariant05OrphanedObjectsStayAndArePruned(t *testing.T) {
	b := open(t, options{})
	other := b.namespace()
	spec := b.staged(other)
	spec.Stages[0].Objects = append(spec.Stages[0].Objects, configMap(b.ns, "leaves", "v"))
	b.apply("b", spec)
	b.ready("b")
	names := map[string]string{"near": b.ns, "leaves": b.ns, "far": other}
	owned := func(want bool) {
		t.Helper()
		cluster.Eventually(t, patience, func() error {
			objects := []metav1.Object{b.must(clusterRoleGVK, "", b.ns+"-role")}
			for name, ns := range names {
				objects = append(objects, b.must(configMapGVK, ns, name))
			}
			for _, u := range objects {
				if refs := u.GetOwnerReferences(); len(refs) > 0 != want {
					return fmt.Errorf("%s has the owners %v", u.GetName(), refs)
				}
			}
			return nil
		})
	}
	owned(true)
	spec.DeletionPolicy = keeper.DeletionOrphan
	b.apply("b", spec)
	owned(false)
	spec.DeletionPolicy = keeper.DeletionDelete
	b.apply("b", spec)
	owned(true)
	spec.DeletionPolicy = keeper.DeletionOrphan
	b.apply("b", spec)
	owned(false)
	spec.Stages[0].Objects = spec.Stages[0].Objects[:2]
	b.apply("b", spec)
	b.gone(configMapGVK, b.ns, "leaves")
	delete(names, "leaves")
	b.settle()
	b.delete(bundleGVK, b.ns, "b")
	cluster.Eventually(t, patience, func() error {
		if n := len(b.inventories("b")); n > 0 {
			return fmt.Errorf("%d Inventories are left", n)
		}
		return nil
	})
	cluster.Consistently(t, while, func() error {
		for _, u := range []metav1.Object{
			b.must(clusterRoleGVK, "", b.ns+"-role"), b.must(configMapGVK, b.ns, "near"), b.must(configMapGVK, other, "far"),
		} {
			if u.GetDeletionTimestamp() != nil {
				return fmt.Errorf("%s is being deleted", u.GetName())
			}
		}
		return nil
	})
}

func TestInvariant05ImmutableDifferenceStallsAndNothingIsRecreated(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(retained(claim(b.ns, "data", "none")), deployment(b.ns, "app", false)))
	cluster.Eventually(t, patience, func() error {
		if b.c.Get(t, claimGVK, b.ns, "data") == nil || b.c.Get(t, deploymentGVK, b.ns, "app") == nil {
			return fmt.Errorf("not made yet")
		}
		return nil
	})
	uid := b.must(claimGVK, b.ns, "data").GetUID()
	b.apply("b", one(retained(claim(b.ns, "data", "other")), deployment(b.ns, "app", false)))
	b.condition("b", "Stalled", metav1.ConditionTrue, "ImmutableField")
	b.quiet()
	if got := b.must(claimGVK, b.ns, "data"); got.GetUID() != uid || got.GetDeletionTimestamp() != nil {
		t.Fatalf("the claim was recreated: %v", got.Object)
	}
	b.apply("b", one(retained(claim(b.ns, "data", "none")), deployment(b.ns, "app", false)))
	b.condition("b", "Ready", metav1.ConditionFalse, "Progressing")
}

func TestInvariant05NamespacesAndDefinitionsAreNeverOwnedNorPruned(t *testing.T) {
	b := open(t, options{})
	made, group := b.ns+"-made", b.ns+".test"
	b.apply("b", bundle.Spec{Stages: []bundle.Stage{
		stage("first", object(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, made), definition(group, "Thing")),
		stage("second", configMap(b.ns, "goes", "v"), clusterRole(b.ns+"-role", "get")),
	}})
	b.Cleanup(func() {
		b.delete(namespaceGVK, "", made)
		b.delete(definitionGVK, "", "things."+group)
	})
	b.ready("b")
	stand := func() error {
		for _, u := range []metav1.Object{b.must(namespaceGVK, "", made), b.must(definitionGVK, "", "things."+group)} {
			if len(u.GetOwnerReferences()) > 0 || u.GetDeletionTimestamp() != nil {
				return fmt.Errorf("%s is owned or being deleted: %v", u.GetName(), u.GetOwnerReferences())
			}
		}
		return nil
	}
	if err := stand(); err != nil {
		t.Fatal(err)
	}
	b.apply("b", one(clusterRole(b.ns+"-role", "get")))
	b.gone(configMapGVK, b.ns, "goes")
	b.ready("b")
	cluster.Consistently(t, while, stand)
	b.delete(bundleGVK, b.ns, "b")
	b.gone(clusterRoleGVK, "", b.ns+"-role")
	b.noInventories("b")
	cluster.Consistently(t, while, stand)
}

func TestInvariant05RetainedObjectStaysThoughNoRecordTellsOfIt(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(retained(secret(b.ns, "key", "v")), configMap(b.ns, "stays", "v"), configMap(b.ns, "goes", "v")))
	b.ready("b")
	b.op.Stop()
	b.patchStatus(bundleGVK, b.ns, "b", `{"status":{"inventory":null}}`)
	b.apply("b", one(configMap(b.ns, "stays", "v")))
	b.restart()
	b.gone(configMapGVK, b.ns, "goes")
	b.ready("b")
	cluster.Consistently(t, while, func() error {
		if b.must(secretGVK, b.ns, "key").GetDeletionTimestamp() != nil {
			return fmt.Errorf("the retained Secret is being deleted")
		}
		return nil
	})
}

// TestInvariant05NothingIsRecreatedInVain has names and values say "immutable", and changes that a new object would be refused for.
func TestInvariant05NothingIsRecreatedInVain(t *testing.T) {
	b := open(t, options{})
	const name = "immutable-store"
	spec := func(selector, volumes string) bundle.Spec {
		o := object(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":%q},"spec":{
			"selector":{"matchLabels":{"app":%q}},"template":{"metadata":{"labels":{"app":%q}},"spec":{"volumes":[%s],
			"containers":[{"name":"main","image":"example.test/image:1","env":[{"name":"A","value":": field is immutable"}]}]}}}}`,
			b.ns, name, selector, selector, volumes)
		o.Recreate = true
		service := object(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":%q,"name":"port"},"spec":{"type":"NodePort",
			"ports":[{"port":80,"nodePort":31987}]}}`, b.ns)
		if selector == "c" {
			service = object(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":%q,"name":"port"},"spec":{
				"clusterIP":"None","ports":[{"port":80}]}}`, b.ns)
		}
		service.Recreate = true
		return one(o, service)
	}
	b.apply("b", spec("a", ""))
	b.ready("b")
	uid := b.must(deploymentGVK, b.ns, name).GetUID()
	stays := func(reason, says string) {
		b.Helper()
		got := b.condition("b", "Stalled", metav1.ConditionTrue, reason)
		if !strings.Contains(got.Message, says) {
			t.Errorf("%q is not in the message: %s", says, got.Message)
		}
		b.quiet()
		if got := b.must(deploymentGVK, b.ns, name); got.GetUID() != uid || got.GetDeletionTimestamp() != nil {
			t.Fatalf("the Deployment was deleted: %v", got.Object)
		}
	}
	// Invalid alone: the volume has no such name, which the answer quotes.
	b.apply("b", spec("a", `{"name":": field is immutable","emptyDir":{}}`))
	stays("Invalid", "field is immutable")
	// A change that is refused, and a new object that would be, too.
	b.apply("b", spec("b", `{"name":"UPPER","emptyDir":{}}`))
	stays("Invalid", "it stays as it is")
	// A change that is refused alone.
	b.apply("b", spec("c", ""))
	b.ready("b")
	if b.must(deploymentGVK, b.ns, name).GetUID() == uid {
		t.Error("the Deployment was not made again")
	}
}

// TestInvariant05AReplacementThatAPolicyDeniesLeavesTheObject has a policy refuse every new Deployment.
func TestInvariant05AReplacementThatAPolicyDeniesLeavesTheObject(t *testing.T) {
	b := open(t, options{})
	spec := func(selector string) bundle.Spec {
		o := deployment(b.ns, "app", false)
		o.Manifest.Raw = []byte(strings.ReplaceAll(string(o.Manifest.Raw), `"app":"app"`, fmt.Sprintf(`"app":%q`, selector)))
		o.Recreate = true
		return one(o)
	}
	b.apply("b", spec("a"))
	b.ready("b")
	uid := b.must(deploymentGVK, b.ns, "app").GetUID()
	quota := object(`{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"namespace":%q,"name":"none"},"spec":{"hard":{"count/deployments.apps":"0"}}}`, b.ns)
	b.c.Apply(t, string(quota.Manifest.Raw)+"\n")
	cluster.Eventually(t, patience, func() error {
		if out, err := b.c.TryKubectl("create", "deployment", "probe", "-n", b.ns, "--image=x", "--dry-run=server"); err == nil {
			return fmt.Errorf("the quota is not active yet: %s", out)
		}
		return nil
	})
	b.apply("b", spec("b"))
	b.condition("b", "Ready", metav1.ConditionFalse, "QuotaExceeded")
	if got := b.must(deploymentGVK, b.ns, "app"); got.GetUID() != uid || got.GetDeletionTimestamp() != nil {
		t.Fatalf("the Deployment was deleted: %v", got.Object)
	}
	b.delete(quotaGVK, b.ns, "none")
	b.ready("b")
	if b.must(deploymentGVK, b.ns, "app").GetUID() == uid {
		t.Error("the Deployment was not made again once the quota was gone")
	}
}

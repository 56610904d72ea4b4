package invariants

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/status"
	"mlkeeper.dev/test/cluster"
)

// stands fails when the Inventories of a bundle, or what they own, do not last for a while.
func (b *bench) stands(name string) {
	b.Helper()
	want := len(b.inventories(name))
	cluster.Consistently(b, while, func() error {
		if n := len(b.inventories(name)); n != want || n == 0 {
			return fmt.Errorf("%d Inventories of %d stand", n, want)
		}
		if b.must(clusterRoleGVK, "", b.ns+"-role").GetDeletionTimestamp() != nil {
			return fmt.Errorf("the ClusterRole is being deleted")
		}
		return nil
	})
}

func TestInvariant04AnAnswerThatIsNotNotFoundMeansWait(t *testing.T) {
	b := open(t, options{})
	b.apply("b", b.staged(b.namespace()))
	b.ready("b")
	uid := string(b.bundle("b").UID)
	code, reason := http.StatusInternalServerError, "InternalError"
	refuse := func(r *http.Request) *http.Response {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, b.ns+"/bundles/b") {
			return answer(r, code, reason)
		}
		return nil
	}
	b.journal.hook(refuse)
	mark := b.journal.mark()
	b.delete(bundleGVK, b.ns, "b")
	asked := func() error {
		if len(b.journal.since(mark, func(r request) bool {
			return r.method == http.MethodGet && strings.HasSuffix(r.path, b.ns+"/bundles/b")
		})) == 0 {
			return fmt.Errorf("nobody asked whether %s is gone", uid)
		}
		return nil
	}
	cluster.Eventually(t, patience, asked)
	b.stands("b")
	b.op.Stop()
	code, reason = http.StatusForbidden, "Forbidden"
	mark = b.journal.mark()
	b.restart()
	cluster.Eventually(t, patience, asked)
	b.stands("b")
	b.journal.hook(nil)
	b.gone(clusterRoleGVK, "", b.ns+"-role")
	b.noInventories("b")
}

// TestInvariant04AReadThatIsRefusedIsTold refuses the live read of a custom resource that comes before a child is created anew.
func TestInvariant04AReadThatIsRefusedIsTold(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(configMap(b.ns, "one", "v")))
	b.ready("b")
	b.journal.hook(func(r *http.Request) *http.Response {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, b.ns+"/bundles/b") {
			return answer(r, http.StatusForbidden, "Forbidden")
		}
		return nil
	})
	b.delete(configMapGVK, b.ns, "one")
	got := b.condition("b", "Ready", metav1.ConditionFalse, status.ReasonRetrying)
	if !strings.Contains(got.Message, "ask whether "+b.ns+"/b is still there") {
		t.Errorf("the message does not name the read: %s", got.Message)
	}
	if b.c.Get(t, configMapGVK, b.ns, "one") != nil {
		t.Error("the child was created anew for what may be gone")
	}
	b.journal.hook(nil)
	b.ready("b")
	b.value("one", "v")
}

func TestInvariant04AnotherShardDoesNotTearDown(t *testing.T) {
	b := open(t, options{})
	b.apply("b", b.staged(b.namespace()))
	b.ready("b")
	b.op.Stop()
	b.delete(bundleGVK, b.ns, "b")
	b.gone(bundleGVK, b.ns, "b")
	other := b.opts.Options
	other.Engine.Shards = (&namespaces{}).held()
	op := b.operator(other)
	b.stands("b")
	op.Stop()
	b.restart()
	b.noInventories("b")
	b.gone(clusterRoleGVK, "", b.ns+"-role")
}

func TestInvariant04AnotherOfTheSameNameIsAnotherOwner(t *testing.T) {
	b := open(t, options{})
	other := b.namespace()
	b.apply("b", b.staged(other))
	b.ready("b")
	old := b.bundle("b").UID
	b.op.Stop()
	b.delete(bundleGVK, b.ns, "b")
	b.gone(bundleGVK, b.ns, "b")
	spec := b.staged(other)
	spec.Stages[1].Objects = append(spec.Stages[1].Objects, configMap(b.ns, "new", "v"))
	b.apply("b", spec)
	b.restart()
	b.ready("b")
	cluster.Eventually(t, patience, func() error {
		invs := b.inventories("b")
		for _, inv := range invs {
			if inv.Spec.Owner.UID == old {
				return fmt.Errorf("Inventory %s of the old one stands", inv.Name)
			}
		}
		if len(invs) != 2 {
			return fmt.Errorf("%d Inventories of the new one", len(invs))
		}
		return nil
	})
	b.ready("b")
	b.stands("b")
	b.value("new", "v")
}

func TestInvariant04WithTheDefinitionGoneEverythingGoes(t *testing.T) {
	t.Parallel()
	b := open(t, options{Cluster: cluster.Start(t)})
	other := b.namespace()
	b.apply("b", b.staged(other))
	b.ready("b")
	// Nobody sees the custom resource go, since the operator does not run.
	b.op.Stop()
	b.delete(definitionGVK, "", "bundles.test.mlkeeper.dev")
	b.gone(definitionGVK, "", "bundles.test.mlkeeper.dev")
	b.must(clusterRoleGVK, "", b.ns+"-role")
	b.restart()
	b.noInventories("b")
	b.gone(clusterRoleGVK, "", b.ns+"-role")
	b.gone(configMapGVK, other, "far")
}

// TestInvariant04AStatusIsNoEvidence has a tenant, who may write the status of his own custom resource and nothing else, list objects
// of others in it.
func TestInvariant04AStatusIsNoEvidence(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(configMap(b.ns, "one", "v")))
	b.ready("b")
	elsewhere := b.namespace()
	role := b.ns + "-of-others"
	foreign := `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":%q,"annotations":{%s}},"stringData":{"k":"theirs"}}`
	copied := fmt.Sprintf(`"keeper.mlkeeper.dev/owner":%q`, b.must(configMapGVK, b.ns, "one").GetAnnotations()["keeper.mlkeeper.dev/owner"])
	b.c.Apply(t, strings.Join([]string{
		fmt.Sprintf(foreign, elsewhere, "db", ""), fmt.Sprintf(foreign, b.ns, "db", ""), fmt.Sprintf(foreign, b.ns, "copied", copied),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"named"},"data":{"k":"theirs"}}`, b.ns),
		fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q},"rules":[]}`, role),
	}, "\n---\n")+"\n")
	b.Cleanup(func() { b.delete(clusterRoleGVK, "", role) })
	type victim struct {
		gvk      schema.GroupVersionKind
		ns, name string
	}
	victims := []victim{
		{secretGVK, elsewhere, "db"}, {secretGVK, b.ns, "db"}, {secretGVK, b.ns, "copied"}, {configMapGVK, b.ns, "named"}, {clusterRoleGVK, "", role},
	}
	children := b.bundle("b").Status.Inventory.Entries
	uids := map[victim]string{}
	for _, v := range victims {
		uids[v] = string(b.must(v.gvk, v.ns, v.name).GetUID())
		children = append(children, keeper.InventoryEntry{
			ObjectReference: keeper.ObjectReference{Group: v.gvk.Group, Version: v.gvk.Version, Kind: v.gvk.Kind, Namespace: v.ns, Name: v.name},
			UID:             types.UID(uids[v]),
		})
	}
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"inventory": map[string]any{"entries": children}}})
	if err != nil {
		t.Fatal(err)
	}
	mark := b.journal.mark()
	b.c.Kubectl(t, "-n", b.ns, "patch", "bundle", "b", "--subresource=status", "--type=merge", "-p", string(raw))
	b.nudge("b")
	b.settle()
	stand := func() {
		t.Helper()
		for _, v := range victims {
			if u := b.c.Get(t, v.gvk, v.ns, v.name); u == nil || string(u.GetUID()) != uids[v] || u.GetDeletionTimestamp() != nil {
				t.Errorf("%s %s/%s was deleted", v.gvk.Kind, v.ns, v.name)
			}
		}
	}
	stand()
	// One of them is declared now, and an operator that starts with that status finds it: it is somebody's, as before.
	b.op.Stop()
	b.c.Kubectl(t, "-n", b.ns, "patch", "bundle", "b", "--subresource=status", "--type=merge", "-p", string(raw))
	b.apply("b", one(configMap(b.ns, "one", "v"), configMap(b.ns, "named", "ours")))
	b.restart()
	b.condition("b", "Ready", metav1.ConditionFalse, "ResourceConflict")
	stand()
	b.value("named", "theirs")
	for _, e := range b.bundle("b").Status.Inventory.Entries {
		if e.Name != "one" {
			t.Errorf("the status still lists %s %s/%s", e.Kind, e.Namespace, e.Name)
		}
	}
	// What is out of the custom resource's reach is not even asked for.
	for _, r := range b.journal.since(mark, func(r request) bool {
		return r.method == http.MethodDelete || strings.Contains(r.path, "/"+elsewhere+"/") || strings.HasSuffix(r.path, "/"+role)
	}) {
		t.Errorf("the operator sent %s %s", r.method, r.path)
	}
}

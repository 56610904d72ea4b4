package invariants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mlkeeper.dev/test/cluster"
)

func TestInvariant06DeletedInventoriesTakeEverythingAlongWithoutUs(t *testing.T) {
	b := open(t, options{})
	other := b.namespace()
	spec := b.staged(other)
	spec.Stages[1].Objects = append(spec.Stages[1].Objects, retained(secret(other, "kept", "v")))
	b.apply("b", spec)
	b.ready("b")
	b.op.Stop()
	for _, inv := range b.inventories("b") {
		b.c.Kubectl(t, "delete", "inventory", inv.Name, "--wait=false")
	}
	b.gone(clusterRoleGVK, "", b.ns+"-role")
	b.gone(configMapGVK, b.ns, "near")
	b.gone(configMapGVK, other, "far")
	if b.must(secretGVK, other, "kept").GetDeletionTimestamp() != nil {
		t.Error("a retained object went with the Inventory")
	}
}

func TestInvariant06WithoutTheDefinitionOfInventoryEverythingGoesWithoutUs(t *testing.T) {
	t.Parallel()
	b := open(t, options{Cluster: cluster.Start(t)})
	other := b.namespace()
	b.apply("b", b.staged(other))
	b.apply("first", one(clusterRole(b.ns+"-first", "get")))
	b.ready("b")
	b.ready("first")
	b.op.Stop()
	// The garbage collector learns of a new kind only after up to half a minute; then it knows it.
	b.delete(inventoryGVK, "", b.inventories("first")[0].Name)
	b.gone(clusterRoleGVK, "", b.ns+"-first")
	t.Cleanup(func() { explainGarbage(t, b.c) })
	// The API server ends the watches on a kind as soon as its definition is gone, on a busy machine before the garbage collector has heard of the
	// end of the last object (apiextensions-apiserver pkg/controller/finalizer, pkg/apiserver/customresource_handler.go). It is held that long.
	const crd = "inventories.keeper.mlkeeper.dev"
	b.c.Kubectl(t, "patch", "crd", crd, "--type=json", "-p", `[{"op":"add","path":"/metadata/finalizers","value":["test.mlkeeper.dev/hold"]}]`)
	b.c.Kubectl(t, "delete", "crd", crd, "--wait=false")
	b.gone(clusterRoleGVK, "", b.ns+"-role")
	b.c.Kubectl(t, "patch", "crd", crd, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	b.gone(definitionGVK, "", crd)
	b.gone(configMapGVK, b.ns, "near")
	b.gone(configMapGVK, other, "far")
}

// explainGarbage logs, after a failure, what the garbage collector had to say: what it misses while a definition goes depends on its timing.
func explainGarbage(t *testing.T, c *cluster.Cluster) {
	if !t.Failed() {
		return
	}
	log, err := os.ReadFile(filepath.Join(c.Dir, "logs", "kube-controller-manager.log"))
	if err != nil {
		t.Log(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "garbage") || strings.Contains(line, "inventories") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

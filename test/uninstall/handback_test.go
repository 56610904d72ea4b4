package uninstall

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
)

// handBackBlock is the block of commands of the section "Handing a service back", which deletes the rest of MLKeeper.
var handBackBlock = regexp.MustCompile("(?ms)^## Handing a service back\n.*?^ *```sh\n(.*?)^ *```$")

// keptInventory owns an object, as the Inventories of KfDefs and SeldonOperators do. %s is the namespace.
const keptInventory = `
apiVersion: keeper.mlkeeper.dev/v1alpha1
kind: Inventory
metadata: {name: kubeflow-left}
spec:
  stage: 0
  owner: {group: kfdef.apps.kubeflow.org, kind: KfDef, namespace: %[1]s, name: left, uid: 6f1f0f0e-0000-4000-8000-000000000000}
  entries: [{version: v1, kind: ConfigMap, namespace: %[1]s, name: owned}]
`

// TestTheRestIsDeletedAfterAHandBack runs the commands with which docs/trustyai.md deletes the rest of MLKeeper: nothing is deleted while an
// Inventory is left, whose objects would go with the definition, and afterwards only definitions of custom resources are left.
func TestTheRestIsDeletedAfterAHandBack(t *testing.T) {
	c := cluster.Start(t, fixture.CRDs())
	manifest := installManifest(t)
	c.Kubectl(t, "apply", "--server-side", "-f", manifest)
	c.InstallCRDs(t, "engine", "trustyai", "tfserving", "kubeflow", "seldon")
	informGarbageCollector(t, c)
	c.Kubectl(t, "-n", cluster.OperatorNamespace, "scale", "deployment", "mlkeeper-controller-manager", "--replicas=0")
	ns := c.Namespace(t)
	c.Apply(t, fmt.Sprintf(keptInventory, ns))
	uid := c.Kubectl(t, "get", "inventory", "kubeflow-left", "-o", "jsonpath={.metadata.uid}")
	c.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: owned
  namespace: %s
  ownerReferences: [{apiVersion: keeper.mlkeeper.dev/v1alpha1, kind: Inventory, name: kubeflow-left, uid: %s, controller: true}]
`, ns, uid))
	deleteTheRest(t, c)
	c.Consistently(t, 5*time.Second, func() error {
		if _, err := c.TryKubectl("get", "-f", manifest); err != nil {
			return fmt.Errorf("something of the installation is deleted although an Inventory is left: %w", err)
		}
		if _, err := c.TryKubectl("-n", ns, "get", "configmap", "owned"); err != nil {
			return fmt.Errorf("what the Inventory owns is deleted: %w", err)
		}
		return nil
	})

	c.Kubectl(t, "delete", "inventory", "kubeflow-left", "--cascade=orphan")
	deleteTheRest(t, c)
	cluster.Eventually(t, allGone, func() error {
		left, err := c.Everything(t.Context())
		for _, o := range left {
			mine := o.Namespace == cluster.OperatorNamespace || strings.Contains(o.Name, "mlkeeper")
			if mine && (o.Resource != "customresourcedefinitions" || strings.HasPrefix(o.Name, "inventories.")) {
				return fmt.Errorf("%s is left", o)
			}
		}
		return err
	})
	c.Kubectl(t, "get", "crd", "trustyaiservices.trustyai.opendatahub.io", "kfdefs.kfdef.apps.kubeflow.org")
}

// deleteTheRest runs the commands of the page as a user does, whatever their exit status is.
func deleteTheRest(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "trustyai.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := handBackBlock.FindSubmatch(page)
	if found == nil {
		t.Fatal("the section has no block of commands")
	}
	binary, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	script := "#!/bin/sh\nexec \"" + binary + "\" kubectl --kubeconfig \"$KUBECONFIG\" \"$@\"\n"
	if err := os.WriteFile(filepath.Join(programs, "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", string(found[1]))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "KUBECACHEDIR="+t.TempDir(), "PATH="+programs+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	t.Logf("%v\n%s", err, out)
}

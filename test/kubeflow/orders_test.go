package kubeflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// The steps of an uninstall. The operator and the definitions are shared by all KfDefs of a cluster.
const (
	theKfDef     = "KfDef"
	theInventory = "Inventory"
	theNamespace = "namespace"
	theOperator  = "operator"
	theCRDs      = "CRDs"
)

// TestDeletionInEveryOrder deletes {KfDef, Inventory, namespace, operator, CRDs} in all 120 orders, one delete after the
// other without a pause. Nothing is left.
func TestDeletionInEveryOrder(t *testing.T) {
	for _, shared := range cluster.Orders(theOperator, theCRDs) {
		t.Run(shared[0]+" first", func(t *testing.T) {
			t.Parallel()
			var orders [][]string
			for _, o := range cluster.Orders(theKfDef, theInventory, theNamespace, theOperator, theCRDs) {
				if slices.Index(o, shared[0]) < slices.Index(o, shared[1]) {
					orders = append(orders, o)
				}
			}
			uninstalls(t, shared, orders)
		})
	}
}

// uninstalls makes a KfDef for every order, and deletes them all, in three phases that the shared steps divide.
func uninstalls(t *testing.T, shared []string, orders [][]string) {
	t.Helper()
	c := cluster.Start(t)
	o := start(t, c, mirror(t), harness.Options{}, trusting)
	// The garbage collector looks for new kinds when it starts, and every 30 s.
	c.StopComponent(t, "kube-controller-manager")
	c.StartComponent(t, "kube-controller-manager")
	for i := range orders {
		install(t, c, fmt.Sprintf("kf-%02d", i))
	}
	for i := range orders {
		cluster.Eventually(t, patience, func() error { return ready(get(t, c, fmt.Sprintf("kf-%02d", i), "kf")) })
	}
	for phase := range 3 {
		for i, order := range orders {
			for _, step := range phaseOf(order, phase) {
				deletePrivate(t, c, fmt.Sprintf("kf-%02d", i), step)
			}
		}
		if phase == 2 {
			break
		}
		if shared[phase] == theOperator {
			o.Stop()
			continue
		}
		c.Kubectl(t, "delete", "crd", "kfdefs.kfdef.apps.kubeflow.org", "inventories.keeper.mlkeeper.dev", "--wait=false")
	}
	began := time.Now()
	cluster.Eventually(t, 2*time.Minute, func() error {
		all, err := c.Everything(t.Context())
		if err != nil {
			return err
		}
		for _, u := range all {
			if u.Labels[keeper.RoomLabel] != "" || strings.HasPrefix(u.Name, "kf-") || strings.HasPrefix(u.Namespace, "kf-") {
				return fmt.Errorf("left, among others: %v", u)
			}
		}
		return nil
	})
	t.Logf("%d KfDefs are gone %s after the last delete", len(orders), time.Since(began).Round(100*time.Millisecond))
}

// phaseOf are the steps of an order that come after as many shared ones.
func phaseOf(order []string, phase int) []string {
	var out []string
	passed := 0
	for _, step := range order {
		switch {
		case step == theOperator || step == theCRDs:
			passed++
		case passed == phase:
			out = append(out, step)
		}
	}
	return out
}

// install makes a KfDef in a namespace of its own, with an object outside of it, so that there are Inventories.
func install(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	c.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+ns+"}\n")
	files := fstest.MapFS{}
	merge(files, application("web", configMap("settings")))
	merge(files, application("role", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: `+ns+`}, rules: []}`))
	archive(t, c, ns, "kf", files)
	c.Apply(t, `
apiVersion: kfdef.apps.kubeflow.org/v1
kind: KfDef
metadata: {name: kf}
spec:
  repos: [{name: manifests, uri: 'configmap:kf/manifests.tar.gz'}]
  applications:
  - {name: web, kustomizeConfig: {repoRef: {name: manifests, path: web}}}
  - {name: role, kustomizeConfig: {repoRef: {name: manifests, path: role}}}
`, ns)
}

// deletePrivate deletes something of one KfDef, which may have gone with its definition, its owner or its namespace.
func deletePrivate(t *testing.T, c *cluster.Cluster, ns, step string) {
	t.Helper()
	var doomed []client.Object
	one := func(gvk schema.GroupVersionKind, namespace, name string) {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		u.SetNamespace(namespace)
		u.SetName(name)
		doomed = append(doomed, u)
	}
	switch step {
	case theKfDef:
		one(kfDef, ns, "kf")
	case theNamespace:
		one(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "", ns)
	case theInventory:
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(keeper.GroupVersion.WithKind("InventoryList"))
		if err := c.Client.List(t.Context(), list); err != nil {
			return // Their definition is gone.
		}
		for i := range list.Items {
			if strings.HasSuffix(list.Items[i].Annotations[keeper.OwnerAnnotation], "/"+ns+"/kf") {
				one(keeper.GroupVersion.WithKind("Inventory"), "", list.Items[i].Name)
			}
		}
	}
	for _, u := range doomed {
		// What is gone already is as good.
		_ = c.Client.Delete(t.Context(), u)
	}
}

// Package orders deletes a custom resource, its Inventories, its namespace, the operator and the definitions in every order, for
// any kind. It knows nothing of what a kind installs.
package orders

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// Kind is what a kind gives to be tested.
type Kind struct {
	GVK schema.GroupVersionKind
	// CRD is the name of its definition, Name that of every custom resource.
	CRD, Name string
	// Start runs the operator on a cluster.
	Start func(*testing.T, *cluster.Cluster) *harness.Operator
	// Install makes a custom resource in a namespace, which exists. It should make something outside of it, for there to be
	// Inventories, with the name of the namespace in its own.
	Install func(t *testing.T, c *cluster.Cluster, namespace string)
}

// The steps of an uninstall. The operator and the definitions are shared by all custom resources of a cluster.
const (
	theCR        = "custom resource"
	theInventory = "Inventory"
	theNamespace = "namespace"
	theOperator  = "operator"
	theCRDs      = "CRDs"
)

// prefix is that of the namespaces.
const prefix = "orders-"

const patience = 2 * time.Minute

// Every deletes {custom resource, Inventory, namespace, operator, CRDs} in all 120 orders, one delete after the other without a
// pause. Nothing may be left.
func Every(t *testing.T, k Kind) {
	t.Helper()
	for _, shared := range cluster.Orders(theOperator, theCRDs) {
		t.Run(shared[0]+" first", func(t *testing.T) {
			t.Parallel()
			var orders [][]string
			for _, o := range cluster.Orders(theCR, theInventory, theNamespace, theOperator, theCRDs) {
				if slices.Index(o, shared[0]) < slices.Index(o, shared[1]) {
					orders = append(orders, o)
				}
			}
			k.uninstall(t, shared, orders)
		})
	}
}

// uninstall makes a custom resource for every order, and deletes them all, in three phases that the shared steps divide.
func (k Kind) uninstall(t *testing.T, shared []string, orders [][]string) {
	t.Helper()
	c := cluster.Start(t)
	o := k.Start(t, c)
	// The garbage collector looks for new kinds when it starts, and every 30 s.
	c.StopComponent(t, "kube-controller-manager")
	c.StartComponent(t, "kube-controller-manager")
	for i := range orders {
		ns := namespaceOf(i)
		c.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+ns+"}\n")
		k.Install(t, c, ns)
	}
	for i := range orders {
		cluster.Eventually(t, patience, func() error { return ready(c.Get(t, k.GVK, namespaceOf(i), k.Name)) })
	}
	for phase := range 3 {
		for i, order := range orders {
			for _, step := range phaseOf(order, phase) {
				k.delete(t, c, namespaceOf(i), step)
			}
		}
		if phase == 2 {
			break
		}
		if shared[phase] == theOperator {
			o.Stop()
			continue
		}
		c.Kubectl(t, "delete", "crd", k.CRD, "inventories.keeper.mlkeeper.dev", "--wait=false")
	}
	began := time.Now()
	cluster.Eventually(t, patience, func() error { return nothingLeft(t, c) })
	t.Logf("%d custom resources are gone %s after the last delete", len(orders), time.Since(began).Round(100*time.Millisecond))
}

func namespaceOf(i int) string { return fmt.Sprintf("%s%03d", prefix, i) }

func ready(u *unstructured.Unstructured) error {
	if u == nil {
		return errors.New("it is not there")
	}
	observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok && c["type"] == "Ready" && c["status"] == "True" && observed == u.GetGeneration() {
			return nil
		}
	}
	return fmt.Errorf("%s/%s is not Ready: %v", u.GetNamespace(), u.GetName(), conditions)
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

// delete deletes something of one custom resource, which may have gone with its definition, its owner or its namespace.
func (k Kind) delete(t *testing.T, c *cluster.Cluster, ns, step string) {
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
	case theCR:
		one(k.GVK, ns, k.Name)
	case theNamespace:
		one(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "", ns)
	case theInventory:
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(keeper.GroupVersion.WithKind("InventoryList"))
		if err := c.Client.List(t.Context(), list); err != nil {
			return // Their definition is gone.
		}
		for i := range list.Items {
			if strings.HasSuffix(list.Items[i].Annotations[keeper.OwnerAnnotation], "/"+ns+"/"+k.Name) {
				one(keeper.GroupVersion.WithKind("Inventory"), "", list.Items[i].Name)
			}
		}
	}
	for _, u := range doomed {
		// What is gone already is as good.
		_ = c.Client.Delete(t.Context(), u)
	}
}

// nothingLeft is an error while anything is there that an operator made, or that is in one of the namespaces.
func nothingLeft(t *testing.T, c *cluster.Cluster) error {
	all, err := c.Everything(t.Context())
	if err != nil {
		return err
	}
	for _, u := range all {
		if u.Labels[keeper.ControllerLabel] != "" || strings.Contains(u.Name, prefix) || strings.HasPrefix(u.Namespace, prefix) {
			return fmt.Errorf("left, among others: %v", u)
		}
	}
	return nil
}

package kubeflow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

var priorityClasses = schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"}

// TestAnInsertedApplicationRewritesNothing inserts an application at the front of ten, and then has the manager find Inventories as an
// earlier version left them: no object of the others is written.
func TestAnInsertedApplicationRewritesNothing(t *testing.T) {
	c := cluster.Start(t)
	a := mirror(t)
	o := start(t, c, a, harness.Options{}, kubeflow.Settings{})
	ns := c.Namespace(t)
	grant(t, c, ns)
	files, names := fstest.MapFS{}, []string{}
	for i := range 11 {
		name := fmt.Sprint("a", i)
		names = append(names, name)
		merge(files, application(name, configMap(name)+"\n---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: "+ns+"-"+name+
			"}, value: "+fmt.Sprint(i)+"}"))
	}
	archive(t, c, ns, "kf", files)
	apply(t, c, ns, "kf", "", names[1:]...)
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	o.Settle(t, time.Minute)
	before, owners, requests := written(t, c, ns, names[1:]), inventoriesOf(t, c, ns), o.Requests.Snapshot()
	if len(owners) != 11 {
		t.Fatalf("%d Inventories", len(owners))
	}

	apply(t, c, ns, "kf", "", names...)
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	o.Settle(t, time.Minute)
	if after := written(t, c, ns, names[1:]); !maps.Equal(after, before) {
		t.Errorf("objects of other applications were written:\n%v\nbefore:\n%v", after, before)
	}
	for _, resource := range []string{"configmaps", "priorityclasses"} {
		writes := func(r cluster.Request) bool { return r.Write() && r.Resource == resource }
		if n := cluster.Sum(o.Requests.Since(requests), writes); n != 1 {
			t.Errorf("%d writes of %s for one application", n, resource)
		}
	}
	now := inventoriesOf(t, c, ns)
	for name, inv := range owners {
		if now[name].ResourceVersion != inv.ResourceVersion {
			t.Errorf("the Inventory %s was written: %+v", name, now[name].Spec)
		}
	}

	o.Stop()
	unname(t, c, now)
	before = written(t, c, ns, names)
	o = start(t, c, a, harness.Options{}, kubeflow.Settings{})
	cluster.Eventually(t, time.Minute, func() error {
		for name, inv := range inventoriesOf(t, c, ns) {
			if inv.Spec.StageName == "" || inv.UID != now[name].UID {
				return fmt.Errorf("%s is of stage %q", name, inv.Spec.StageName)
			}
		}
		return nil
	})
	o.Settle(t, time.Minute)
	if after := written(t, c, ns, names); !maps.Equal(after, before) {
		t.Errorf("objects were written:\n%v\nbefore:\n%v", after, before)
	}
	remove(t, c, ns, "kf")
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, priorityClasses, "", ns+"-a0") })
}

// ordered has one KfDef wait for another one, and tells two that wait for one another.
func ordered(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	for _, name := range []string{"first", "second"} {
		archive(t, c, ns, name, application("app", configMap("of-"+name)))
	}
	apply(t, c, ns, "second", "dependsOn: [{name: first}]", "app")
	cluster.Eventually(t, time.Minute, func() error {
		return reason(get(t, c, ns, "second"), "DependencyUnknown", "spec.dependsOn[0].name (first): there is no such KfDef in the namespace")
	})
	if err := c.Gone(t, configMaps, ns, "of-second"); err != nil {
		t.Error(err)
	}
	apply(t, c, ns, "first", "", "app")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "second")) })
	apply(t, c, ns, "first", "dependsOn: [{name: second}]", "app")
	for _, name := range []string{"first", "second"} {
		cluster.Eventually(t, time.Minute, func() error { return reason(get(t, c, ns, name), "DependencyCycle", "spec.dependsOn") })
	}
	apply(t, c, ns, "first", "", "app")
	for _, name := range []string{"first", "second"} {
		cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, name)) })
	}
	if out, err := c.TryKubectl("-n", ns, "patch", "kfdef", "first", "--type=merge", "-p", `{"spec":{"dependsOn":[{"name":"first"}]}}`); err == nil {
		t.Errorf("a KfDef may depend on itself: %s", out)
	}
}

// orderedElsewhere has a KfDef wait for one of another namespace, of which it learns nothing before it is granted the right to read it.
func orderedElsewhere(t *testing.T, c *cluster.Cluster) {
	platform, ns := c.Namespace(t), c.Namespace(t)
	grant(t, c, platform)
	c.Kubectl(t, "-n", ns, "create", "serviceaccount", "mlkeeper")
	c.Kubectl(t, "-n", ns, "create", "rolebinding", "mlkeeper", "--clusterrole=edit", "--serviceaccount="+ns+":mlkeeper")
	archive(t, c, platform, "istio", application("app", configMap("of-istio")))
	archive(t, c, ns, "kf", application("app", configMap("of-kf")))
	apply(t, c, ns, "kf", "dependsOn: [{name: istio, namespace: "+platform+"}]", "app")
	told := func() string { return meta.FindStatusCondition(get(t, c, ns, "kf").Status.Conditions, "Ready").Message }
	unknown := func() error {
		return reason(get(t, c, ns, "kf"), "DependencyUnknown", "there is no such KfDef, or the ServiceAccount of this one may not read it")
	}
	cluster.Eventually(t, time.Minute, unknown)
	before := told()
	apply(t, c, platform, "istio", "", "app")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, platform, "istio")) })
	reconcile := func(at string) {
		c.Kubectl(t, "-n", ns, "annotate", "--overwrite", "kfdef", "kf", "keeper.mlkeeper.dev/reconcile-at="+at)
		cluster.Eventually(t, time.Minute, func() error {
			if got := get(t, c, ns, "kf").Status.LastHandledReconcileAt; got != at {
				return fmt.Errorf("reconciled at %q", got)
			}
			return nil
		})
	}
	reconcile("1")
	if err := errors.Join(unknown(), c.Gone(t, configMaps, ns, "of-kf")); err != nil || told() != before {
		t.Errorf("%v; it says %q, and said %q", err, told(), before)
	}
	c.Kubectl(t, "-n", platform, "create", "role", "kfdef-reader", "--verb=get", "--resource=kfdefs.kfdef.apps.kubeflow.org", "--resource-name=istio")
	c.Kubectl(t, "-n", platform, "create", "rolebinding", "kfdef-reader", "--role=kfdef-reader", "--serviceaccount="+ns+":mlkeeper")
	c.AwaitAllowed(t, ns, "mlkeeper", authorizationv1.ResourceAttributes{
		Namespace: platform, Group: kfDef.Group, Resource: "kfdefs", Name: "istio", Verb: "get",
	})
	reconcile("2")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
}

// keeps has an object with the annotation stay that its application no longer has.
func keeps(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	kept := `{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, annotations: {keeper.mlkeeper.dev/prune: disabled}}, data: {a: b}}`
	archive(t, c, ns, "kf", application("one", kept+"\n---\n"+configMap("live")+"\n---\n"+configMap("pruned")))
	apply(t, c, ns, "kf", "", "one")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	c.Kubectl(t, "-n", ns, "annotate", "configmap", "live", "keeper.mlkeeper.dev/prune=disabled")
	archive(t, c, ns, "kf", application("one", configMap("new")))
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, configMaps, ns, "pruned") })
	for _, name := range []string{"kept", "live", "new"} {
		if err := c.There(t, configMaps, ns, name); err != nil {
			t.Error(err)
		}
	}
	remove(t, c, ns, "kf")
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, configMaps, ns, "live") })
	if err := c.There(t, configMaps, ns, "kept"); err != nil {
		t.Error(err)
	}
}

// written are the versions of the objects of applications.
func written(t *testing.T, c *cluster.Cluster, ns string, applications []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range applications {
		for kind, u := range map[string]client.Object{"ConfigMap": c.Get(t, configMaps, ns, name), "PriorityClass": c.Get(t, priorityClasses, "", ns+"-"+name)} {
			out[kind+" "+name] = u.GetResourceVersion()
		}
	}
	return out
}

// inventoriesOf are the Inventories of the KfDef of a namespace.
func inventoriesOf(t *testing.T, c *cluster.Cluster, ns string) map[string]keeper.Inventory {
	t.Helper()
	var list keeper.InventoryList
	if err := c.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]keeper.Inventory{}
	for _, inv := range list.Items {
		if inv.Spec.Owner.Namespace == ns {
			out[inv.Name] = inv
		}
	}
	return out
}

// unname makes Inventories what an earlier version wrote: with numbers one after the other, and without the names of the stages.
func unname(t *testing.T, c *cluster.Cluster, invs map[string]keeper.Inventory) {
	t.Helper()
	all := slices.SortedFunc(maps.Values(invs), func(a, b keeper.Inventory) int { return int(a.Spec.Stage - b.Spec.Stage) })
	for i, inv := range all {
		inv.Spec.StageName, inv.Spec.Stage = "", int32(i) //nolint:gosec // A small number.
		if err := c.Client.Update(t.Context(), &inv); err != nil {
			t.Fatal(err)
		}
	}
}

package kubeflow

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// small is the small Kubeflow of make demo.
const small = "../../hack/demo/kubeflow"

var configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// TestSmall holds what needs no large Kubeflow, on one control plane. The archives are in ConfigMaps: nothing is fetched.
func TestSmall(t *testing.T) {
	c := cluster.Start(t)
	a := mirror(t)
	o := start(t, c, a, harness.Options{}, kubeflow.Settings{})
	t.Run("TheDemoAsAServiceAccount", func(t *testing.T) { demo(t, c) })
	t.Run("DependsOn", func(t *testing.T) { dependsOn(t, c) })
	t.Run("Suspend", func(t *testing.T) { suspends(t, c) })
	t.Run("Orphan", func(t *testing.T) { orphans(t, c) })
	t.Run("OrphanWebhook", func(t *testing.T) { orphansCalled(t, c) })
	t.Run("TwoClaimOneObject", func(t *testing.T) { collide(t, c) })
	t.Run("LeftTheSpec", func(t *testing.T) { prunes(t, c) })
	t.Run("KeptByAnnotation", func(t *testing.T) { keeps(t, c) })
	t.Run("OneAfterAnother", func(t *testing.T) { ordered(t, c) })
	t.Run("OneAfterAnotherElsewhere", func(t *testing.T) { orderedElsewhere(t, c) })
	t.Run("LeavesDrift", func(t *testing.T) { leavesDrift(t, c) })
	t.Run("HealthByExpression", func(t *testing.T) { tellsHealth(t, c) })
	t.Run("Adopt", func(t *testing.T) { adopts(t, c) })
	t.Run("NamespacesOfSeveral", func(t *testing.T) { shares(t, c) })
	t.Run("WatchesEnd", func(t *testing.T) { endsWatches(t, c) })
	t.Run("Restart", func(t *testing.T) {
		o.Stop()
		restarted(t, c, a)
	})
	t.Run("TeardownAfterRestart", func(t *testing.T) { tearsDownAfterRestart(t, c, a) })
}

// demo brings up the small Kubeflow without config/components/trusted: first nobody is named, then somebody without rights.
func demo(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	archive(t, c, ns, "small-kubeflow", folder(t, filepath.Join(small, "manifests")))
	c.Apply(t, filepath.Join(small, "kfdef.yaml"), ns)
	cluster.Eventually(t, time.Minute, func() error {
		return reason(get(t, c, ns, "small-kubeflow"), "ServiceAccountRequired", "-n "+ns+" -o yaml | mlkeeper rbac -f - --service-account mlkeeper")
	})
	if !meta.IsStatusConditionTrue(get(t, c, ns, "small-kubeflow").Status.Conditions, "Stalled") {
		t.Error("it is not Stalled")
	}
	c.Kubectl(t, "-n", ns, "patch", "kfdef", "small-kubeflow", "--type=merge", "-p", `{"spec":{"serviceAccountName":"mlkeeper"}}`)
	cluster.Eventually(t, time.Minute, func() error {
		return reason(get(t, c, ns, "small-kubeflow"), "ServiceAccountNotFound", "-n "+ns+" -o yaml | mlkeeper rbac -f - --service-account mlkeeper")
	})
	c.Kubectl(t, "-n", ns, "create", "serviceaccount", "mlkeeper")
	cluster.Eventually(t, time.Minute, func() error {
		return reason(get(t, c, ns, "small-kubeflow"), "Forbidden", "system:serviceaccount:"+ns+":mlkeeper")
	})
	grant(t, c, ns)
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "small-kubeflow")) })
	cr := get(t, c, ns, "small-kubeflow")
	if cr.Status.ApplicationsReady != "4/4" || len(cr.Status.ReposCache) != 1 {
		t.Errorf("%+v", cr.Status)
	}
	for _, one := range cr.Status.Applications {
		if one.Revision != cr.Status.ReposCache[0].Revision {
			t.Errorf("%s is of revision %q", one.Name, one.Revision)
		}
	}
	web := c.Get(t, deployments, ns, "web")
	env, _, _ := unstructured.NestedSlice(web.Object, "spec", "template", "spec", "containers")
	if !strings.Contains(fmt.Sprint(env), "Hello from a KfDef") || !strings.Contains(fmt.Sprint(env), "small-kubeflow/web:v1") {
		t.Errorf("the Deployment is %v", env)
	}
	if c.Get(t, schema.GroupVersionKind{Group: "small.kubeflow.example", Version: "v1", Kind: "Experiment"}, ns, "first") == nil {
		t.Error("the custom resource of the application's own definition is not there")
	}
	remove(t, c, ns, "small-kubeflow")
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, deployments, ns, "web") })
}

// dependsOn holds back an application whose dependency is not healthy, and it alone.
func dependsOn(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	files := application("free", configMap("free"))
	merge(files, application("stuck", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: stuck}, spec: {selector: {matchLabels: {a: b}},
		template: {metadata: {labels: {a: b}}, spec: {nodeSelector: {no: node}, containers: [{name: c, image: i}]}}}}`))
	merge(files, application("after", configMap("after")))
	archive(t, c, ns, "kf", files)
	apply(t, c, ns, "kf", "", "after {dependsOn: [stuck]}", "stuck", "free")
	cluster.Eventually(t, time.Minute, func() error { return c.There(t, configMaps, ns, "free") })
	cluster.Consistently(t, 2*time.Second, func() error { return c.Gone(t, configMaps, ns, "after") })
	cluster.Eventually(t, time.Minute, func() error {
		s := get(t, c, ns, "kf").Status
		if len(s.Applications) == 0 || s.Applications[0].Phase != "Pending" || s.ApplicationsReady != "1/3" {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	// A shorter patience lets it go on, with a warning.
	apply(t, c, ns, "kf", "", "after {dependsOn: [stuck], timeout: 1s}", "stuck", "free")
	cluster.Eventually(t, time.Minute, func() error { return c.There(t, configMaps, ns, "after") })
	cluster.Eventually(t, time.Minute, func() error {
		if w := strings.Join(get(t, c, ns, "kf").Status.Warnings, "\n"); !strings.Contains(w, "still waits for Deployment") {
			return fmt.Errorf("warnings: %q", w)
		}
		return nil
	})
	apply(t, c, ns, "kf", "", "after {dependsOn: [nothing]}", "stuck", "free")
	cluster.Eventually(t, time.Minute, func() error {
		return reason(get(t, c, ns, "kf"), "ApplicationFailed", "spec.applications[0].dependsOn")
	})
	if err := c.There(t, configMaps, ns, "after"); err != nil {
		t.Errorf("what ran was torn down because of bad input: %v", err)
	}
}

func suspends(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	archive(t, c, ns, "kf", application("one", configMap("one")))
	apply(t, c, ns, "kf", "", "one")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	apply(t, c, ns, "kf", "suspend: true", "one")
	cluster.Eventually(t, time.Minute, func() error {
		if !meta.IsStatusConditionTrue(get(t, c, ns, "kf").Status.Conditions, "Suspended") {
			return fmt.Errorf("it is not told to be suspended")
		}
		return nil
	})
	c.Kubectl(t, "-n", ns, "delete", "configmap", "one")
	cluster.Consistently(t, 2*time.Second, func() error { return c.Gone(t, configMaps, ns, "one") })
	apply(t, c, ns, "kf", "suspend: false", "one")
	cluster.Eventually(t, time.Minute, func() error { return c.There(t, configMaps, ns, "one") })
}

func orphans(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	files := application("one", configMap("one"))
	merge(files, application("kept", configMap("kept")))
	archive(t, c, ns, "kf", files)
	apply(t, c, ns, "kf", "", "one", "kept {prune: false}")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	remove(t, c, ns, "kf")
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, configMaps, ns, "one") })
	if err := c.There(t, configMaps, ns, "kept"); err != nil {
		t.Error(err)
	}
	// The new KfDef adopts what was kept, and keeps all.
	apply(t, c, ns, "kf", "deletionPolicy: Orphan", "one", "kept")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	remove(t, c, ns, "kf")
	cluster.Consistently(t, 3*time.Second, func() error { return c.There(t, configMaps, ns, "one") })
}

// orphansCalled orphans what Inventories owned, with a webhook, which is deleted before anything else where its server is too.
func orphansCalled(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	hook := ns + "-hook"
	files := application("server", "{apiVersion: v1, kind: Service, metadata: {name: server}, spec: {ports: [{port: 443}]}}")
	merge(files, application("hook", "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: "+hook+
		"}, webhooks: [{name: hook.example.test, sideEffects: None, admissionReviewVersions: [v1], failurePolicy: Ignore, "+
		"clientConfig: {service: {namespace: "+ns+", name: server}}, rules: [{apiGroups: [example.test], apiVersions: [v1], "+
		"operations: [CREATE], resources: [things]}]}]}"))
	archive(t, c, ns, "kf", files)
	apply(t, c, ns, "kf", "", "server", "hook")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	owners := func() int { return len(c.Get(t, webhooks, "", hook).GetOwnerReferences()) }
	if owners() == 0 {
		t.Fatal("the webhook has no owner")
	}
	apply(t, c, ns, "kf", "deletionPolicy: Orphan", "server", "hook")
	cluster.Eventually(t, time.Minute, func() error {
		if n := owners(); n > 0 {
			return fmt.Errorf("the webhook has %d owners", n)
		}
		return ready(get(t, c, ns, "kf"))
	})
	remove(t, c, ns, "kf")
	cluster.Consistently(t, 5*time.Second, func() error { return c.There(t, webhooks, "", hook) })
	c.Kubectl(t, "delete", "mutatingwebhookconfiguration", hook)
}

func collide(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	archive(t, c, ns, "first", application("one", configMap("one")))
	archive(t, c, ns, "second", application("one", configMap("one")))
	apply(t, c, ns, "first", "", "one")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "first")) })
	before := c.Get(t, configMaps, ns, "one")
	apply(t, c, ns, "second", "", "one")
	cluster.Eventually(t, time.Minute, func() error { return reason(get(t, c, ns, "second"), "ResourceConflict", "ConfigMap "+ns+"/one") })
	if after := c.Get(t, configMaps, ns, "one"); after == nil || after.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("the object of the first was touched")
	}
}

// prunes takes away what left the spec, and what left the archive, and nothing while an application fails.
func prunes(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	files := application("one", configMap("one"))
	merge(files, application("two", configMap("two")))
	archive(t, c, ns, "kf", files)
	apply(t, c, ns, "kf", "", "one", "two")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	apply(t, c, ns, "kf", "", "one", "missing")
	cluster.Eventually(t, time.Minute, func() error { return reason(get(t, c, ns, "kf"), "ApplicationFailed", "spec.applications[1]") })
	if err := c.There(t, configMaps, ns, "two"); err != nil {
		t.Errorf("pruned although an application failed: %v", err)
	}
	apply(t, c, ns, "kf", "", "one")
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, configMaps, ns, "two") })
	archive(t, c, ns, "kf", application("one", configMap("other")))
	cluster.Eventually(t, time.Minute, func() error { return c.There(t, configMaps, ns, "other") })
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, configMaps, ns, "one") })
}

// adopts applies a KfDef that kfctl's operator had deployed: with its finalizer, and its annotation on the objects.
func adopts(t *testing.T, c *cluster.Cluster) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	deployment := func(marks string) string {
		return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web%s}, spec: {selector: {matchLabels: {a: b}},
			template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`, marks)
	}
	files := application("web", deployment(""))
	merge(files, application("settings", configMap("settings")))
	archive(t, c, ns, "kf", files)
	mark := ", annotations: {kfctl.kubeflow.io/kfdef-instance: kf." + ns + "}"
	c.Apply(t, "\n"+deployment(mark), ns)
	c.Apply(t, "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, annotations: {kfctl.kubeflow.io/kfdef-instance: another."+ns+"}}}", ns)
	before := c.Get(t, deployments, ns, "web")
	c.Apply(t, `
apiVersion: kfdef.apps.kubeflow.org/v1
kind: KfDef
metadata: {name: kf, finalizers: [kfdef-finalizer.kfdef.apps.kubeflow.org]}
spec: {suspend: true}
`, ns)
	apply(t, c, ns, "kf", "suspend: false", "web", "settings")
	// What is marked as that of another KfDef is left to it.
	cluster.Eventually(t, time.Minute, func() error { return reason(get(t, c, ns, "kf"), "ResourceConflict", "ConfigMap "+ns+"/settings") })
	c.Kubectl(t, "-n", ns, "delete", "configmap", "settings")
	cluster.Eventually(t, 2*time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	after := c.Get(t, deployments, ns, "web")
	if after == nil || after.GetUID() != before.GetUID() || !reflect.DeepEqual(after.Object["spec"], before.Object["spec"]) {
		t.Errorf("the workload was made anew, or changed:\n%v\n%v", before, after)
	}
	if f := get(t, c, ns, "kf").Finalizers; len(f) > 0 {
		t.Errorf("the finalizers %v are left", f)
	}
	remove(t, c, ns, "kf")
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, deployments, ns, "web") })
}

// shares deletes a KfDef that made Namespaces: one holds what it made alone, the others what others made, each in a way of its
// own. Only the first goes.
func shares(t *testing.T, c *cluster.Cluster) {
	ns, other := c.Namespace(t), c.Namespace(t)
	grant(t, c, ns)
	grant(t, c, other)
	alone, holders := ns+"-alone", []string{ns + "-stack", ns + "-element", ns + "-claim", ns + "-user"}
	objects := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: ` + alone + `}, spec: {selector: {matchLabels: {a: b}},
			template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: ` + alone + `}, spec: {selector: {a: b}, ports: [{port: 80}]}}`
	for _, name := range append([]string{alone}, holders...) {
		objects += "\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}"
	}
	// An application that refers to a folder beside its own is rendered as by kustomize build: its objects are in the namespaces that they name.
	keeping := func(object string) fstest.MapFS {
		files := fstest.MapFS{"one/kustomization.yaml": {Data: []byte("resources: [../beside/base]\n")}}
		merge(files, application("beside", object))
		return files
	}
	archive(t, c, ns, "kf", keeping(objects))
	apply(t, c, ns, "kf", "", "one")
	cluster.Eventually(t, time.Minute, func() error { return c.There(t, deployments, alone, "web") })
	// Another stack's, owned by its Inventory.
	archive(t, c, other, "kf", keeping("{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, namespace: "+holders[0]+"}}"))
	apply(t, c, other, "kf", "", "one")
	cluster.Eventually(t, time.Minute, func() error { return c.There(t, configMaps, holders[0], "theirs") })
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	if got := get(t, c, ns, "kf").Status.Rendering; got != "Kustomize" {
		t.Errorf("the rendering is %q", got)
	}
	// What a cluster-scoped object owns, such as a CompositionElement; a claim with an owner; a user's.
	role := ns + "-owner"
	c.Kubectl(t, "create", "clusterrole", role, "--verb=get", "--resource=pods")
	t.Cleanup(func() { _, _ = c.TryKubectl("delete", "clusterrole", role) })
	uid := func(kind, ns, name string) string {
		return strings.TrimSpace(c.Kubectl(t, "-n", ns, "get", kind, name, "-o", "jsonpath={.metadata.uid}"))
	}
	c.Apply(t, fmt.Sprintf(`
{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, namespace: %[1]s, ownerReferences: [
  {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: %[2]s, uid: %[3]s}]}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: theirs, namespace: %[4]s}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, namespace: %[5]s}}
`, holders[1], role, uid("clusterrole", "default", role), holders[2], holders[3]))
	c.Apply(t, fmt.Sprintf(`
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: theirs, namespace: %[1]s, ownerReferences: [
  {apiVersion: v1, kind: ServiceAccount, name: default, uid: %[2]s}]}, spec: {accessModes: [ReadWriteOnce], storageClassName: none,
  resources: {requests: {storage: 1Gi}}}}
`, holders[2], uid("serviceaccount", holders[2], "default")))
	c.Kubectl(t, "-n", holders[2], "delete", "serviceaccount", "theirs")

	remove(t, c, ns, "kf")
	namespaces := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	cluster.Eventually(t, 2*time.Minute, func() error { return c.Gone(t, namespaces, "", alone) })
	inventories := schema.GroupVersionKind{Group: "keeper.mlkeeper.dev", Version: "v1alpha1", Kind: "InventoryList"}
	cluster.Eventually(t, 2*time.Minute, func() error {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(inventories)
		if err := c.Client.List(t.Context(), &list); err != nil {
			return err
		}
		for _, inv := range list.Items {
			if owner, _, _ := unstructured.NestedString(inv.Object, "spec", "owner", "namespace"); owner == ns {
				return fmt.Errorf("the Inventory %s is left", inv.GetName())
			}
		}
		return nil
	})
	for i, name := range holders {
		u := c.Get(t, namespaces, "", name)
		if u == nil || u.GetDeletionTimestamp() != nil {
			t.Errorf("Namespace %s was deleted with what others made in it", name)
		}
		if i != 2 {
			if err := c.There(t, configMaps, name, "theirs"); err != nil {
				t.Error(err)
			}
		}
	}
	remove(t, c, other, "kf")
	c.Kubectl(t, append([]string{"delete", "namespace", "--wait=false"}, holders...)...)
}

// restarted repairs with what the store kept, although no repository can be reached any more.
func restarted(t *testing.T, c *cluster.Cluster, a archives) {
	ns := c.Namespace(t)
	grant(t, c, ns)
	o := start(t, c, a, harness.Options{}, kubeflow.Settings{})
	c.Apply(t, fmt.Sprintf(`
apiVersion: kfdef.apps.kubeflow.org/v1
kind: KfDef
metadata: {name: kf}
spec:
  serviceAccountName: mlkeeper
  applications: [{name: application-crds, kustomizeConfig: {repoRef: {name: manifests, path: application/application-crds}}}, {name: bootstrap, kustomizeConfig: {repoRef: {name: manifests, path: admission-webhook/bootstrap}}}]
  repos: [{name: manifests, uri: %q}]
`, "https://github.com/kubeflow/manifests/archive/v1.2-branch.tar.gz"), ns)
	cluster.Eventually(t, patience, func() error {
		if cr := get(t, c, ns, "kf"); len(cr.Status.Applications) != 2 || cr.Status.Applications[1].Objects == 0 {
			return fmt.Errorf("%+v", cr.Status)
		}
		return nil
	})
	o.Settle(t, patience)
	o.Stop()
	a.server.Close()
	c.Kubectl(t, "-n", ns, "delete", "configmap", "--selector=keeper.mlkeeper.dev/controller=kubeflow")
	start(t, c, a.again(t), harness.Options{}, kubeflow.Settings{})
	cluster.Eventually(t, time.Minute, func() error {
		out, err := c.TryKubectl("-n", ns, "get", "configmap", "--selector=keeper.mlkeeper.dev/controller=kubeflow", "-o", "name")
		if err != nil || out == "" {
			return fmt.Errorf("nothing is back: %w", err)
		}
		return nil
	})
	cluster.Eventually(t, time.Minute, func() error {
		if w := strings.Join(get(t, c, ns, "kf").Status.Warnings, "\n"); !strings.Contains(w, "what the repositories gave before") {
			return fmt.Errorf("warnings: %q", w)
		}
		return nil
	})
}

// grant makes the ServiceAccount mlkeeper of a namespace and gives it all rights.
func grant(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	_, _ = c.TryKubectl("-n", ns, "create", "serviceaccount", "mlkeeper")
	c.Kubectl(t, "create", "clusterrolebinding", "mlkeeper-"+ns, "--clusterrole=cluster-admin", "--serviceaccount="+ns+":mlkeeper")
	c.AwaitAllowed(t, ns, "mlkeeper", authorizationv1.ResourceAttributes{Group: "*", Resource: "*", Verb: "*"})
	t.Cleanup(func() { _, _ = c.TryKubectl("delete", "clusterrolebinding", "mlkeeper-"+ns) })
}

// application is the folder of an application with one object.
func application(name, object string) fstest.MapFS {
	return fstest.MapFS{
		name + "/base/kustomization.yaml": {Data: []byte("resources: [object.yaml]\n")},
		name + "/base/object.yaml":        {Data: []byte(object + "\n")},
	}
}

func configMap(name string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}, data: {a: b}}"
}

// folder reads the files of a folder.
func folder(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	out, err := manifesttest.Folder(name)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func merge(into, from fstest.MapFS) {
	for name, file := range from {
		into[name] = file
	}
}

// archive puts files as an archive into a ConfigMap.
func archive(t *testing.T, c *cluster.Cluster, ns, name string, files fstest.MapFS) {
	t.Helper()
	content, err := manifesttest.Pack(files)
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\nbinaryData: {manifests.tar.gz: %s}\n",
		name, base64.StdEncoding.EncodeToString(content)), ns)
}

// apply applies a KfDef of applications, each a name and further fields in braces.
func apply(t *testing.T, c *cluster.Cluster, ns, name, spec string, applications ...string) {
	t.Helper()
	text := "apiVersion: kfdef.apps.kubeflow.org/v1\nkind: KfDef\nmetadata: {name: " + name + "}\nspec:\n  serviceAccountName: mlkeeper\n"
	if spec != "" {
		text += "  " + spec + "\n"
	}
	text += "  repos: [{name: manifests, uri: 'configmap:" + name + "/manifests.tar.gz'}]\n  applications:\n"
	for _, a := range applications {
		a, more, _ := strings.Cut(strings.TrimSuffix(a, "}"), " {")
		if more != "" {
			more = ", " + more
		}
		text += fmt.Sprintf("  - {name: %[1]s, kustomizeConfig: {repoRef: {name: manifests, path: %[1]s}}%[2]s}\n", a, more)
	}
	c.Apply(t, text, ns)
}

func remove(t *testing.T, c *cluster.Cluster, ns, name string) {
	t.Helper()
	c.Kubectl(t, "-n", ns, "delete", "kfdef", name, "--timeout=1m")
}

func ready(cr *kubeflowv1.KfDef) error {
	if cr == nil || !meta.IsStatusConditionTrue(cr.Status.Conditions, "Ready") || cr.Status.ObservedGeneration != cr.Generation {
		return fmt.Errorf("not Ready: %+v", cr)
	}
	return nil
}

// reason says whether Ready has a reason, and its message a text.
func reason(cr *kubeflowv1.KfDef, want, text string) error {
	if cr == nil {
		return fmt.Errorf("there is no KfDef")
	}
	c := meta.FindStatusCondition(cr.Status.Conditions, "Ready")
	if c == nil || c.Reason != want || !strings.Contains(c.Message, text) {
		return fmt.Errorf("want %s with %q: %+v", want, text, c)
	}
	return nil
}

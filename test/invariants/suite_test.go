// Package invariants holds one file for each invariant of ARCHITECTURE.md. Every test runs the engine with the controller of package bundle on a
// real control plane, and has namespaces and a shard of its own.
package invariants

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/shard"
	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	flag.Parse()
	// The tests wait more than they work: for the garbage collector, which takes half a minute to learn of a new kind.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	cluster.Main(m)
}

// patience is how long a test waits for what must come; while is how long it watches that nothing does.
const (
	patience = 2 * time.Minute
	while    = time.Second
)

var (
	configMapGVK   = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secretGVK      = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	serviceGVK     = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	claimGVK       = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	namespaceGVK   = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	deploymentGVK  = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	clusterRoleGVK = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	definitionGVK  = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	webhookGVK     = schema.GroupVersionKind{
		Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration",
	}
	quotaGVK     = schema.GroupVersionKind{Version: "v1", Kind: "ResourceQuota"}
	bundleGVK    = bundle.GVK
	inventoryGVK = keeper.GroupVersion.WithKind("Inventory")
)

// children are the kinds that the invariants are tested with.
var children = []schema.GroupVersionKind{
	configMapGVK, secretGVK, serviceGVK, claimGVK, namespaceGVK, deploymentGVK, clusterRoleGVK, definitionGVK, webhookGVK,
}

// namespaces are those of one operator, which may become more while it runs.
type namespaces struct{ sync.Map }

// shards are two: the namespaces, and everything else. Neither is held.
func (n *namespaces) shards() *shard.Shards {
	return shard.NewBy(2, func(key types.NamespacedName) int {
		if _, has := n.Load(key.Namespace); has {
			return 0
		}
		return 1
	})
}

// held is the same with the namespaces held.
func (n *namespaces) held() *shard.Shards {
	out := n.shards()
	out.Hold(0)
	return out
}

// options change how a bench is set up.
type options struct {
	harness.Options
	// Children are kinds beyond those that every test has.
	Children []schema.GroupVersionKind
	// System is the controller; the plain one when nil.
	System controller.Controller[*bundle.Bundle, bundle.Facts]
	// Cluster is the test's own cluster; the shared one when nil.
	Cluster *cluster.Cluster
	// Stopped leaves the operator to be started by the test.
	Stopped bool
}

// bench is a namespace with an operator that looks after the bundles in it.
type bench struct {
	*testing.T
	c    *cluster.Cluster
	ns   string
	op   *harness.Operator
	opts options
	// namespaces are those of the bench's operator, so that it leaves the bundles of other tests alone.
	namespaces *namespaces
	// journal holds every request of the operator.
	journal *journal
}

var installed sync.Map

// open makes a bench. Tests on the shared cluster run in parallel.
func open(t *testing.T, opts options) *bench {
	t.Helper()
	if opts.Cluster == nil {
		t.Parallel()
		opts.Cluster = cluster.Shared(t)
	}
	b := &bench{T: t, c: opts.Cluster, opts: opts, namespaces: &namespaces{}, journal: &journal{}}
	once, _ := installed.LoadOrStore(opts.Cluster, &sync.Once{})
	once.(*sync.Once).Do(func() {
		b.c.InstallCRDs(t)
		b.c.Apply(t, bundle.CRD)
		cluster.Eventually(t, patience, func() error {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(bundle.GVK)
			return b.c.Client.List(context.Background(), list)
		})
	})
	b.ns = b.namespace()
	// Registered before the operator starts, so that it runs after the operator stopped: nobody else tears down what a test leaves behind.
	b.Cleanup(b.abandon)
	if !opts.Stopped {
		b.start()
	}
	return b
}

// namespace makes another namespace of the bench's operator.
func (b *bench) namespace() string {
	b.Helper()
	ns := b.c.Namespace(b.T)
	b.namespaces.Store(ns, true)
	return ns
}

// start runs the bench's operator.
func (b *bench) start() {
	b.Helper()
	b.op = b.operator(b.opts.Options)
	b.Cleanup(b.legal)
}

// operator runs an operator with the bench's controller.
func (b *bench) operator(opts harness.Options) *harness.Operator {
	b.Helper()
	var system controller.Controller[*bundle.Bundle, bundle.Facts] = &bundle.System{}
	if b.opts.System != nil {
		system = b.opts.System
	}
	opts.Config = b.journal.wrap(opts.Config)
	if opts.Engine.Shards == nil {
		opts.Engine.Shards = b.namespaces.held()
	}
	kinds := append(slices.Clone(children), b.opts.Children...)
	return harness.Start(b.T, b.c, opts, harness.Controller(bundle.Definition(kinds, bundle.Wire()), system))
}

// restart stops the operator and runs a new one.
func (b *bench) restart() {
	b.Helper()
	b.op.Stop()
	b.op = b.operator(b.opts.Options)
}

// apply writes a bundle's spec.
func (b *bench) apply(name string, spec bundle.Spec, annotations ...string) {
	b.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		b.Fatal(err)
	}
	notes := map[string]string{}
	for i := 0; i+1 < len(annotations); i += 2 {
		notes[annotations[i]] = annotations[i+1]
	}
	meta, err := json.Marshal(map[string]any{"namespace": b.ns, "name": name, "annotations": notes})
	if err != nil {
		b.Fatal(err)
	}
	b.c.Apply(b, fmt.Sprintf(`{"apiVersion":"test.mlkeeper.dev/v1","kind":"Bundle","metadata":%s,"spec":%s}`+"\n", meta, raw))
}

// bundle reads a bundle back; nil where there is none.
func (b *bench) bundle(name string) *bundle.Bundle {
	b.Helper()
	u := b.c.Get(b, bundle.GVK, b.ns, name)
	if u == nil {
		return nil
	}
	out := &bundle.Bundle{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
	if err != nil {
		// A spec that does not fit its type is what some tests want.
		delete(u.Object, "spec")
		*out = bundle.Bundle{}
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
	}
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// condition waits until a condition of a bundle has a status and, if given, a reason, for the current generation.
func (b *bench) condition(name, kind string, want metav1.ConditionStatus, reason ...string) metav1.Condition {
	b.Helper()
	var got metav1.Condition
	cluster.Eventually(b, patience, func() error {
		o := b.bundle(name)
		if o == nil {
			return fmt.Errorf("bundle %s does not exist", name)
		}
		found := meta.FindStatusCondition(o.Status.Conditions, kind)
		if found == nil || found.Status != want || o.Status.ObservedGeneration != o.Generation ||
			len(reason) > 0 && found.Reason != reason[0] {
			return fmt.Errorf("%s is %+v at generation %d of %d", kind, found, o.Status.ObservedGeneration, o.Generation)
		}
		got = *found
		return nil
	})
	return got
}

// ready waits until a bundle is Ready.
func (b *bench) ready(name string) { b.Helper(); b.condition(name, "Ready", metav1.ConditionTrue) }

// nudge asks for a reconcile and waits until it is done.
func (b *bench) nudge(name string) {
	b.Helper()
	at := time.Now().Format(time.RFC3339Nano)
	b.c.Kubectl(b, "annotate", "--overwrite", "bundle", name, "-n", b.ns, keeper.ReconcileAtAnnotation+"="+at)
	cluster.Eventually(b, patience, func() error {
		if got := b.bundle(name).Status.LastHandledReconcileAt; got != at {
			return fmt.Errorf("lastHandledReconcileAt is %q, want %q", got, at)
		}
		return nil
	})
}

// delete deletes an object, which must exist, without waiting.
func (b *bench) delete(gvk schema.GroupVersionKind, ns, name string) {
	b.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(ns)
	u.SetName(name)
	err := b.c.Client.Delete(context.Background(), u, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		b.Fatalf("delete %s %s: %v", gvk.Kind, name, err)
	}
}

// must reads an object that must exist.
func (b *bench) must(gvk schema.GroupVersionKind, ns, name string) *unstructured.Unstructured {
	b.Helper()
	u := b.c.Get(b, gvk, ns, name)
	if u == nil {
		b.Fatalf("%s %s/%s does not exist", gvk.Kind, ns, name)
	}
	return u
}

// gone waits until an object does not exist.
func (b *bench) gone(gvk schema.GroupVersionKind, ns, name string) {
	b.Helper()
	cluster.Eventually(b, patience, func() error {
		if b.c.Get(b, gvk, ns, name) != nil {
			return fmt.Errorf("%s %s/%s still exists", gvk.Kind, ns, name)
		}
		return nil
	})
}

// value waits until the ConfigMap has a value under k.
func (b *bench) value(name, want string) {
	b.Helper()
	b.field(configMapGVK, b.ns, name, want, "data", "k")
}

// field waits until a field of an object has a value, "" for none.
func (b *bench) field(gvk schema.GroupVersionKind, ns, name, want string, path ...string) {
	b.Helper()
	cluster.Eventually(b, patience, func() error {
		u := b.c.Get(b, gvk, ns, name)
		if u == nil {
			return fmt.Errorf("%s %s does not exist", gvk.Kind, name)
		}
		got, found, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
		if !found {
			got = ""
		}
		if fmt.Sprint(got) != want {
			return fmt.Errorf("%s %s has %v at %v, want %s", gvk.Kind, name, got, path, want)
		}
		return nil
	})
}

// patch merge-patches an object as somebody else.
func (b *bench) patch(gvk schema.GroupVersionKind, ns, name, patch string, manager ...string) {
	b.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(ns)
	u.SetName(name)
	owner := client.FieldOwner("somebody")
	if len(manager) > 0 {
		owner = client.FieldOwner(manager[0])
	}
	err := b.c.Client.Patch(context.Background(), u, client.RawPatch(types.MergePatchType, []byte(patch)), owner)
	if err != nil {
		b.Fatalf("patch %s %s: %v", gvk.Kind, name, err)
	}
}

// patchStatus merge-patches the status of an object as somebody else.
func (b *bench) patchStatus(gvk schema.GroupVersionKind, ns, name, patch string) {
	b.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(ns)
	u.SetName(name)
	err := b.c.Client.Status().Patch(context.Background(), u, client.RawPatch(types.MergePatchType, []byte(patch)))
	if err != nil {
		b.Fatalf("patch the status of %s %s: %v", gvk.Kind, name, err)
	}
}

// inventories lists the Inventories of a bundle by stage.
func (b *bench) inventories(name string) []keeper.Inventory {
	b.Helper()
	list := &keeper.InventoryList{}
	if err := b.c.Client.List(context.Background(), list); err != nil {
		b.Fatal(err)
	}
	out := slices.DeleteFunc(list.Items, func(i keeper.Inventory) bool {
		return i.Spec.Owner.Namespace != b.ns || i.Spec.Owner.Name != name
	})
	slices.SortFunc(out, func(x, y keeper.Inventory) int {
		return cmp.Or(cmp.Compare(x.Spec.Stage, y.Spec.Stage), cmp.Compare(x.Spec.Part, y.Spec.Part))
	})
	return out
}

// abandon deletes the Inventories of the bench's bundles, and with them what they own.
func (b *bench) abandon() {
	list := &keeper.InventoryList{}
	if err := b.c.Client.List(context.Background(), list); err != nil {
		return // A test deleted the definition.
	}
	for i := range list.Items {
		if list.Items[i].Spec.Owner.Namespace == b.ns {
			_ = b.c.Client.Delete(context.Background(), &list.Items[i])
		}
	}
}

// noInventories waits until a bundle has no Inventories any more.
func (b *bench) noInventories(name string) {
	b.Helper()
	cluster.Eventually(b, patience, func() error {
		if left := b.inventories(name); len(left) > 0 {
			return fmt.Errorf("%d Inventories of %s are left", len(left), name)
		}
		return nil
	})
}

// quiet fails when the operator writes anything for a while, but for the status of bundles.
func (b *bench) quiet() {
	b.Helper()
	before := b.op.Requests.Snapshot()
	cluster.Consistently(b, while, func() error {
		since := b.op.Requests.Since(before)
		if cluster.Sum(since, cluster.Request.Write, "leases", "events", "bundles") > 0 {
			return fmt.Errorf("the operator writes:\n%s", cluster.Describe(since))
		}
		return nil
	})
}

// events counts the Events of a bundle with a reason.
func (b *bench) events(name, reason string) int {
	b.Helper()
	list := &corev1.EventList{}
	if err := b.c.Client.List(context.Background(), list, client.InNamespace(b.ns)); err != nil {
		b.Fatal(err)
	}
	n := 0
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == "Bundle" && e.InvolvedObject.Name == name && e.Reason == reason {
			n += max(int(e.Count), 1)
		}
	}
	return n
}

// legal checks the conditions of every bundle of the bench against the rules of kstatus.
func (b *bench) legal() {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(bundle.GVK)
	err := b.c.Client.List(context.Background(), list, client.InNamespace(b.ns))
	if err != nil {
		if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			b.Error(err)
		}
		return
	}
	for i := range list.Items {
		for _, problem := range illegal(&list.Items[i]) {
			b.Errorf("bundle %s: %s", list.Items[i].GetName(), problem)
		}
	}
}

// settle waits until the operator has written nothing for a while.
func (b *bench) settle() {
	b.Helper()
	mark, since := b.journal.mark(), time.Now()
	cluster.Eventually(b, patience, func() error {
		if now := b.journal.mark(); len(b.journal.since(mark, request.write)) > 0 {
			mark, since = now, time.Now()
		}
		if time.Since(since) < while {
			return fmt.Errorf("the operator still writes")
		}
		return nil
	})
}

// untouched fails when the operator wrote anything but the status of bundles since a snapshot.
func (b *bench) untouched(before map[cluster.Request]int) {
	b.Helper()
	since := b.op.Requests.Since(before)
	if cluster.Sum(since, cluster.Request.Write, "leases", "events", "bundles") > 0 {
		b.Errorf("the operator wrote:\n%s", cluster.Describe(since))
	}
}

// file writes a manifest into a file and returns its path.
func (b *bench) file(text string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "manifest.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

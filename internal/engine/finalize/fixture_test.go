package finalize

import (
	"context"
	"fmt"
	"sort"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

const (
	controllerName = "things"
	stack          = "hash"
	ownerID        = "Thing.example.test/ns/x"
	ownerUID       = "uid-x"
)

// resources are the kinds that the fake cluster serves.
var resources = map[schema.GroupKind]schema.GroupVersionResource{
	{Group: "example.test", Kind: "Thing"}: {Group: "example.test", Version: "v1", Resource: "things"},
	{Kind: "Namespace"}:                    {Version: "v1", Resource: "namespaces"},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: {
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations",
	},
}

// resourcesOfNamespaces are what Namespaces can contain, in the order in which they are listed.
var resourcesOfNamespaces = []metav1.APIResource{
	{Name: "configmaps", Kind: "ConfigMap", Verbs: metav1.Verbs{"list", "delete"}},
	{Name: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Verbs: metav1.Verbs{"list", "delete"}},
}

// world is the cluster that managers see one after the other: what it contains survives each of them.
type world struct {
	t        *testing.T
	clock    *testclock.FakeClock
	client   *dynamicfake.FakeDynamicClient
	metadata *metadatafake.FakeMetadataClient
	owner    Owner
	invs     map[string]*keeper.Inventory
	children []*observe.Object
	events   *events.FakeRecorder
	// writes counts the writes of a status, oldCRD drops the conditions as an API server with an older definition does.
	writes int
	oldCRD bool
	// unwatched says that the watches on the children are not synced, stopped are the owners whose watches were ended.
	unwatched bool
	stopped   []types.UID
	// incomplete says that not all Inventories are cached.
	incomplete bool
}

func (w *world) Complete() bool { return !w.incomplete }

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, clock: testclock.NewFakeClock(time.Unix(1e9, 0)), invs: map[string]*keeper.Inventory{}, events: events.NewFakeRecorder(100),
		client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			resources[schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}]: "ValidatingWebhookConfigurationList",
		}, objects...),
		metadata: metadatafake.NewSimpleMetadataClient(scheme),
		owner:    Owner{Synced: true, MayFinalize: true, DynamicKinds: true, Resource: schema.GroupResource{Group: "example.test", Resource: "things"}},
	}
	for stage := range 2 {
		inv := &keeper.Inventory{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("inv-", stage), UID: types.UID(fmt.Sprint("uid-inv-", stage)),
			Labels:      map[string]string{keeper.ControllerLabel: controllerName, keeper.StackLabel: stack},
			Annotations: map[string]string{keeper.OwnerAnnotation: ownerID},
		}}
		inv.Spec.Owner = keeper.InventoryOwner{Group: "example.test", Kind: "Thing", Namespace: "ns", Name: "x", UID: ownerUID}
		inv.Spec.Stage = int32(stage)
		w.invs[inv.Name] = inv
	}
	w.invs["inv-0"].Status.Entries = []keeper.InventoryEntry{{
		ObjectReference: keeper.ObjectReference{Version: "v1", Kind: "Service", Namespace: "ns", Name: "server"}, UID: "uid-server",
	}}
	return w
}

func (w *world) Of(uid string) (out []*keeper.Inventory) {
	for _, inv := range w.List() {
		if string(inv.Spec.Owner.UID) == uid {
			out = append(out, inv)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

func (w *world) Get(name string) (*keeper.Inventory, bool) { inv, ok := w.invs[name]; return inv, ok }

func (w *world) List() (out []*keeper.Inventory) {
	for _, inv := range w.invs {
		out = append(out, inv)
	}
	return out
}

func (w *world) UpdateStatus(_ context.Context, inv *keeper.Inventory) (*keeper.Inventory, error) {
	before, ok := w.invs[inv.Name]
	switch {
	case !ok:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "inventories"}, inv.Name)
	case before.ResourceVersion != inv.ResourceVersion:
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "inventories"}, inv.Name, nil)
	}
	w.writes++
	next := inv.DeepCopy()
	next.ResourceVersion = fmt.Sprint(w.writes)
	if w.oldCRD {
		next.Status.Conditions = nil
	}
	w.invs[inv.Name] = next
	return next, nil
}

func (w *world) Delete(_ context.Context, inv *keeper.Inventory) error {
	delete(w.invs, inv.Name)
	return nil
}

func (w *world) ChildrenOfStack(string, string) []*observe.Object { return w.children }

func (w *world) Lookup(gvk schema.GroupVersionKind) (catalog.Mapping, bool) {
	resource, ok := resources[gvk.GroupKind()]
	return catalog.Mapping{Resource: resource}, ok
}

func (w *world) Versions(schema.GroupKind) []string { return []string{"v1"} }

func (w *world) CRDExists(context.Context, schema.GroupResource) (bool, error) { return true, nil }

// manager returns the finalizer of a manager that has just started.
func (w *world) manager() *Finalizer {
	return New(Options{
		Client: w.client, As: func(string) (dynamic.Interface, error) { return w.client, nil }, Metadata: w.metadata,
		NamespacedResources: func() ([]*metav1.APIResourceList, error) {
			return []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: resourcesOfNamespaces}}, nil
		},
		Catalog: w, Inventories: w, Children: w, Owner: func(keeper.InventoryOwner) (Owner, bool) { return w.owner, true },
		WatchChildren: func(keeper.InventoryOwner, map[plan.Key]keeper.InventoryEntry) bool { return !w.unwatched },
		StopWatching:  func(uid types.UID) { w.stopped = append(w.stopped, uid) },
		Recorder:      w.events, Clock: w.clock, Count: func(plan.Key, decide.Verb, string) {},
	})
}

func (w *world) reconcile(f *Finalizer) time.Duration {
	w.t.Helper()
	result, err := f.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: ownerUID}})
	if err != nil {
		w.t.Fatal(err)
	}
	return result.RequeueAfter
}

// requests counts the requests of a verb for a resource.
func (w *world) requests(verb, resource string) int {
	n := 0
	for _, a := range w.client.Actions() {
		if a.GetVerb() == verb && a.GetResource().Resource == resource {
			n++
		}
	}
	return n
}

// waits returns what the Inventory of a stage waits for by its condition.
func (w *world) waits(stage int) string {
	inv, ok := w.invs[fmt.Sprint("inv-", stage)]
	if !ok {
		return "deleted"
	}
	for _, c := range inv.Status.Conditions {
		if c.Type == ConditionFinalizing && c.Status == metav1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// child returns a child of the Inventory of a stage that is already deleted.
func child(name string) *observe.Object {
	yes := true
	o := &observe.Object{Key: plan.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "ns", Name: name}}
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: keeper.GroupVersion.String(), Kind: inventory.GVK.Kind, Name: "inv-2", UID: "uid-inv-2", Controller: &yes}}
	return o
}

func webhook() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"webhooks": []any{
		map[string]any{"clientConfig": map[string]any{"service": map[string]any{"namespace": "ns", "name": "server"}}},
	}}}
	u.SetAPIVersion("admissionregistration.k8s.io/v1")
	u.SetKind("ValidatingWebhookConfiguration")
	u.SetName("hook")
	return u
}

func namespace() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("v1")
	u.SetKind("Namespace")
	u.SetName("apps")
	u.SetUID("uid-apps")
	u.SetAnnotations(map[string]string{keeper.OwnerAnnotation: ownerID})
	return u
}

// listNamespace has the Inventory of the last stage list the Namespace.
func (w *world) listNamespace() {
	w.invs["inv-1"].Status.Entries = []keeper.InventoryEntry{{
		ObjectReference: keeper.ObjectReference{Version: "v1", Kind: "Namespace", Name: "apps"}, UID: "uid-apps",
	}}
}

// orphan is an object in the Namespace whose owner is deleted, and which the garbage collector has not processed.
func orphan() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "orphan", UID: "uid-orphan", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ConfigMap", Name: "gone", UID: "uid-gone"},
		}},
	}
}

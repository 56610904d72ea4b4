package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/mutation"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

var inventories = keeper.GroupVersion.WithResource("inventories")

// fixture is a store on a fake API server, and a cache that has what observe gave it, with the writes of the store.
type fixture struct {
	*Store
	t         *testing.T
	client    *dynamicfake.FakeDynamicClient
	version   int
	stored    stored
	mutations *mutation.Cache
	children  map[plan.Key]*observe.Object
	// unwatched says that the watches on the children are not complete.
	unwatched bool
}

// stored is what an informer has stored, and the version that it has synced to.
type stored struct {
	objects map[string]*keeper.Inventory
	synced  int
}

// Get implements mutation.Store.
func (s *stored) Get(key types.NamespacedName) metav1.Object {
	if inv, ok := s.objects[key.Name]; ok {
		return inv
	}
	return nil
}

// LastSyncResourceVersion implements mutation.Store.
func (s *stored) LastSyncResourceVersion(string) string { return strconv.Itoa(s.synced) }

func newFixture(t *testing.T) *fixture {
	f := &fixture{
		t: t, stored: stored{objects: map[string]*keeper.Inventory{}, synced: 100}, children: map[plan.Key]*observe.Object{}, version: 100,
	}
	f.mutations = mutation.New(clock.RealClock{}, &f.stored)
	f.client = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{inventories: "InventoryList"})
	f.client.PrependReactor("*", "inventories", func(a clienttesting.Action) (bool, runtime.Object, error) {
		var u *unstructured.Unstructured
		switch a := a.(type) {
		case clienttesting.UpdateActionImpl:
			u = a.GetObject().(*unstructured.Unstructured)
		case clienttesting.CreateActionImpl:
			u = a.GetObject().(*unstructured.Unstructured)
			u.SetUID(types.UID("uid-" + u.GetName()))
		default:
			return false, nil, nil
		}
		f.version++
		u.SetResourceVersion(strconv.Itoa(f.version))
		if raw, err := u.MarshalJSON(); err != nil || len(raw) > etcdLimit {
			return true, nil, fmt.Errorf("etcdserver: request is too large: %d bytes, %w", len(raw), err)
		}
		return false, nil, nil
	})
	f.Store = New(Options{Client: f.client, Catalog: f, Cache: f, Count: func(plan.Key, decide.Verb, string) {}})
	return f
}

func (f *fixture) Resource(_ schema.GroupKind, _, name string) (metav1.Object, bool) {
	o := f.mutations.Get(types.NamespacedName{Name: name})
	return o, o != nil
}

func (f *fixture) ListResources(schema.GroupKind, string) (out []metav1.Object) {
	all := f.mutations.Overrides()
	for name, inv := range f.stored.objects {
		if key := (types.NamespacedName{Name: name}); all[key] == nil {
			all[key] = inv
		}
	}
	for _, o := range all {
		out = append(out, o)
	}
	return out
}

func (f *fixture) IndexedResources(gk schema.GroupKind, value string) (out []metav1.Object) {
	for _, o := range f.ListResources(gk, "") {
		if o != nil && OwnerUID(o) == value {
			out = append(out, o)
		}
	}
	return out
}

func (f *fixture) WroteResource(_ schema.GroupKind, o metav1.Object) {
	inv, err := Decode(o.(*unstructured.Unstructured).DeepCopy())
	if err != nil {
		f.t.Fatal(err)
	}
	f.mutations.Updated(inv)
}

func (f *fixture) ResourceSynced(schema.GroupKind) bool { return true }

func (f *fixture) Child(_ string, key plan.Key) (*observe.Object, bool) {
	o, ok := f.children[key]
	return o, ok
}

func (f *fixture) ChildSynced(schema.GroupKind, string) bool { return !f.unwatched }

func (f *fixture) Lookup(gvk schema.GroupVersionKind) (catalog.Mapping, bool) {
	return catalog.Mapping{Resource: inventories, Namespaced: gvk.Kind != "ClusterRole" && gvk.Kind != "Inventory"}, true
}

// observe has the cache receive everything that the API server has.
func (f *fixture) observe() {
	f.t.Helper()
	list, err := f.client.Resource(inventories).List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.stored = stored{objects: map[string]*keeper.Inventory{}, synced: f.version}
	for i := range list.Items {
		o, err := Decode(&list.Items[i])
		if err != nil {
			f.t.Fatal(err)
		}
		inv := o.(*keeper.Inventory)
		f.stored.objects[inv.Name] = inv
		f.mutations.OnUpdate(inv)
	}
}

// writes counts the requests that change something.
func (f *fixture) writes() int {
	n := 0
	for _, a := range f.client.Actions() {
		if a.GetVerb() != "get" && a.GetVerb() != "list" {
			n++
		}
	}
	return n
}

func (f *fixture) ensure(p plan.Plan, existing []*keeper.Inventory) []*keeper.Inventory {
	f.t.Helper()
	out, err := f.Ensure(f.t.Context(), owner, p, existing, func() error { return nil })
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

var owner = plan.Stack{
	Controller: "things", GVK: schema.GroupVersionKind{Group: "example.test", Version: "v1", Kind: "Thing"}, Namespace: "ns", Name: "x", UID: "uid-x",
}

func object(kind, namespace, name string) plan.Object {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("v1")
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return plan.Object{Desired: u}
}

func stages(objects ...[]plan.Object) (p plan.Plan) {
	for i, of := range objects {
		p.Stages = append(p.Stages, plan.Stage{Name: fmt.Sprint("stage-", i), Objects: of})
	}
	return p
}

func TestNeeded(t *testing.T) {
	retained := object("ClusterRole", "", "kept")
	retained.Retain = true
	for name, c := range map[string]struct {
		object plan.Object
		want   bool
	}{
		"in the same namespace": {object("Secret", "ns", "a"), false},
		"in another namespace":  {object("Secret", "other", "a"), true},
		"cluster-scoped":        {object("ClusterRole", "", "a"), true},
		"retained":              {retained, false},
	} {
		f := newFixture(t)
		if got := f.Needed(owner, stages([]plan.Object{c.object}), nil); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		cluster := owner
		cluster.Namespace = ""
		if f.Needed(cluster, stages([]plan.Object{c.object}), nil) {
			t.Errorf("%s: a cluster-scoped custom resource needs Inventories", name)
		}
	}
}

func TestEnsure(t *testing.T) {
	f := newFixture(t)
	p := stages([]plan.Object{object("Secret", "ns", "a")}, []plan.Object{object("ClusterRole", "", "b")})
	refused := errors.New("stale")
	if _, err := f.Ensure(t.Context(), owner, p, nil, func() error { return refused }); !errors.Is(err, refused) || f.writes() > 0 {
		t.Fatalf("%v, %d writes", err, f.writes())
	}
	invs := f.ensure(p, nil)
	if len(invs) != 2 || f.writes() != 2 {
		t.Fatalf("%d Inventories, %d writes", len(invs), f.writes())
	}
	for i, inv := range invs {
		if int(inv.Spec.Stage) != i*spacing || inv.Spec.Owner.UID != owner.UID || len(inv.Spec.Entries) != 1 || !strings.HasSuffix(inv.Name, fmt.Sprint(".stage-", i)) {
			t.Errorf("Inventory %d is %+v", i, inv)
		}
	}
	// An unchanged plan writes nothing, one more object writes its stage, and a former stage comes last.
	unasked := func() error { return refused }
	if _, err := f.Ensure(t.Context(), owner, p, f.Of("uid-x"), unasked); err != nil || f.writes() != 2 {
		t.Errorf("%v, %d writes", err, f.writes())
	}
	f.observe()
	invs = f.ensure(stages([]plan.Object{object("Secret", "ns", "a"), object("Secret", "ns", "more")}), f.Of("uid-x"))
	if len(invs) != 2 || f.writes() != 3 || len(invs[0].Spec.Entries) != 2 || invs[1].Spec.StageName != "stage-1" {
		t.Errorf("%d Inventories, %d writes", len(invs), f.writes())
	}
}

func TestAStoreReadsItsOwnWrites(t *testing.T) {
	f := newFixture(t)
	p := stages([]plan.Object{object("ClusterRole", "", "a")})
	name := f.ensure(p, nil)[0].Name
	if got := f.Of("uid-x"); len(got) != 1 || got[0].Name != name {
		t.Errorf("before the cache has it: %v", got)
	}
	f.observe()
	next := f.ensure(stages([]plan.Object{object("ClusterRole", "", "a"), object("ClusterRole", "", "b")}), f.Of("uid-x"))[0]
	if got, _ := f.Get(name); got.ResourceVersion != next.ResourceVersion {
		t.Errorf("Get returns version %s, not %s", got.ResourceVersion, next.ResourceVersion)
	}
	// It is deleted, and the cache, which has reached a later version, has none.
	f.stored = stored{objects: map[string]*keeper.Inventory{}, synced: f.version + 1}
	if _, ok := f.Get(name); ok || len(f.Of("uid-x")) > 0 {
		t.Error("an Inventory that was deleted is returned")
	}
}

func TestAnInventoryDeletedDuringItsWriteFailsTheWrite(t *testing.T) {
	f := newFixture(t)
	f.stored.synced = f.version + 10 // The cache has seen the deletion before the answer arrives.
	if _, err := f.Ensure(t.Context(), owner, stages([]plan.Object{object("ClusterRole", "", "a")}), nil, func() error { return nil }); err == nil {
		t.Error("the write succeeds")
	}
}

func TestRecord(t *testing.T) {
	f := newFixture(t)
	a, b, c := object("ClusterRole", "", "a"), object("ClusterRole", "", "b"), object("ClusterRole", "", "c")
	invs := f.ensure(stages([]plan.Object{a, b}, []plan.Object{c}), nil)
	entry := func(o plan.Object) keeper.InventoryEntry {
		return keeper.InventoryEntry{
			ObjectReference: keeper.ObjectReference{Version: "v1", Kind: "ClusterRole", Name: o.Desired.GetName()}, UID: types.UID("uid-" + o.Desired.GetName()),
		}
	}
	record := func(entries ...keeper.InventoryEntry) {
		t.Helper()
		f.observe()
		if _, err := f.Record(t.Context(), f.Of("uid-x"), stages([]plan.Object{a}).Stages, [][]plan.Stamped{{{Key: a.Key()}}}, entries); err != nil {
			t.Fatal(err)
		}
		f.observe()
	}
	// The plan has a alone. b is not known to be gone, and the second stage's Inventory still owns c.
	yes := true
	owned := &observe.Object{Key: c.Key()}
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "Inventory", Name: invs[1].Name, UID: invs[1].UID, Controller: &yes}}
	f.children[c.Key()] = owned
	record(entry(a), entry(b))
	if got := f.Of("uid-x"); len(got) != 2 || len(got[0].Spec.Entries) != 2 || len(got[0].Status.Entries) != 2 || len(got[1].Spec.Entries) != 1 {
		t.Errorf("the Inventories are %+v", got)
	}
	before := f.writes()
	record(entry(a), entry(b))
	if n := f.writes() - before; n > 0 {
		t.Errorf("%d writes of what is recorded", n)
	}
	// Both are gone.
	delete(f.children, c.Key())
	record(entry(a))
	if got := f.Of("uid-x"); len(got) != 1 || len(got[0].Spec.Entries) != 1 || len(got[0].Status.Entries) != 1 {
		t.Errorf("the Inventories are %+v", got)
	}
}

// TestAnInventoryStaysWhileItIsUnknownWhatItOwns: a stage gets another name when a manager has just started. The objects are still owned by the
// Inventory of the former name, with which the garbage collector would delete them.
func TestAnInventoryStaysWhileItIsUnknownWhatItOwns(t *testing.T) {
	f := newFixture(t)
	a := object("ClusterRole", "", "a")
	before := f.ensure(stages([]plan.Object{a}), nil)[0].Name
	f.observe()
	renamed := stages([]plan.Object{a})
	renamed.Stages[0].Name = "renamed"
	invs := f.ensure(renamed, nil)
	entries := []keeper.InventoryEntry{{ObjectReference: keeper.ObjectReference{Version: "v1", Kind: "ClusterRole", Name: "a"}, UID: "uid-a"}}
	there := func(owner types.UID) []string {
		t.Helper()
		if owner != "" {
			yes := true
			owned := &observe.Object{Key: a.Key()}
			owned.OwnerReferences = []metav1.OwnerReference{{Kind: "Inventory", UID: owner, Controller: &yes}}
			f.children[a.Key()] = owned
		}
		f.observe()
		if _, err := f.Record(t.Context(), f.Of("uid-x"), renamed.Stages, [][]plan.Stamped{{{Key: a.Key()}}}, entries); err != nil {
			t.Fatal(err)
		}
		f.observe()
		var out []string
		for _, inv := range f.Of("uid-x") {
			if len(inv.Spec.Entries) != 1 {
				t.Errorf("%s lists %v", inv.Name, inv.Spec.Entries)
			}
			out = append(out, inv.Name)
		}
		return out
	}
	f.unwatched = true
	if got := there(""); len(got) != 2 || !slices.Contains(got, before) {
		t.Errorf("while it is unknown whose the object is, there are %v", got)
	}
	f.unwatched = false
	if got := there(types.UID("uid-" + before)); len(got) != 2 || !slices.Contains(got, before) {
		t.Errorf("while it owns the object, there are %v", got)
	}
	f.unwatched = true // The answer of our own write tells, too.
	if got := there(types.UID("uid-" + invs[0].Name)); len(got) != 1 || slices.Contains(got, before) {
		t.Errorf("when another one owns the object, there are %v", got)
	}
}

// TestAFailedStatusIsNotRemembered: the spec is written and the status is not, so that the next reconciliation writes it.
func TestAFailedStatusIsNotRemembered(t *testing.T) {
	f := newFixture(t)
	a, b := object("ClusterRole", "", "a"), object("ClusterRole", "", "b")
	invs := f.ensure(stages([]plan.Object{a, b}), nil)
	f.client.PrependReactor("update", "inventories", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.GetSubresource() == "status", nil, errors.New("no answer")
	})
	entries := []keeper.InventoryEntry{{ObjectReference: keeper.ObjectReference{Version: "v1", Kind: "ClusterRole", Name: "a"}, UID: "uid-a"}}
	if _, err := f.Record(t.Context(), invs, stages([]plan.Object{a}).Stages, [][]plan.Stamped{{{Key: a.Key()}}}, entries); err == nil {
		t.Error("the write succeeds")
	}
	if got, _ := f.Get(invs[0].Name); len(got.Spec.Entries) != 1 || len(got.Status.Entries) > 0 {
		t.Errorf("the Inventory is remembered as %+v", got)
	}
}

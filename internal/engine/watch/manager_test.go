package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/watch/source"
	"mlkeeper.dev/test/cluster"
)

const timeout = 20 * time.Second

var (
	configMaps  = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secrets     = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	services    = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	deployments = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	gizmos      = schema.GroupVersionKind{Group: "watch.example.com", Version: "v1", Kind: "Gizmo"}
)

const gizmoDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.watch.example.com}
spec:
  group: watch.example.com
  scope: Namespaced
  names: {plural: gizmos, singular: gizmo, kind: Gizmo, listKind: GizmoList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// startManager runs a catalog with the rights of the administrator and a manager with those of cfg, and checks that neither
// leaks goroutines.
func startManager(t *testing.T, cfg *rest.Config, declare func(*Manager)) *Manager {
	t.Helper()
	admin := testConfig(t)
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(context.Background())
	c := catalog.New(discovery.NewDiscoveryClientForConfigOrDie(admin), dynamic.NewForConfigOrDie(admin), logr.Discard())
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	watched, err := source.NewDynamic(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m := New(Options{
		Metadata: metadata.NewForConfigOrDie(cfg), Dynamic: watched, Catalog: c, Log: logr.Discard(),
	})
	if declare != nil {
		declare(m)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.Start(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		c.Wait()
		goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
			goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"),
			goleak.IgnoreAnyFunction("net/http.(*http2clientConnReadLoop).run"),
			goleak.IgnoreAnyFunction("os/exec.(*Cmd).Start.func2"), goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"))
	})
	return m
}

// log collects the calls of callbacks.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.lines)
}

func (l *log) expect(t *testing.T, want string) {
	t.Helper()
	cluster.Eventually(t, timeout, func() error {
		if got := l.String(); got != want {
			return fmt.Errorf("got %s, want %s", got, want)
		}
		return nil
	})
}

func child(gvk schema.GroupVersionKind, ns, name, controller string, owner types.UID) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(ns)
	u.SetName(name)
	u.SetLabels(map[string]string{keeper.ControllerLabel: controller, keeper.StackLabel: "hash-" + string(owner), "other": "x"})
	u.SetAnnotations(map[string]string{keeper.AppliedHashAnnotation: "d1"})
	yes := true
	u.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner, Controller: &yes,
	}})
	return u
}

// apply writes like the engine.
func apply(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	u = u.DeepCopy()
	//nolint:staticcheck // the client's Apply takes generated types only
	err := cluster.Shared(t).Client.Patch(t.Context(), u, client.Apply, client.FieldOwner(observe.FieldManager), client.ForceOwnership)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func remove(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	if err := cluster.Shared(t).Client.Delete(t.Context(), u); err != nil {
		t.Fatal(err)
	}
}

func owner(t *testing.T, ns string) types.UID {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: ns}}
	if err := cluster.Shared(t).Client.Create(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	return cm.UID
}

func TestChildren(t *testing.T) {
	ns := cluster.Shared(t).Namespace(t)
	uid := owner(t, ns)
	var events log
	record := func(before, after *observe.Object) {
		switch {
		case before == nil:
			events.add("+%s", after.Name)
		case after == nil:
			events.add("-%s", before.Name)
		default:
			events.add("~%s", after.Name)
		}
	}
	m := startManager(t, testConfig(t), func(m *Manager) {
		m.WatchChildren(configMaps, "children", record)
		m.WatchChildren(deployments, "children", nil)
	})
	cm := child(configMaps, ns, "c", "children", uid)
	cm.Object["data"] = map[string]any{"a": "b"}
	answer := observe.From(apply(t, cm), false)
	key := plan.Key{GroupKind: configMaps.GroupKind(), Namespace: ns, Name: "c"}
	events.expect(t, "[+c]")
	got, ok := m.Child("children", key)
	if !ok || got.OwnedFieldsHash == "" || got.OwnedFieldsHash != answer.OwnedFieldsHash || got.AppliedHash() != "d1" || got.Key != key ||
		got.APIVersion != "v1" || got.ManagedFields != nil || len(got.Labels) != 2 {
		t.Fatalf("cached %+v\nanswer %+v", got, answer)
	}
	apply(t, child(configMaps, ns, "d", "elsewhere", uid))
	d := child(deployments, ns, "d2", "children", uid)
	d.Object["spec"] = map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"a": "b"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
		},
	}
	apply(t, d)
	cluster.Eventually(t, timeout, func() error {
		if n := len(m.ChildrenOfStack("children", "hash-"+string(uid))); n != 2 {
			return fmt.Errorf("%d children", n)
		}
		return nil
	})
	got, _ = m.Child("children", plan.Key{GroupKind: deployments.GroupKind(), Namespace: ns, Name: "d2"})
	if got == nil || got.Stripped() == nil {
		t.Fatalf("deployment = %+v", got)
	}
	if !m.ChildSynced(configMaps.GroupKind(), "children") || m.ChildSynced(configMaps.GroupKind(), "nobody") {
		t.Fatal("ChildSynced is wrong")
	}
	// A callback that is declared later is called for the existing objects.
	var late log
	m.WatchChildren(configMaps, "children", func(before, o *observe.Object) {
		if before == nil {
			late.add("%s", o.Name)
		}
	})
	late.expect(t, "[c]")
	// The API server has acknowledged a deletion that the watch does not report.
	m.Deleted("children", key, "of-another")
	if got, _ = m.Child("children", key); got == nil || got.Terminating() {
		t.Errorf("the deletion of another object counts: %+v", got)
	}
	m.Deleted("children", key, answer.UID)
	if got, _ = m.Child("children", key); got == nil || !got.Terminating() || !m.ChildDeleted("children", key, answer.UID) {
		t.Errorf("the child is not terminating: %+v", got)
	}
	for _, o := range m.ChildrenOfStack("children", "hash-"+string(uid)) {
		if o.Terminating() != (o.Key == key) {
			t.Errorf("%s: terminating %t", o.Key, o.Terminating())
		}
	}
	remove(t, cm)
	events.expect(t, "[+c -c]")
}

// TestAnEndedWatchBeginsAnew ends the watch on a kind: its store, its callback and the writes that it has not observed are dropped. A
// later declaration lists again, and calls its own callback only.
func TestAnEndedWatchBeginsAnew(t *testing.T) {
	ns := cluster.Shared(t).Namespace(t)
	uid := owner(t, ns)
	var first, second log
	record := func(l *log) func(before, after *observe.Object) {
		return func(before, after *observe.Object) {
			if before == nil {
				l.add("+%s", after.Name)
			}
		}
	}
	m := startManager(t, testConfig(t), func(m *Manager) { m.WatchChildren(configMaps, "ended", record(&first)) })
	apply(t, child(configMaps, ns, "a", "ended", uid))
	first.expect(t, "[+a]")
	m.mu.RLock()
	running := m.children["ended"][configMaps.GroupKind()].running
	m.mu.RUnlock()
	written := &observe.Object{Key: plan.Key{GroupKind: configMaps.GroupKind(), Namespace: ns, Name: "written"}}
	written.UID, written.ResourceVersion, written.Labels = "w", "999999999999", map[string]string{keeper.StackLabel: "hash-" + string(uid)}
	m.Wrote("ended", written)
	if n := len(m.ChildrenOfStack("ended", "hash-"+string(uid))); n != 2 {
		t.Fatalf("%d children", n)
	}
	m.StopWatchingChildren(configMaps.GroupKind(), "ended")
	m.StopWatchingChildren(secrets.GroupKind(), "ended") // It was never declared.
	if n := len(m.ChildrenOfStack("ended", "hash-"+string(uid))); n != 0 || m.ChildSynced(configMaps.GroupKind(), "ended") {
		t.Errorf("after the end, %d children are known", n)
	}
	cluster.Eventually(t, timeout, func() error {
		if !running.byNamespace[""].IsStopped() {
			return errors.New("the informer runs")
		}
		return nil
	})
	apply(t, child(configMaps, ns, "b", "ended", uid))
	m.WatchChildren(configMaps, "ended", record(&second))
	cluster.Eventually(t, timeout, func() error {
		if n := len(m.ChildrenOfStack("ended", "hash-"+string(uid))); n != 2 || !m.ChildSynced(configMaps.GroupKind(), "ended") {
			return fmt.Errorf("%d children", n)
		}
		return nil
	})
	cluster.Eventually(t, timeout, func() error {
		if got := second.all(); len(got) != 2 {
			return fmt.Errorf("got %v", got)
		}
		return nil
	})
	first.expect(t, "[+a]")
}

// TestHashOfMetadata shows that the object of a metadata watch and the response of a write have the same hash, although the ports
// in their managedFields are ordered differently. Otherwise the engine would detect drift where there is none.
func TestHashOfMetadata(t *testing.T) {
	ns := cluster.Shared(t).Namespace(t)
	s := child(services, ns, "s", "hash", owner(t, ns))
	s.Object["spec"] = map[string]any{"ports": []any{
		map[string]any{"name": "a", "port": int64(80), "protocol": "TCP"},
		map[string]any{"name": "b", "port": int64(443), "protocol": "TCP"},
	}}
	answer := observe.From(apply(t, s), false)
	raw, err := metadata.NewForConfigOrDie(testConfig(t)).Resource(services.GroupVersion().WithResource("services")).
		Namespace(ns).Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := observe.FromMetadata(services, raw); got.OwnedFieldsHash != answer.OwnedFieldsHash || got.OwnedFieldsHash == "" {
		t.Fatalf("metadata %+v\nanswer %+v", got, answer)
	}
}

// TestReadsItsOwnWrites races the cache with every write, and must never read an older state.
func TestReadsItsOwnWrites(t *testing.T) {
	ns := cluster.Shared(t).Namespace(t)
	uid := owner(t, ns)
	m := startManager(t, testConfig(t), func(m *Manager) { m.WatchChildren(configMaps, "writes", nil) })
	if !m.WaitForCacheSync(t.Context()) {
		t.Fatal("no sync")
	}
	for i := range 30 {
		cm := child(configMaps, ns, "c", "writes", uid)
		key := plan.KeyOf(cm)
		var last *observe.Object
		for j := range 3 {
			cm.Object["data"] = map[string]any{"n": fmt.Sprint(i, j)}
			last = observe.From(apply(t, cm), false)
			m.Wrote("writes", last)
			got, ok := m.Child("writes", key)
			if !ok || got.UID != last.UID || got.ResourceVersion != last.ResourceVersion || got.OwnedFieldsHash != last.OwnedFieldsHash {
				t.Fatalf("round %d: got %+v, wrote %+v", i, got, last)
			}
			if all := m.ChildrenOfStack("writes", "hash-"+string(uid)); len(all) != 1 || all[0].ResourceVersion != last.ResourceVersion {
				t.Fatalf("round %d: children %+v", i, all)
			}
		}
		remove(t, cm)
	}
	cluster.Eventually(t, timeout, func() error {
		if n := len(m.children["writes"][configMaps.GroupKind()].mutations.Overrides()); n != 0 {
			return fmt.Errorf("%d writes are not observed", n)
		}
		return nil
	})
}

// versionedDefinition is the definition of a kind with the versions v1 and v2. The name of the kind is in lower case.
func versionedDefinition(name string, first, second bool) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.watch.example.com}
spec:
  group: watch.example.com
  scope: Namespaced
  names: {plural: %[1]ss, singular: %[1]s, kind: %[2]s, listKind: %[2]sList}
  versions:
  - {name: v1, served: %[3]t, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v2, served: %[4]t, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, name, strings.ToUpper(name[:1])+name[1:], first, second)
}

// TestWatchContinuesInTheServedVersion stops serving the watched version of children, as an upgrade of the cluster does.
func TestWatchContinuesInTheServedVersion(t *testing.T) {
	k := cluster.Shared(t)
	ns := k.Namespace(t)
	k.Apply(t, versionedDefinition("mover", true, false))
	old := schema.GroupVersionKind{Group: "watch.example.com", Version: "v1", Kind: "Mover"}
	later := old.GroupKind().WithVersion("v2")
	var events log
	m := startManager(t, testConfig(t), func(m *Manager) {
		m.WatchChildren(old, "controller", func(_, now *observe.Object) {
			if now != nil {
				events.add("%s %s", now.APIVersion, now.Key.Name)
			}
		})
	})
	create := func(gvk schema.GroupVersionKind, name string) {
		t.Helper()
		cluster.Eventually(t, timeout, func() error {
			return client.IgnoreAlreadyExists(k.Client.Create(t.Context(), child(gvk, ns, name, "controller", "1")))
		})
	}
	create(old, "before")
	events.expect(t, "[watch.example.com/v1 before]")
	k.Apply(t, versionedDefinition("mover", false, true))
	cluster.Eventually(t, timeout, func() error {
		m.WatchChildren(later, "controller", nil)
		if o, found := m.Child("controller", plan.Key{GroupKind: old.GroupKind(), Namespace: ns, Name: "before"}); !found || o.APIVersion != "watch.example.com/v2" {
			return fmt.Errorf("the child is %v", o)
		}
		return nil
	})
	create(later, "after")
	events.expect(t, "[watch.example.com/v1 before watch.example.com/v2 before watch.example.com/v2 after]")
	// A declaration in the old version, such as one from an old inventory entry, changes nothing.
	m.WatchChildren(old, "controller", nil)
	if !m.ChildSynced(old.GroupKind(), "controller") {
		t.Error("the watch restarts")
	}
}

// TestAWatchFollowsItsKindThroughTheVersions: nobody declares the watch again when an upgrade removes its version, whether the other version
// was declared while both were served, or never. A watch that has ended must not count as synced, or every child would seem to be absent.
func TestAWatchFollowsItsKindThroughTheVersions(t *testing.T) {
	k := cluster.Shared(t)
	ns := k.Namespace(t)
	for name, declared := range map[string]string{"drifter": "v2", "nomad": "v1"} {
		// One manager is to be gone before the next looks what is left of it.
		t.Run(name, func(t *testing.T) {
			k.Apply(t, versionedDefinition(name, true, true))
			first := schema.GroupVersionKind{Group: "watch.example.com", Version: "v1", Kind: strings.ToUpper(name[:1]) + name[1:]}
			key := plan.Key{GroupKind: first.GroupKind(), Namespace: ns, Name: "child"}
			cluster.Eventually(t, timeout, func() error {
				return client.IgnoreAlreadyExists(k.Client.Create(t.Context(), child(first, ns, "child", "controller", "1")))
			})
			m := startManager(t, testConfig(t), func(m *Manager) { m.WatchChosenChildren(first, "controller", nil) })
			expect := func(version string) {
				t.Helper()
				cluster.Eventually(t, timeout, func() error {
					m.mu.RLock()
					inf := m.children["controller"][key.GroupKind]
					ended := inf.running == nil && m.hasSyncedLocked(inf)
					m.mu.RUnlock()
					o, found := m.Child("controller", key)
					if ended {
						t.Fatalf("%s: the watch has ended, and counts as synced", name)
					}
					if !found || o.APIVersion != "watch.example.com/"+version {
						return fmt.Errorf("%s: the child is %v, not in %s", name, o, version)
					}
					return nil
				})
			}
			expect("v1")
			m.WatchChosenChildren(first.GroupKind().WithVersion(declared), "controller", nil)
			expect("v1")
			k.Apply(t, versionedDefinition(name, false, true))
			expect("v2")
		})
	}
}

func TestResourcesComeAndGoWithTheirAPI(t *testing.T) {
	k := cluster.Shared(t)
	ns := k.Namespace(t)
	var events log
	m := startManager(t, testConfig(t), func(m *Manager) {
		m.WatchResources(gizmos, func(u *unstructured.Unstructured) (metav1.Object, error) {
			if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, "bad"); found {
				return nil, fmt.Errorf("bad")
			}
			return &metav1.ObjectMeta{
				Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(),
				ResourceVersion: u.GetResourceVersion(),
			}, nil
		}, func(before, after metav1.Object, _ bool) { events.add("%v>%v", before != nil, after != nil) },
			metav1.Object.GetNamespace)
	})
	if !m.WaitForCacheSync(t.Context()) || !m.ResourceSynced(gizmos.GroupKind()) {
		t.Fatal("an API that is not served holds up the sync")
	}
	for round := range 2 {
		crd := k.Apply(t, gizmoDefinition)[0]
		for _, name := range []string{"good", "bad"} {
			cluster.Eventually(t, timeout, func() error {
				u := &unstructured.Unstructured{Object: map[string]any{name: true}}
				u.SetGroupVersionKind(gizmos)
				u.SetNamespace(ns)
				u.SetName(name)
				return client.IgnoreAlreadyExists(k.Client.Create(t.Context(), u))
			})
		}
		cluster.Eventually(t, timeout, func() error {
			if n := len(m.ListResources(gizmos.GroupKind(), ns)); n != 2 {
				return fmt.Errorf("round %d: %d resources", round, n)
			}
			return nil
		})
		if n := len(m.IndexedResources(gizmos.GroupKind(), ns)); n != 2 {
			t.Fatalf("round %d: %d resources in the index", round, n)
		}
		if o, _ := m.Resource(gizmos.GroupKind(), ns, "good"); o == nil || o.GetName() != "good" {
			t.Fatalf("good = %v", o)
		}
		if o, _ := m.Resource(gizmos.GroupKind(), ns, "bad"); o == nil {
			t.Fatal("bad is lost")
		} else if _, ok := o.(*Undecodable); !ok {
			t.Fatalf("bad = %T", o)
		}
		// Our own writes count, until the API is no longer served.
		for _, name := range []string{"good", "ours"} {
			m.WroteResource(gizmos.GroupKind(), &metav1.ObjectMeta{Namespace: ns, Name: name, UID: "ours", ResourceVersion: "999999999999"})
			if o, _ := m.Resource(gizmos.GroupKind(), ns, name); o == nil || o.GetUID() != "ours" {
				t.Errorf("%s = %v", name, o)
			}
		}
		if listed, indexed := m.ListResources(gizmos.GroupKind(), ns), m.IndexedResources(gizmos.GroupKind(), ns); len(listed) != 3 || len(indexed) != 3 {
			t.Errorf("listed are %v, in the index are %v", listed, indexed)
		}
		if all := m.ListResources(gizmos.GroupKind(), ""); len(all) != 3 {
			t.Errorf("listed in all namespaces are %v", all)
		}
		if err := k.Client.Delete(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t, 2*timeout, func() error {
			m.mu.RLock()
			defer m.mu.RUnlock()
			if m.resources[gizmos.GroupKind()].running != nil {
				return fmt.Errorf("round %d: the watch still runs", round)
			}
			return nil
		})
	}
	if got := strings.Count(events.String(), "false>true"); got != 4 {
		t.Fatalf("events %s", &events)
	}
}

func TestTargets(t *testing.T) {
	k := cluster.Shared(t)
	ns := k.Namespace(t)
	m := startManager(t, testConfig(t), func(m *Manager) {
		m.WatchTargets("wire", configMaps, "", "metadata.name=wanted", func(u *unstructured.Unstructured) *unstructured.Unstructured {
			unstructured.RemoveNestedField(u.Object, "data", "big")
			return u
		}, nil)
	})
	for _, name := range []string{"wanted", "other"} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns}, Data: map[string]string{"big": "x", "a": "b"}}
		if err := k.Client.Create(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
	}
	cluster.Eventually(t, timeout, func() error {
		if _, ok := m.Target("wire", ns, "wanted"); !ok {
			return fmt.Errorf("not there")
		}
		return nil
	})
	all := m.ListTargets("wire", ns)
	if len(all) != 1 || all[0].GetManagedFields() != nil || !m.TargetsSynced("wire") {
		t.Fatalf("targets = %v", all)
	}
	if data, _, _ := unstructured.NestedStringMap(all[0].Object, "data"); len(data) != 1 || data["a"] != "b" {
		t.Fatalf("data = %v", data)
	}
	written := all[0].DeepCopy()
	written.SetResourceVersion("999999999999")
	written.Object["data"] = map[string]any{"big": "y", "a": "ours"}
	m.WroteTarget("wire", written)
	got, _ := m.Target("wire", ns, "wanted")
	for _, u := range append(m.ListTargets("wire", ns), got) {
		if data, _, _ := unstructured.NestedStringMap(u.Object, "data"); len(data) != 1 || data["a"] != "ours" {
			t.Errorf("after our write the data is %v", data)
		}
	}
}

func TestReferences(t *testing.T) {
	k := cluster.Shared(t)
	ns := k.Namespace(t)
	var enqueued log
	m := startManager(t, testConfig(t), nil)
	m.OnReferenceChange(func(r Referrer) { enqueued.add("%s", r.Name) })
	create := func(name string) {
		t.Helper()
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns}}
		if err := k.Client.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	create("late")
	one, two := Referrer{Name: "one"}, Referrer{Name: "two"}
	expect := func(referrer Referrer, name string, there bool) {
		t.Helper()
		cluster.Eventually(t, timeout, func() error {
			m, known, err := m.Reference(t.Context(), referrer, secrets, ns, name)
			if err != nil || !known || (m != nil) != there {
				return fmt.Errorf("%s: %v, %v, %w", name, m, known, err)
			}
			return nil
		})
	}
	expect(one, "db", false)
	enqueued.expect(t, "[one]")
	create("unreferenced")
	create("db")
	enqueued.expect(t, "[one one]")
	expect(one, "db", true)
	// The watch has dropped this one, since nobody referred to it.
	if m, known, err := m.Reference(t.Context(), two, secrets, ns, "late"); err != nil || !known || m == nil {
		t.Fatalf("late: %v, %v, %v", m, known, err)
	}
	if err := k.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "late", Namespace: ns}}); err != nil {
		t.Fatal(err)
	}
	enqueued.expect(t, "[one one two]")
	expect(two, "late", false)
	m.refs.mu.RLock()
	w := m.refs.watches[scope{gvk: secrets, namespace: ns}]
	m.refs.mu.RUnlock()
	if len(w.objects) != 2 {
		t.Fatalf("objects = %v", w.objects)
	}
	m.ReleaseReferences(one, Ref{GVK: secrets, Namespace: ns, Name: "db"})
	m.ReleaseReferences(two)
	if len(m.refs.watches) != 1 || len(w.objects) != 1 {
		t.Fatal("ReleaseReferences is wrong")
	}
	m.ReleaseReferences(one)
	if len(m.refs.watches) != 0 || len(m.refs.byReferrer) != 0 {
		t.Fatal("the last release does not stop the watch")
	}
	if m, known, err := m.Reference(t.Context(), one, gizmos, ns, "x"); m != nil || !known || err != nil {
		t.Fatalf("of an API that is not served: %v, %v, %v", m, known, err)
	}
}

func TestSharedWatchServesAllNamespaces(t *testing.T) {
	k := cluster.Shared(t)
	first, second := k.Namespace(t), k.Namespace(t)
	m := startManager(t, testConfig(t), nil)
	m.ShareWatch(secrets, "bundle")
	var enqueued log
	m.OnReferenceChange(func(r Referrer) { enqueued.add("%s", r.Name) })
	one, two := Referrer{Namespace: first, Name: "one"}, Referrer{Namespace: second, Name: "two"}
	known := func(referrer Referrer, there bool) {
		t.Helper()
		cluster.Eventually(t, timeout, func() error {
			m, known, err := m.Reference(t.Context(), referrer, secrets, referrer.Namespace, "bundle")
			if err != nil || !known || (m != nil) != there {
				return fmt.Errorf("%s: %v, %v, %w", referrer.Name, m, known, err)
			}
			return nil
		})
	}
	known(one, false)
	known(two, false)
	m.refs.mu.RLock()
	watches := len(m.refs.watches)
	m.refs.mu.RUnlock()
	if watches != 1 {
		t.Fatalf("%d watches", watches)
	}
	before := len(enqueued.all())
	for _, name := range []string{"bundle", "other"} {
		if err := k.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: second}}); err != nil {
			t.Fatal(err)
		}
	}
	known(two, true)
	known(one, false)
	if got := enqueued.all()[before:]; !slices.Equal(got, []string{"two"}) {
		t.Errorf("enqueued %v", got)
	}
	m.ReleaseReferences(one)
	known(two, true)
	m.ReleaseReferences(two)
	if len(m.refs.watches) != 0 {
		t.Error("the last release does not stop the watch")
	}
}

func TestForbiddenReference(t *testing.T) {
	k := cluster.Shared(t)
	ns := k.Namespace(t)
	cfg := rest.CopyConfig(testConfig(t))
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "poor", Groups: []string{"system:authenticated"}}
	m := startManager(t, cfg, func(m *Manager) { m.WatchChildren(deployments, "controller", nil) })
	var enqueued log
	m.OnReferenceChange(func(r Referrer) { enqueued.add("%s", r.Name) })
	referrer := Referrer{Name: "one"}
	cluster.Eventually(t, timeout, func() error {
		if err := m.ChildWatchError(deployments.GroupKind(), "controller"); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the children cannot be watched for %w", err)
		}
		_, known, err := m.Reference(t.Context(), referrer, services, ns, "x")
		if known || !apierrors.IsForbidden(err) {
			return fmt.Errorf("known %v, error %w", known, err)
		}
		return nil
	})
	enqueued.expect(t, "[one]")
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: ns}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "watch"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: ns},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "poor"}},
		},
	} {
		if err := k.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	cluster.Eventually(t, timeout, func() error {
		if _, known, err := m.Reference(t.Context(), referrer, services, ns, "x"); !known || err != nil {
			return fmt.Errorf("known %v, error %w", known, err)
		}
		return nil
	})
}

// failing answers the requests for Deployments as an API server whose conversion webhook is down.
type failing struct {
	http.RoundTripper
	asked *atomic.Int32
}

func (f failing) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.URL.Path, "/deployments") {
		return f.RoundTripper.RoundTrip(req)
	}
	f.asked.Add(1)
	return &http.Response{
		StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`)),
	}, nil
}

// TestKindsOfUsersThatCannotBeListedDoNotCount: the definition of a user's kind may name a conversion webhook that never answers.
func TestKindsOfUsersThatCannotBeListedDoNotCount(t *testing.T) {
	var asked atomic.Int32
	cfg := rest.CopyConfig(testConfig(t))
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return failing{rt, &asked} })
	m := startManager(t, cfg, func(m *Manager) { m.WatchChosenChildren(deployments, "controller", nil) })
	cluster.Eventually(t, timeout, func() error {
		if missing, _ := m.Unsynced(); asked.Load() == 0 || !m.HasSynced() {
			return fmt.Errorf("after %d requests these kinds count: %v", asked.Load(), missing)
		}
		return nil
	})
	if m.ChildSynced(deployments.GroupKind(), "controller") {
		t.Error("the children count as known")
	}
	m.WatchChildren(deployments, "another", nil)
	if missing, _ := m.Unsynced(); len(missing) != 1 || m.HasSynced() {
		t.Errorf("of the manager's own watches are missing: %v", missing)
	}
}

// TestForbiddenKindsOfUsersDoNotCount: a custom resource with a kind that the manager may not watch must not make the manager unready, and
// a forbidden watch of the manager's own is told at once.
func TestForbiddenKindsOfUsersDoNotCount(t *testing.T) {
	cfg := rest.CopyConfig(testConfig(t))
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "poorer", Groups: []string{"system:authenticated"}}
	var told log
	m := startManager(t, cfg, func(m *Manager) {
		m.opts.OnForbidden = func(gk schema.GroupKind, _ error) { told.add("%s", gk) }
		m.WatchChosenChildren(deployments, "controller", nil)
	})
	cluster.Eventually(t, timeout, func() error {
		if err := m.ChildWatchError(deployments.GroupKind(), "controller"); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the children cannot be watched for %w", err)
		}
		if missing, _ := m.Unsynced(); !m.HasSynced() {
			return fmt.Errorf("a kind that a user chose counts: %v", missing)
		}
		return nil
	})
	m.WatchChildren(services, "controller", nil)
	cluster.Eventually(t, timeout, func() error {
		missing, running := m.Unsynced()
		if len(missing) != 1 || !running || !apierrors.IsForbidden(missing[services.GroupKind()]) || m.HasSynced() {
			return fmt.Errorf("missing: %v", missing)
		}
		return nil
	})
	told.expect(t, "[Deployment.apps Service]")
}

package watch

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"

	"github.com/go-logr/logr"

	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/watch/source"
)

func meta(name, uid, rv string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(uid), ResourceVersion: rv,
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
	}}
}

// refFixture returns a watch without a reflector: the test calls its store.
func refFixture(t *testing.T) (w *refWatch, s *refStore, enqueued func() int) {
	t.Helper()
	count := 0
	r := &references{watches: map[scope]*refWatch{}, byReferrer: map[Referrer]map[Ref]struct{}{}}
	r.enqueue = append(r.enqueue, func(Referrer) { count++ })
	w = newRefWatch(r, scope{})
	s = &refStore{watch: w, backoff: source.NewBackoff(&testclock.FakeClock{}, logr.Discard())}
	w.store = s
	return w, s, func() int { n := count; count = 0; return n }
}

func (w *refWatch) expect(t *testing.T, name string, state syncState, rv string) {
	t.Helper()
	m, got, err := w.get(name)
	have := ""
	if m != nil {
		have = m.ResourceVersion
		if m.ManagedFields != nil {
			t.Error("managedFields are kept")
		}
	}
	if err != nil || got != state || have != rv {
		t.Fatalf("%s: state %v version %q error %v, want %v %q", name, got, have, err, state, rv)
	}
}

func TestRefWatchKeepsReferencedNamesOnly(t *testing.T) {
	w, s, enqueued := refFixture(t)
	referrer := Referrer{Name: "r"}
	w.addReferrer("a", referrer)
	w.addReferrer("b", referrer)
	w.expect(t, "a", statePending, "")
	if err := s.Replace([]any{meta("a", "1", "5"), meta("z", "9", "6")}, "7"); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "a", stateSynced, "5")
	w.expect(t, "b", stateSynced, "")
	if enqueued() != 2 {
		t.Fatal("not enqueued once for each name after the sync")
	}
	_ = s.Add(meta("z", "9", "8"))
	_ = s.Replace([]any{meta("a", "1", "5")}, "9")
	if enqueued() != 0 || len(w.objects) != 2 {
		t.Fatal("an unreferenced object or an unchanged list enqueued the referrer")
	}
	_ = s.Add(meta("b", "2", "10"))
	_ = s.Delete(meta("a", "1", "11"))
	w.expect(t, "a", stateSynced, "")
	w.expect(t, "b", stateSynced, "10")
	if enqueued() != 2 {
		t.Fatal("not enqueued by the events")
	}
	if w.removeReferrer("a", referrer) || !w.removeReferrer("b", referrer) {
		t.Fatal("the end of the last reference is not reported")
	}
}

func TestRefWatchLiveReadLosesNoEvent(t *testing.T) {
	for _, tc := range []struct {
		name  string
		event func(*refStore)
		got   *metav1.PartialObjectMetadata
		want  string
		then  func(*refStore)
		after string
	}{
		{name: "no event", got: meta("a", "1", "5"), want: "5"},
		{name: "no event and no object", want: ""},
		{name: "newer event wins", event: func(s *refStore) { _ = s.Update(meta("a", "1", "6")) }, got: meta("a", "1", "5"), want: "6"},
		{name: "newer response wins", event: func(s *refStore) { _ = s.Update(meta("a", "1", "4")) }, got: meta("a", "1", "5"), want: "5"},
		{name: "deleted after the response", event: func(s *refStore) { _ = s.Delete(meta("a", "1", "6")) }, got: meta("a", "1", "5"), want: ""},
		{name: "created again after the deletion", event: func(s *refStore) { _ = s.Delete(meta("a", "1", "4")) }, got: meta("a", "2", "5"), want: "5"},
		{name: "created during the read", event: func(s *refStore) { _ = s.Add(meta("a", "1", "6")) }, want: "6"},
		{name: "late events", got: meta("a", "2", "5"), want: "5", then: func(s *refStore) {
			_ = s.Update(meta("a", "1", "3"))
			_ = s.Delete(meta("a", "1", "4"))
		}, after: "5"},
		{name: "late list", got: meta("a", "2", "5"), want: "5", then: func(s *refStore) { _ = s.Replace(nil, "4") }, after: "5"},
		{name: "later list", got: meta("a", "2", "5"), want: "5", then: func(s *refStore) { _ = s.Replace(nil, "6") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, s, _ := refFixture(t)
			_ = s.Replace([]any{unreferenced{key: "a"}}, "1")
			w.addReferrer("a", Referrer{Name: "r"})
			w.expect(t, "a", stateNeedsGet, "")
			if tc.event != nil {
				tc.event(s)
			}
			if tc.got != nil {
				tc.got = observe.Identity(tc.got)
			}
			w.recordGet("a", tc.got)
			w.expect(t, "a", stateSynced, tc.want)
			if tc.then != nil {
				tc.then(s)
				w.expect(t, "a", stateSynced, tc.after)
			}
		})
	}
}

func TestRefWatchKnowsAbsenceWithoutARead(t *testing.T) {
	w, s, enqueued := refFixture(t)
	_ = s.Replace([]any{unreferenced{key: "b"}, meta("c", "3", "1")}, "1")
	referrer := Referrer{Name: "r"}
	w.addReferrer("a", referrer)
	w.expect(t, "a", stateSynced, "")
	_ = s.Add(meta("a", "1", "5"))
	w.expect(t, "a", stateSynced, "5")
	if enqueued() != 1 {
		t.Fatal("not enqueued when the object was created")
	}
	for _, existing := range []string{"b", "c"} {
		w.addReferrer(existing, referrer)
		w.expect(t, existing, stateNeedsGet, "")
	}
	_ = s.Delete(meta("d", "4", "6"))
	_ = s.Add(meta("e", "5", "7"))
	w.addReferrer("d", referrer)
	w.expect(t, "d", stateSynced, "")
	w.addReferrer("e", referrer)
	w.expect(t, "e", stateNeedsGet, "")
	_ = s.Delete(meta("e", "5", "8"))
	w.expect(t, "e", stateSynced, "")
}

// TestRefWatchRelistWithoutChanges shows that the list after a broken watch does not enqueue the referrers of objects that still
// do not exist.
func TestRefWatchRelistWithoutChanges(t *testing.T) {
	w, s, enqueued := refFixture(t)
	referrer := Referrer{Name: "r"}
	_ = s.Replace([]any{unreferenced{key: "there"}}, "1")
	w.addReferrer("absent", referrer)
	w.expect(t, "absent", stateSynced, "")
	_ = s.Replace([]any{unreferenced{key: "there"}}, "5")
	w.expect(t, "absent", stateSynced, "")
	if enqueued() != 0 {
		t.Fatal("enqueued although nothing has changed")
	}
	_ = s.Add(meta("absent", "1", "6"))
	w.expect(t, "absent", stateSynced, "6")
	if enqueued() != 1 {
		t.Fatal("not enqueued when the object was created")
	}
	// This object was deleted while the watch was broken.
	w.addReferrer("there", referrer)
	w.expect(t, "there", stateNeedsGet, "")
	_ = s.Replace([]any{meta("absent", "1", "6")}, "9")
	w.expect(t, "there", stateSynced, "")
	if enqueued() != 1 {
		t.Fatal("not enqueued although the object was deleted")
	}
}

// TestLittleIsKeptOfWhatIsReferredTo: a Secret has up to 256 KiB of annotations, and more of the rest.
func TestLittleIsKeptOfWhatIsReferredTo(t *testing.T) {
	w, s, _ := refFixture(t)
	w.addReferrer("large", Referrer{Name: "r"})
	large := func(rv string) *metav1.PartialObjectMetadata {
		m := meta("large", "1", rv)
		m.Annotations = map[string]string{"example.com/note": strings.Repeat("x", 200<<10)}
		m.Labels = map[string]string{"example.com/label": "x"}
		m.Finalizers = []string{"example.com/finalizer"}
		m.OwnerReferences = []metav1.OwnerReference{{Name: "owner"}}
		return m
	}
	check := func(rv string) {
		t.Helper()
		w.expect(t, "large", stateSynced, rv)
		if m, _, _ := w.get("large"); !reflect.DeepEqual(m.ObjectMeta, metav1.ObjectMeta{Name: "large", UID: "1", ResourceVersion: rv}) {
			t.Errorf("kept is more than the identity: %d annotations, %d labels, %d finalizers, %d owners",
				len(m.Annotations), len(m.Labels), len(m.Finalizers), len(m.OwnerReferences))
		}
	}
	listed, _ := s.Transformer()(large("5"))
	_ = s.Replace([]any{listed}, "5")
	check("5")
	_ = s.Update(large("6"))
	check("6")
}

func TestRefWatchNameDuringTheList(t *testing.T) {
	w, s, enqueued := refFixture(t)
	w.addReferrer("a", Referrer{Name: "r"})
	transform := s.Transformer()
	a, _ := transform(meta("a", "1", "5"))
	b, _ := transform(meta("b", "2", "5"))
	if _, ok := b.(unreferenced); !ok {
		t.Fatalf("an unreferenced object is stored as %T", b)
	}
	w.addReferrer("b", Referrer{Name: "r"})
	_ = s.Replace([]any{a, b}, "7")
	w.expect(t, "a", stateSynced, "5")
	w.expect(t, "b", stateNeedsGet, "")
	if enqueued() != 2 {
		t.Fatal("not enqueued to read the name")
	}
}

// TestLittleIsKeptOfWhatCannotBeDecoded: it is known by its metadata and conditions, whatever else it has.
func TestLittleIsKeptOfWhatCannotBeDecoded(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	fails := func(*unstructured.Unstructured) (metav1.Object, error) { return nil, errors.New("cannot read " + long) }
	for _, message := range []string{"short", long} {
		conditions := []any{map[string]any{"type": "Ready", "message": message}}
		u := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"text": long}, "status": map[string]any{"conditions": conditions, "more": long}, "more": long,
		}}
		u.SetName("large")
		bad, _ := transformResource(fails, u).(*Undecodable)
		raw, err := json.Marshal(bad)
		if err != nil || len(raw)+len(bad.Err.Error()) > maxConditions || !strings.HasPrefix(bad.Err.Error(), "cannot read x") {
			t.Errorf("%d bytes are kept: %v", len(raw)+len(bad.Err.Error()), err)
		}
		kept, _, _ := unstructured.NestedSlice(bad.Object, "status", "conditions")
		if short := message == "short"; bad.GetName() != "large" || (len(kept) == 1) != short {
			t.Errorf("of a condition of %d bytes and its object are kept %v", len(message), kept)
		}
	}
}

func TestResourceDecodingNeverFails(t *testing.T) {
	read := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetName("x")
		u.SetResourceVersion("1")
		return u
	}
	for name, decode := range map[string]func(*unstructured.Unstructured) (metav1.Object, error){
		"error":    func(*unstructured.Unstructured) (metav1.Object, error) { return nil, errors.New("no") },
		"panic":    func(*unstructured.Unstructured) (metav1.Object, error) { panic("no") },
		"nothing":  func(*unstructured.Unstructured) (metav1.Object, error) { return nil, nil },
		"stranger": func(*unstructured.Unstructured) (metav1.Object, error) { return &metav1.ObjectMeta{}, nil },
	} {
		out := transformResource(decode, read())
		bad, ok := out.(*Undecodable)
		if !ok || bad.Err == nil || bad.GetName() != "x" {
			t.Errorf("%s: stored %T", name, out)
		}
		if again := transformResource(decode, out); again != out {
			t.Errorf("%s: decoded twice", name)
		}
	}
}

// laggingManager returns a manager whose watch on Secrets the test makes say what it likes, and which reads the Secrets of a cluster live.
func laggingManager(t *testing.T, there ...string) (m *Manager, reads func() int) {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme)
	secretsOf := client.Resource(secrets.GroupVersion().WithResource("secrets")).Namespace("ns").(metadatafake.MetadataClient)
	for _, name := range there {
		object := meta(name, "uid", "7")
		object.SetGroupVersionKind(secrets)
		object.Namespace = "ns"
		if _, err := secretsOf.CreateFake(object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	client.ClearActions()
	m = &Manager{opts: Options{Metadata: client, Catalog: servingSecrets(t)}}
	m.refs = newReferences(m)
	return m, func() int { return len(client.Actions()) }
}

// servingSecrets is a catalog that knows Secrets.
func servingSecrets(t *testing.T) *catalog.Catalog {
	t.Helper()
	disco := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{{
		GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Namespaced: true}},
	}}}}
	out := catalog.New(disco, dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}: "CustomResourceDefinitionList",
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}:             "APIServiceList",
	}), logr.Discard())
	if err := out.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAbsenceIsConfirmedWhereTheWatchMayBeBehind: an object is created, and then the custom resource that refers to it. The watch of the custom
// resource may be the first one to tell. A live read confirms the absence, once for each reference, whether the watch is open or is being opened.
func TestAbsenceIsConfirmedWhereTheWatchMayBeBehind(t *testing.T) {
	element := schema.GroupKind{Group: "keeper.mlkeeper.dev", Kind: "CompositionElement"}
	for name, opened := range map[string]bool{"the watch is open": true, "the watch is being opened": false} {
		t.Run(name, func(t *testing.T) {
			m, reads := laggingManager(t, "payload")
			m.ConfirmAbsence(element, secrets)
			of, w := Referrer{Kind: element, Name: "e"}, newRefWatch(m.refs, scope{gvk: secrets, namespace: "ns"})
			s := &refStore{watch: w, backoff: source.NewBackoff(&testclock.FakeClock{}, logr.Discard())}
			m.refs.watches[w.scope], w.store = w, s
			list := func() {
				if err := s.Replace(nil, "5"); err != nil {
					t.Fatal(err)
				}
			}
			if opened {
				list()
			} else if _, synced, err := m.Reference(t.Context(), of, secrets, "ns", "payload"); synced || err != nil {
				t.Fatalf("a list that is not there yet tells of it: %v", err)
			} else {
				m.refs.add(of, Ref{secrets, "ns", "absent"})
				list()
			}
			for range 3 {
				if got, synced, err := m.Reference(t.Context(), of, secrets, "ns", "payload"); got == nil || !synced || err != nil {
					t.Fatalf("the object is there: %v, %v, %v", got, synced, err)
				}
				if got, synced, err := m.Reference(t.Context(), of, secrets, "ns", "absent"); got != nil || !synced || err != nil {
					t.Fatalf("the object is absent: %v, %v, %v", got, synced, err)
				}
			}
			list()
			w.expect(t, "absent", stateSynced, "")
			w.expect(t, "payload", stateSynced, "7")
			if err := errors.Join(s.Add(meta("payload", "uid", "7")), s.Delete(meta("payload", "uid", "9"))); err != nil {
				t.Fatal(err)
			}
			w.expect(t, "payload", stateSynced, "")
			if n := reads(); n != 2 {
				t.Errorf("%d live reads of two references", n)
			}
			if got, _, _ := m.Reference(t.Context(), Referrer{Name: "another kind"}, secrets, "ns", "optional"); got != nil || reads() != 2 {
				t.Errorf("%v: a reference of a kind that does not ask for it costs a read", got)
			}
		})
	}
}

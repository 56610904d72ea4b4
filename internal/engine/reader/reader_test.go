package reader

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/background"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/watch"
	"mlkeeper.dev/internal/limit"
)

var (
	secrets = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	stack   = plan.Stack{
		Controller: "servers", GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Server"},
		Namespace: "ns", Name: "own", UID: "own",
	}
)

// fakeCluster is what the caches have of a cluster.
type fakeCluster struct {
	references map[string]*metav1.PartialObjectMetadata
	unknown    bool
	err        error
	watchError error
	children   map[plan.Key]*observe.Object
	// unsynced says that the watches on children are not complete.
	unsynced  bool
	resources []metav1.Object
	kept      []watch.Ref
	asked     []string
}

func (f *fakeCluster) Reference(
	_ context.Context, _ watch.Referrer, _ schema.GroupVersionKind, _, name string,
) (*metav1.PartialObjectMetadata, bool, error) {
	f.asked = append(f.asked, name)
	return f.references[name], !f.unknown, f.err
}

func (f *fakeCluster) ReferenceWatchError(schema.GroupVersionKind, string, string) error {
	return f.watchError
}
func (f *fakeCluster) ReleaseReferences(_ watch.Referrer, except ...watch.Ref) { f.kept = except }
func (f *fakeCluster) Child(_ string, key plan.Key) (*observe.Object, bool) {
	o, ok := f.children[key]
	return o, ok
}

func (f *fakeCluster) ChildSynced(schema.GroupKind, string) bool { return !f.unsynced }

func (f *fakeCluster) ChildWatchError(schema.GroupKind, string) error { return f.watchError }

func (f *fakeCluster) ListResources(schema.GroupKind, string) []metav1.Object  { return f.resources }
func (f *fakeCluster) ListTargets(string, string) []*unstructured.Unstructured { return nil }
func (f *fakeCluster) ServesVersion(schema.GroupVersion) bool                  { return true }
func (f *fakeCluster) Kinds() []schema.GroupVersionKind                        { return []schema.GroupVersionKind{secrets} }
func (f *fakeCluster) KubernetesVersion() string                               { return "v1.36.2" }
func (f *fakeCluster) Lookup(gvk schema.GroupVersionKind) (m catalog.Mapping, served bool) {
	return catalog.Mapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Namespaced: true}, gvk == secrets
}

func metaOf(name, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: version}}
}

func secret(name, version string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(secrets)
	u.SetNamespace("ns")
	u.SetName(name)
	u.SetUID(types.UID(name))
	u.SetResourceVersion(version)
	return u
}

// newReaders returns readers of a cluster, and the client whose actions are their live reads.
func newReaders(cluster *fakeCluster, objects ...runtime.Object) (*Readers, *fake.FakeDynamicClient) {
	client := fake.NewSimpleDynamicClient(runtime.NewScheme(), objects...)
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	return &Readers{
		Informers: cluster, Catalog: cluster, Clock: clock,
		Live: Live{Catalog: cluster, Client: client, ResourceAs: func(user string, _ schema.GroupVersionKind, ns string) (dynamic.ResourceInterface, error) {
			if user != "" && user != allowed {
				return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no right"))
			}
			return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(ns), nil
		}},
		Jobs: background.New(background.Options[watch.Referrer]{
			Clock: clock, Namespace: func(h watch.Referrer) string { return h.Namespace }, Rendering: func() {}, Done: func(watch.Referrer) {},
			Log: logr.Discard(),
		}),
	}, client
}

func (r *Readers) reader(recorded ...plan.Key) *Reader {
	return r.New(Request{
		Stack: stack, WatchGroup: func(string) {}, WatchKinds: func() {}, Recorded: func(key plan.Key) bool { return slices.Contains(recorded, key) },
		Declared: func(gk schema.GroupKind) bool { return gk == secrets.GroupKind() },
	})
}

func keyOf(name string) plan.Key {
	return plan.Key{GroupKind: secrets.GroupKind(), Namespace: "ns", Name: name}
}

// TestAChildIsAbsentOnceItsWatchIsComplete: a controller that asks for a child while the watch on its kind is opened is told that nobody knows. A
// watch that cannot be opened, and one that only a plan opens, hold up nothing.
func TestAChildIsAbsentOnceItsWatchIsComplete(t *testing.T) {
	for name, c := range map[string]struct {
		unsynced, there, unknown bool
		kind                     string
		err                      error
	}{
		"complete":               {},
		"being opened":           {unsynced: true, unknown: true},
		"being opened, and seen": {unsynced: true, there: true},
		"it cannot be opened":    {unsynced: true, err: errors.New("no right")},
		"a kind of the user's":   {unsynced: true, kind: "Gizmo"},
	} {
		cluster := &fakeCluster{unsynced: c.unsynced, watchError: c.err, children: map[plan.Key]*observe.Object{}}
		if c.there {
			cluster.children[keyOf("own")] = &observe.Object{}
		}
		readers, _ := newReaders(cluster)
		r, gvk := readers.reader(), secrets
		gvk.Kind = cmp.Or(c.kind, gvk.Kind)
		if own := r.Child(gvk, "ns", "own"); (own != nil) != c.there {
			t.Errorf("%s: the child is %v", name, own)
		}
		if problem := r.Unseen(); (problem != nil) != c.unknown || (r.Opening() != "") != c.unknown {
			t.Errorf("%s: it is told as %v, while %q is opened", name, problem, r.Opening())
		}
	}
}

// TestWhatAnotherControlsIsNoChild: its labels say that it is, and nothing that is decided from a child may follow from it.
func TestWhatAnotherControlsIsNoChild(t *testing.T) {
	controlledBy := func(apiVersion, kind string) *observe.Object {
		o := &observe.Object{}
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "x", UID: "x", Controller: ptr.To(true)}}
		return o
	}
	own := stack.GVK
	for name, c := range map[string]struct {
		object *observe.Object
		there  bool
	}{
		"nobody":                            {&observe.Object{}, true},
		"an Inventory":                      {controlledBy(keeper.GroupVersion.String(), "Inventory"), true},
		"a custom resource of the kind":     {controlledBy(own.GroupVersion().String(), own.Kind), true},
		"an object of another":              {controlledBy("v1", "ConfigMap"), false},
		"a kind of that name":               {controlledBy("apps/v1", own.Kind), false},
		"another kind of MLKeeper":          {controlledBy(keeper.GroupVersion.String(), "PendingOrder"), false},
		"something whose group is no group": {controlledBy("a/b/c", own.Kind), false},
	} {
		readers, _ := newReaders(&fakeCluster{children: map[plan.Key]*observe.Object{keyOf("own"): c.object}})
		if child := readers.reader().Child(secrets, "ns", "own"); (child != nil) != c.there {
			t.Errorf("controlled by %s, the child is %v", name, child)
		}
	}
}

func TestAReferencedObjectIsReadLiveOnlyWhenItsMetadataChanged(t *testing.T) {
	cluster := &fakeCluster{references: map[string]*metav1.PartialObjectMetadata{"db": metaOf("db", "1")}}
	readers, client := newReaders(cluster, secret("db", "1"))
	read := func() *unstructured.Unstructured {
		t.Helper()
		r := readers.reader()
		u, err := r.Referenced(t.Context(), secrets, "ns", "db")
		if err != nil {
			t.Fatal(err)
		}
		r.Done(nil)
		return u
	}
	if u := read(); u == nil || u.GetName() != "db" {
		t.Fatalf("read %v", u)
	}
	read()
	if n := len(client.Actions()); n != 1 {
		t.Fatalf("%d live reads of an unchanged object", n)
	}
	if err := client.Tracker().Update(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, secret("db", "2"), "ns"); err != nil {
		t.Fatal(err)
	}
	cluster.references["db"] = metaOf("db", "2")
	if u := read(); u == nil || u.GetResourceVersion() != "2" || len(client.Actions()) != 2 {
		t.Errorf("after a change, %d live reads returned %v", len(client.Actions()), u)
	}
	delete(cluster.references, "db")
	if u := read(); u != nil || len(client.Actions()) != 2 || readers.contents.bytes != 0 {
		t.Errorf("an absent object is read as %v, and its content of %d bytes is cached", u, readers.contents.bytes)
	}
}

// allowed is the user who may read Secrets.
const allowed = "system:serviceaccount:ns:allowed"

// TestAUserReadsWithHisRights: what a user may not read he does not get, although another one or the operator has read it.
func TestAUserReadsWithHisRights(t *testing.T) {
	cluster := &fakeCluster{references: map[string]*metav1.PartialObjectMetadata{"db": metaOf("db", "1")}}
	readers, client := newReaders(cluster, secret("db", "1"))
	for range 2 {
		for user, may := range map[string]bool{"": true, allowed: true, "system:serviceaccount:ns:other": false} {
			u, err := readers.reader().ReferencedAs(t.Context(), user, secrets, "ns", "db")
			var problem plan.Problem
			if denied := errors.As(err, &problem) && problem.Reason == "Forbidden" && problem.Class == plan.Blocked; denied == may || (u != nil) != may {
				t.Errorf("%q reads %v, error %v", user, u, err)
			}
		}
	}
	if n := len(client.Actions()); n != 2 {
		t.Errorf("%d live reads for two users", n)
	}
	readers.Drop([]watch.Ref{{GVK: secrets, Namespace: "ns", Name: "db"}})
	if readers.contents.bytes != 0 || len(readers.contents.by) != 0 {
		t.Errorf("%d bytes are left", readers.contents.bytes)
	}
}

func TestWhyAReferencedObjectIsNotKnown(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no role"))
	failed := errors.New("the server does not respond")
	for _, c := range []struct {
		name    string
		cluster fakeCluster
		reason  string
		class   plan.Class
		err     error
	}{
		{name: "the watch is being opened", cluster: fakeCluster{unknown: true}, reason: decide.ReasonNotSynced, class: plan.Waiting},
		{name: "the watch fails", cluster: fakeCluster{unknown: true, watchError: failed}, reason: decide.ReasonNotSynced, class: plan.Waiting},
		{name: "the watch is forbidden", cluster: fakeCluster{err: forbidden}, reason: "Forbidden", class: plan.Blocked},
		{name: "too many namespaces", cluster: fakeCluster{err: watch.ErrTooManyNamespaces}, reason: "TooManyNamespaces", class: plan.Blocked},
		{name: "another error", cluster: fakeCluster{err: failed}, err: failed},
	} {
		readers, _ := newReaders(&c.cluster)
		r := readers.reader()
		u, err := r.Referenced(t.Context(), secrets, "ns", "db")
		if opens := r.Opening() == "Secret ns/db"; opens != c.cluster.unknown {
			t.Errorf("%s: %q is being opened", c.name, r.Opening())
		}
		var problem plan.Problem
		switch isProblem := errors.As(err, &problem); {
		case u != nil || isProblem != (c.err == nil) || !isProblem && !errors.Is(err, c.err):
			t.Errorf("%s: read %v, error %v", c.name, u, err)
		case isProblem && (problem.Reason != c.reason || problem.Class != c.class):
			t.Errorf("%s: %+v", c.name, problem)
		}
	}
}

func TestAChildNeedsNoWatchOfItsOwn(t *testing.T) {
	cached := &observe.Object{Key: keyOf("cached"), ObjectMeta: metaOf("cached", "1").ObjectMeta}
	cached.Annotations = map[string]string{keeper.OwnerAnnotation: stack.ID()}
	cluster := &fakeCluster{children: map[plan.Key]*observe.Object{keyOf("cached"): cached}}
	readers, client := newReaders(cluster, secret("cached", "1"), secret("unlabelled", "1"))
	r := readers.reader(keyOf("unlabelled"), keyOf("gone"))
	for name, found := range map[string]bool{"cached": true, "unlabelled": true, "gone": false} {
		if u, err := r.Referenced(t.Context(), secrets, "ns", name); err != nil || (u != nil) != found {
			t.Errorf("%s: read %v, error %v", name, u, err)
		}
	}
	if n := len(client.Actions()); n != 3 {
		t.Errorf("%d live reads", n)
	}
	if r.Done(nil); len(cluster.kept) > 0 {
		t.Errorf("the children %v are watched as objects of others", cluster.kept)
	}
}

// TestWhatTookThePlaceOfAChildIsWatched: no watch on children tells when it goes.
func TestWhatTookThePlaceOfAChildIsWatched(t *testing.T) {
	cluster := &fakeCluster{unknown: true}
	readers, _ := newReaders(cluster, secret("theirs", "1"), secret("ours", "1"))
	r := readers.reader(keyOf("theirs"), keyOf("ours"))
	for _, name := range []string{"theirs", "ours"} {
		if _, err := r.Referenced(t.Context(), secrets, "ns", name); err != nil {
			t.Fatal(err)
		}
	}
	p := plan.Plan{Stages: []plan.Stage{{Objects: []plan.Object{{Desired: secret("ours", "")}}}}}
	if r.WatchLost(t.Context(), p) {
		t.Error("it has gone by what a watch says that is not open yet")
	}
	r.Done(nil)
	if want := []watch.Ref{{GVK: secrets, Namespace: "ns", Name: "theirs"}}; !slices.Equal(cluster.kept, want) || !slices.Equal(cluster.asked, []string{"theirs"}) {
		t.Errorf("watched are %v, asked for %v", cluster.kept, cluster.asked)
	}
}

// TestWhatGoesBeforeItIsWatchedIsNoticed: a watch that is open already sends no event for what went before the reference.
func TestWhatGoesBeforeItIsWatchedIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		read, watched, ended bool
	}{
		"it went since it was read": {true, false, true}, "it is there": {true, true, false}, "it was not there": {false, false, false},
	} {
		cluster := &fakeCluster{references: map[string]*metav1.PartialObjectMetadata{}}
		var there []runtime.Object
		if c.read {
			there = append(there, secret("theirs", "1"))
		}
		if c.watched {
			cluster.references["theirs"] = metaOf("theirs", "1")
		}
		readers, _ := newReaders(cluster, there...)
		r := readers.reader(keyOf("theirs"))
		if _, err := r.Referenced(t.Context(), secrets, "ns", "theirs"); err != nil {
			t.Fatal(err)
		}
		if got := r.WatchLost(t.Context(), plan.Plan{}); got != c.ended {
			t.Errorf("%s: whether it has gone since is %v", name, got)
		}
	}
}

func TestDoneReleasesWhatIsNoLongerRead(t *testing.T) {
	cluster := &fakeCluster{references: map[string]*metav1.PartialObjectMetadata{"a": metaOf("a", "1"), "b": metaOf("b", "1")}}
	readers, _ := newReaders(cluster, secret("a", "1"), secret("b", "1"))
	reconcile := func(before []watch.Ref, names ...string) []watch.Ref {
		t.Helper()
		r := readers.reader()
		for _, name := range names {
			if _, err := r.Referenced(t.Context(), secrets, "ns", name); err != nil {
				t.Fatal(err)
			}
			r.Background(name, controller.Once, func(context.Context, controller.Live) any { return name })
		}
		return r.Done(before)
	}
	refs := reconcile(nil, "a", "b")
	if len(refs) != 2 || len(cluster.kept) != 2 || len(readers.contents.by) != 2 || readers.Jobs.Len() != 1 {
		t.Fatalf("read %v, kept %v, %d contents, %d owners of jobs", refs, cluster.kept, len(readers.contents.by), readers.Jobs.Len())
	}
	refs = reconcile(refs, "b")
	if len(refs) != 1 || !slices.Equal(cluster.kept, refs) || len(readers.contents.by) != 1 {
		t.Errorf("read %v, kept %v, %d contents", refs, cluster.kept, len(readers.contents.by))
	}
	reconcile(refs)
	if len(cluster.kept) > 0 || len(readers.contents.by) > 0 || readers.Jobs.Len() > 0 {
		t.Errorf("kept %v, %d contents, %d owners of jobs", cluster.kept, len(readers.contents.by), readers.Jobs.Len())
	}
}

// TestAReconcileThatEndsEarlyKeepsWhatItRead: its contents are dropped with those of the reconcile before.
func TestAReconcileThatEndsEarlyKeepsWhatItRead(t *testing.T) {
	readers, _ := newReaders(&fakeCluster{references: map[string]*metav1.PartialObjectMetadata{"a": metaOf("a", "1")}}, secret("a", "1"))
	r := readers.reader()
	if _, err := r.Referenced(t.Context(), secrets, "ns", "a"); err != nil {
		t.Fatal(err)
	}
	before := []watch.Ref{{GVK: secrets, Namespace: "ns", Name: "b"}}
	refs := r.Read(before)
	if len(refs) != 2 || len(before) != 1 || !slices.Equal(r.Read(refs), refs) {
		t.Fatalf("read %v, and before %v", refs, before)
	}
	if readers.Drop(refs); len(readers.contents.by) > 0 {
		t.Errorf("%d contents are left", len(readers.contents.by))
	}
}

func TestSiblingsAreTheOthersThatStayOldestFirst(t *testing.T) {
	resource := func(name string, age int64, deleting bool) *unstructured.Unstructured {
		u := secret(name, "1")
		u.SetCreationTimestamp(metav1.Unix(1e9-age, 0))
		if deleting {
			u.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1e9, 0)})
		}
		return u
	}
	cluster := &fakeCluster{resources: []metav1.Object{
		resource("young", 1, false), resource("own", 9, false), resource("going", 8, true), resource("old", 5, false),
		&watch.Undecodable{Unstructured: resource("bad", 7, false)}, resource("old-too", 5, false),
	}}
	readers, _ := newReaders(cluster)
	var got []string
	for _, o := range readers.reader().Siblings() {
		got = append(got, o.GetName())
	}
	if want := []string{"old", "old-too", "young"}; !slices.Equal(got, want) {
		t.Errorf("siblings %v, want %v", got, want)
	}
}

func TestLiveReadsAsTheUser(t *testing.T) {
	cluster := &fakeCluster{}
	_, client := newReaders(cluster, secret("a", "1"))
	var users []string
	live := Live{Catalog: cluster, Client: client, ResourceAs: func(user string, _ schema.GroupVersionKind, ns string) (dynamic.ResourceInterface, error) {
		users = append(users, user)
		return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(ns), nil
	}}
	u, err := live.Get(t.Context(), "user", secrets, "ns", "a")
	if err != nil || u == nil || !slices.Equal(users, []string{"user"}) {
		t.Errorf("read %v as %v, error %v", u, users, err)
	}
	if u, err := live.Get(t.Context(), "user", secrets, "ns", "absent"); err != nil || u != nil {
		t.Errorf("an absent object is read as %v, error %v", u, err)
	}
	if u, err := live.Get(t.Context(), "user", stack.GVK, "ns", "a"); err != nil || u != nil || len(users) != 2 {
		t.Errorf("an object of a kind that is not served is read as %v, error %v", u, err)
	}
	client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "a", errors.New("no role"))
	})
	if _, err := live.Get(t.Context(), "user", secrets, "ns", "a"); !apierrors.IsForbidden(err) {
		t.Errorf("a refused read returns %v", err)
	}
	if list, err := live.ListAs(t.Context(), "user", secrets, "ns", 1); err != nil || len(list) != 1 || users[len(users)-1] != "user" {
		t.Errorf("listed are %v as %v, error %v", list, users, err)
	}
	if list, err := live.ListAs(t.Context(), "user", secrets, "ns", 0); err == nil {
		t.Errorf("more than the limit are listed: %v", list)
	}
	if list, err := live.ListAs(t.Context(), "user", stack.GVK, "ns", 1); err != nil || list != nil {
		t.Errorf("of a kind that is not served %v is listed, error %v", list, err)
	}
	if _, err := live.List(t.Context(), stack.GVK, "ns", "", 1); err == nil {
		t.Error("a kind that is not served is listed")
	}
}

// TestAJobThatWaitsForItsTurnIsNoted has one without a result, and one whose last result is used meanwhile.
func TestAJobThatWaitsForItsTurnIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readers, _ := newReaders(&fakeCluster{})
		defer readers.Jobs.Stop()
		shared := limit.New(1, 1)
		job := func(ctx context.Context, _ controller.Live) any {
			if !shared.Acquire(ctx, "ns", 1) {
				return nil
			}
			shared.Release("ns", 1)
			return "result"
		}
		waits := func(every, rest time.Duration) bool {
			r := readers.reader()
			r.Background("render", every, job)
			r.Done(nil)
			time.Sleep(rest)
			return r.Waits()
		}
		shared.Acquire(t.Context(), "other", 1)
		if waits(controller.Once, time.Hour) {
			t.Error("it waits before it began")
		}
		if !waits(controller.Once, time.Hour) {
			t.Error("nobody is told that it waits")
		}
		shared.Release("other", 1)
		synctest.Wait()
		shared.Acquire(t.Context(), "other", 1)
		readers.Clock.(*testclock.FakeClock).Step(time.Hour)
		waits(time.Minute, time.Hour)
		if waits(time.Minute, 0) {
			t.Error("what has a result is said to wait")
		}
	})
}

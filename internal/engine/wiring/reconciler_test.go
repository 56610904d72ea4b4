package wiring_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
	"mlkeeper.dev/internal/engine/wiring/wiringtest"
)

var key = types.NamespacedName{Namespace: "ns", Name: "target"}

// setWire puts every custom resource's name as a key into data; it is the simplest wire there can be.
func setWire() wiring.Wire {
	return wiring.Wire{
		Name: "set", GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Wanted: func(_ *unstructured.Unstructured, alive []client.Object) []wiring.Entry {
			var out []wiring.Entry
			for _, o := range alive {
				out = append(out, wiring.Entry{Owner: "CR/" + o.GetName(), Value: o.GetName()})
			}
			return out
		},
		Edit: editSet,
	}
}

func editSet(live *unstructured.Unstructured, recorded, wanted []wiring.Entry) (*unstructured.Unstructured, []wiring.Outcome, error) {
	if _, broken := live.Object["broken"]; broken {
		return nil, nil, errors.New("it is broken")
	}
	data, _, _ := unstructured.NestedStringMap(live.Object, "data")
	if data == nil {
		data = map[string]string{}
	}
	before := maps.Clone(data)
	has := func(list []wiring.Entry, value string) bool {
		return slices.ContainsFunc(list, func(e wiring.Entry) bool { return e.Value == value })
	}
	for _, e := range recorded {
		if !has(wanted, e.Value) {
			delete(data, e.Value)
		}
	}
	var outcomes []wiring.Outcome
	for _, e := range wanted {
		_, there := before[e.Value]
		if !there {
			data[e.Value] = "wired"
		}
		outcomes = append(outcomes, wiring.Outcome{
			Entry: e, Wired: true, Reason: "Wired", Record: !there || has(recorded, e.Value),
		})
	}
	if maps.Equal(before, data) {
		return nil, outcomes, nil
	}
	out := live.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "data")
	if len(data) > 0 {
		_ = unstructured.SetNestedStringMap(out.Object, data, "data")
	}
	return out, outcomes, nil
}

type fixture struct {
	*wiringtest.Cluster
	t        *testing.T
	r        *wiring.Reconciler
	alive    []client.Object
	unknown  error
	clock    *clocktesting.FakePassiveClock
	reports  []string
	reported map[string][]wiring.Outcome
}

func newFixture(t *testing.T, wire wiring.Wire) *fixture {
	f := &fixture{
		Cluster: wiringtest.New(wire), t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
		reported: map[string][]wiring.Outcome{},
	}
	f.r = wiring.NewReconciler(wire, wiring.Deps{
		Client: f.Cluster, Resource: f.ResourceOf, Source: f.Cluster, Clock: f.clock, Log: logr.Discard(),
		Alive: func(string, string) ([]client.Object, error) { return f.alive, f.unknown },
		Report: func(owner string, _ plan.Key, outcomes []wiring.Outcome) {
			f.reports = append(f.reports, fmt.Sprintf("%s %d", owner, len(outcomes)))
			f.reported[owner] = outcomes
		},
	})
	return f
}

func (f *fixture) reconcile() time.Duration {
	f.t.Helper()
	after, err := f.r.Reconcile(context.Background(), key)
	if err != nil {
		f.t.Fatalf("reconcile: %v", err)
	}
	return after
}

func (f *fixture) data() map[string]string {
	u := f.Object(key.Namespace, key.Name)
	if u == nil {
		return nil
	}
	data, _, _ := unstructured.NestedStringMap(u.Object, "data")
	return data
}

func (f *fixture) expect(requests string, data ...string) {
	f.t.Helper()
	if got := fmt.Sprintf("%dr %dw", f.Reads, f.Writes); got != requests {
		f.t.Errorf("requests: %s, want %s", got, requests)
	}
	if got := slices.Sorted(maps.Keys(f.data())); !slices.Equal(got, data) {
		f.t.Errorf("data: %v, want %v", got, data)
	}
	f.Reads, f.Writes = 0, 0
}

func cr(name string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
}

func configMap(data ...string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	m := map[string]any{}
	for _, k := range data {
		m[k] = "user"
	}
	if len(m) > 0 {
		u.Object["data"] = m
	}
	return u
}

func TestSteadyStateCostsNothing(t *testing.T) {
	f := newFixture(t, setWire())
	f.Put(configMap("mine"))
	f.reconcile()
	f.expect("0r 0w", "mine")
	f.alive = []client.Object{cr("a"), cr("b")}
	f.reconcile()
	f.expect("1r 1w", "a", "b", "mine")
	for range 5 {
		f.reconcile()
	}
	f.expect("0r 0w", "a", "b", "mine")
	if len(f.reports) != 2 {
		t.Errorf("reports are made on change only, got %v", f.reports)
	}
	f.alive = []client.Object{cr("b")}
	f.reconcile()
	f.expect("1r 1w", "b", "mine")
	f.alive = nil
	f.reconcile()
	f.expect("1r 1w", "mine")
	if u := f.Object("ns", "target"); len(u.GetAnnotations()) != 0 {
		t.Errorf("annotations stay behind: %v", u.GetAnnotations())
	}
	if len(f.reported["CR/b"]) != 0 {
		t.Errorf("an outcome stays reported: %v", f.reported)
	}
}

func TestTakesOutOnlyWhatItRecorded(t *testing.T) {
	f := newFixture(t, setWire())
	f.Put(configMap("a"))
	f.alive = []client.Object{cr("a")}
	f.reconcile()
	f.reconcile()
	f.alive = nil
	f.reconcile()
	if _, there := f.data()["a"]; !there {
		t.Error("the user's own key was taken out")
	}
}

func TestReadsItsOwnWrites(t *testing.T) {
	f := newFixture(t, setWire())
	f.Put(configMap())
	f.Hold()
	f.alive = []client.Object{cr("a")}
	f.reconcile()
	f.expect("1r 1w", "a")
	f.reconcile()
	f.expect("0r 0w", "a")
	f.Release()
	u := f.Object("ns", "target")
	unstructured.RemoveNestedField(u.Object, "data")
	f.Put(u)
	f.reconcile()
	f.expect("1r 1w", "a")
}

func TestConflictIsTriedAgainAtOnce(t *testing.T) {
	f := newFixture(t, setWire())
	f.Put(configMap())
	f.alive = []client.Object{cr("a")}
	f.Fail = func(verb string, _ types.NamespacedName) error {
		if verb == "update" {
			f.Fail = nil
			u := f.Object("ns", "target")
			_ = unstructured.SetNestedField(u.Object, "user", "data", "late")
			f.Put(u)
		}
		return nil
	}
	if after := f.reconcile(); after <= 0 || after > time.Second {
		t.Errorf("requeued after %v", after)
	}
	f.expect("1r 1w", "late")
	f.reconcile()
	f.expect("1r 1w", "a", "late")
}

func TestLeavesWhatIsUnknownOrGoing(t *testing.T) {
	f := newFixture(t, setWire())
	f.Put(configMap())
	f.alive = []client.Object{cr("a")}
	f.reconcile()
	f.alive, f.unknown = nil, wiring.ErrUnknown
	f.Reads, f.Writes = 0, 0
	f.reconcile()
	f.expect("0r 0w", "a")
	f.unknown = nil
	u := f.Object("ns", "target")
	now := metav1.Now()
	u.SetDeletionTimestamp(&now)
	f.Put(u)
	f.reconcile()
	f.expect("0r 0w", "a")
	f.Drop("ns", "target")
	f.reconcile()
	f.reconcile()
	if f.Reads != 1 || f.Writes != 0 {
		t.Errorf("%d reads, %d writes for an object that is gone", f.Reads, f.Writes)
	}
}

func TestRefusalIsReportedAndRetried(t *testing.T) {
	f := newFixture(t, setWire())
	f.Put(configMap())
	f.alive = []client.Object{cr("a")}
	f.Fail = func(verb string, _ types.NamespacedName) error {
		if verb == "update" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "target", errors.New("no right"))
		}
		return nil
	}
	if _, err := f.r.Reconcile(context.Background(), key); err == nil {
		t.Fatal("a refusal must be retried with backoff")
	}
	if o := f.reported["CR/a"]; len(o) != 1 || o[0].Wired || o[0].Reason != wiring.ReasonRefused {
		t.Errorf("reported %+v", o)
	}
	f.Fail, f.Reads, f.Writes = nil, 0, 0
	u := f.Object("ns", "target")
	u.SetGeneration(1)
	f.Put(u)
	if f.reconcile(); f.data() == nil {
		t.Error("it is not tried again when the object is another one")
	}
	if o := f.reported["CR/a"]; len(o) != 1 || !o[0].Wired {
		t.Errorf("reported %+v", o)
	}
}

// TestARefusalIsNotTriedByEveryEvent: an object may change its status each second, which is no reason to ask again.
func TestARefusalIsNotTriedByEveryEvent(t *testing.T) {
	f := newFixture(t, setWire())
	u := configMap()
	u.SetGeneration(1)
	f.Put(u)
	f.alive = []client.Object{cr("a")}
	f.Fail = func(verb string, _ types.NamespacedName) error {
		if verb == "update" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "target", errors.New("no right"))
		}
		return nil
	}
	attempts := 0
	for range 60 * 10 {
		if _, err := f.r.Reconcile(context.Background(), key); err != nil {
			attempts++
		}
		if o := f.reported["CR/a"]; len(o) != 1 || o[0].Wired || o[0].Reason != wiring.ReasonRefused {
			t.Fatalf("reported %+v", o)
		}
		f.clock.SetTime(f.clock.Now().Add(time.Second))
	}
	if attempts < 5 || attempts > 11 || f.Reads > 11 {
		t.Errorf("%d attempts and %d reads within ten minutes", attempts, f.Reads)
	}
}

// TestInvariant18AnEntryThatIsTakenBackIsWrittenLessAndLessOften: each attempt may roll pods, also one that takes an entry out which somebody
// brings again, such as a pipeline with a manifest that was exported with it.
func TestInvariant18AnEntryThatIsTakenBackIsWrittenLessAndLessOften(t *testing.T) {
	for name, c := range map[string]struct {
		alive []client.Object
		// again is what the rival has the object be each time.
		again func(wired *unstructured.Unstructured) *unstructured.Unstructured
	}{
		"added":     {[]client.Object{cr("a")}, func(*unstructured.Unstructured) *unstructured.Unstructured { return configMap() }},
		"taken out": {nil, func(wired *unstructured.Unstructured) *unstructured.Unstructured { return wired.DeepCopy() }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, setWire())
			f.Put(configMap())
			f.alive = []client.Object{cr("a")}
			f.reconcile()
			wired := f.Object("ns", "target").DeepCopy()
			f.Put(c.again(wired))
			f.alive, f.Reads, f.Writes = c.alive, 0, 0
			for range 24 * 60 {
				before := f.Writes
				if f.reconcile(); f.Writes > before {
					f.Put(c.again(wired))
				}
				f.clock.SetTime(f.clock.Now().Add(time.Minute))
			}
			// Three or four at once, and then after 8, 16, 32, 64, 128, 256 and 360 minutes, and up to a quarter more of each.
			if f.Writes < 3+6 || f.Writes > 4+8 || f.Reads > f.Writes {
				t.Errorf("%d writes and %d reads within a day", f.Writes, f.Reads)
			}
		})
	}
}

func TestEditErrorKeepsTheRecord(t *testing.T) {
	f := newFixture(t, setWire())
	f.Put(configMap())
	f.alive = []client.Object{cr("a")}
	f.reconcile()
	u := f.Object("ns", "target")
	u.Object["broken"] = "yes"
	f.Put(u)
	f.alive = []client.Object{cr("a"), cr("b")}
	f.Reads, f.Writes = 0, 0
	f.reconcile()
	f.expect("0r 0w", "a")
	if o := f.reported["CR/b"]; len(o) != 1 || o[0].Reason != wiring.ReasonNotEditable || !strings.Contains(o[0].Message, "broken") {
		t.Errorf("reported %+v", o)
	}
	delete(u.Object, "broken")
	f.Put(u)
	f.alive = nil
	f.reconcile()
	f.expect("1r 1w")
}

func TestDamagedRecordIsTreatedAsNone(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON": "{", "wrong type": `{"entries":"x"}`, "no owner": `{"entries":[{"value":"x"}]}`,
		"too long": `{"entries":[]}` + strings.Repeat(" ", 65<<10),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, setWire())
			u := configMap("x")
			u.SetAnnotations(map[string]string{keeper.WiringAnnotation: text})
			f.Put(u)
			f.reconcile()
			f.expect("0r 0w", "x")
			f.alive = []client.Object{cr("x")}
			f.reconcile()
			f.expect("0r 0w", "x")
			if o := f.reported["CR/x"]; len(o) != 1 || !strings.Contains(o[0].Message, keeper.WiringAnnotation) {
				t.Errorf("reported %+v", o)
			}
			f.alive = []client.Object{cr("x"), cr("y")}
			f.reconcile()
			f.alive = nil
			f.reconcile()
			f.expect("2r 2w", "x")
		})
	}
}

func TestConflictingEntryIsCeded(t *testing.T) {
	f := newFixture(t, setWire())
	f.Put(configMap())
	f.alive = []client.Object{cr("a")}
	undo := func() {
		u := f.Object("ns", "target")
		unstructured.RemoveNestedField(u.Object, "data")
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "rival", Time: &metav1.Time{Time: f.clock.Now()}}})
		f.Put(u)
	}
	for range 4 {
		if after := f.reconcile(); after != 0 {
			t.Fatalf("ceded too early: %v", after)
		}
		undo()
	}
	f.Reads, f.Writes = 0, 0
	after := f.reconcile()
	f.expect("0r 0w")
	if after <= 0 || after > 10*time.Minute {
		t.Errorf("requeued after %v", after)
	}
	if o := f.reported["CR/a"]; len(o) != 1 || o[0].Wired || o[0].Reason != wiring.ReasonCeded || !strings.Contains(o[0].Message, "rival") {
		t.Errorf("reported %+v", o)
	}
	f.clock.SetTime(f.clock.Now().Add(after))
	f.reconcile()
	f.expect("1r 1w", "a")
}

func creating() wiring.Wire {
	wire := setWire()
	wire.CreateName = key.Name
	return wire
}

func TestCreatesAndDeletesUnchanged(t *testing.T) {
	f := newFixture(t, creating())
	f.reconcile()
	f.expect("0r 0w")
	f.alive = []client.Object{cr("a")}
	f.Hold()
	f.reconcile()
	f.expect("0r 1w", "a")
	f.reconcile()
	f.expect("0r 0w", "a")
	f.Release()
	f.alive = []client.Object{cr("a"), cr("b")}
	f.reconcile()
	f.expect("1r 1w", "a", "b")
	f.alive = nil
	f.reconcile()
	if f.Object("ns", "target") != nil {
		t.Error("it stays although MLKeeper created it and nobody changed it")
	}
	f.reconcile()
	f.expect("1r 1w")
}

func TestNothingIsCreatedOnTheWordOfAnIncompleteCache(t *testing.T) {
	f := newFixture(t, creating())
	f.alive = []client.Object{cr("a")}
	f.Unsynced = true
	if after := f.reconcile(); after <= 0 {
		t.Error("nothing would look again")
	}
	f.expect("0r 0w")
	f.Unsynced = false
	f.reconcile()
	f.expect("0r 1w", "a")
}

func TestCreatedAndChangedSinceStays(t *testing.T) {
	f := newFixture(t, creating())
	f.alive = []client.Object{cr("a")}
	f.reconcile()
	u := f.Object("ns", "target")
	_ = unstructured.SetNestedField(u.Object, "user", "data", "mine")
	f.Put(u)
	f.alive = nil
	f.reconcile()
	f.expect("1r 2w", "mine")
	if u := f.Object("ns", "target"); len(u.GetAnnotations()) != 0 {
		t.Errorf("annotations stay behind: %v", u.GetAnnotations())
	}
}

func TestDeleteSparesALateChange(t *testing.T) {
	f := newFixture(t, creating())
	f.alive = []client.Object{cr("a")}
	f.reconcile()
	f.alive = nil
	f.Fail = func(verb string, _ types.NamespacedName) error {
		if verb == "delete" {
			f.Fail = nil
			u := f.Object("ns", "target")
			_ = unstructured.SetNestedField(u.Object, "user", "data", "late")
			f.Put(u)
		}
		return nil
	}
	if after := f.reconcile(); after <= 0 {
		t.Error("a failed precondition must be tried again")
	}
	f.reconcile()
	if got := f.data(); len(got) != 1 || got["late"] != "user" {
		t.Errorf("data %v", got)
	}
}

func TestTerminatingNamespaceIsLeft(t *testing.T) {
	f := newFixture(t, creating())
	f.alive = []client.Object{cr("a")}
	f.Fail = func(string, types.NamespacedName) error {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "target", errors.New("terminating"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return err
	}
	if after := f.reconcile(); after != 0 {
		t.Errorf("requeued after %v", after)
	}
}

func TestLostLabelTakesEntriesOut(t *testing.T) {
	wire := setWire()
	wire.LabelSelector = "wire=me"
	f := newFixture(t, wire)
	u := configMap("mine")
	u.SetLabels(map[string]string{"wire": "me"})
	f.Put(u)
	f.alive = []client.Object{cr("a")}
	f.reconcile()
	f.reconcile()
	u = f.Object("ns", "target")
	u.SetLabels(nil)
	f.Put(u)
	f.Hold()
	f.reconcile()
	f.expect("2r 2w", "mine")
	f.reconcile()
	f.expect("0r 0w", "mine")
}

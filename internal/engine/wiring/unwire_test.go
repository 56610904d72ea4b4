package wiring_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/wiring"
)

func mapperOf(kinds ...schema.GroupVersionKind) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, k := range kinds {
		m.Add(k, meta.RESTScopeNamespace)
	}
	return m
}

func (f *fixture) unwire(wire wiring.Wire, kinds ...schema.GroupVersionKind) (string, error) {
	var said []string
	err := wiring.Unwire(context.Background(), f.Cluster, mapperOf(kinds...), []wiring.Wire{wire}, func(s string) { said = append(said, s) })
	return strings.Join(said, "\n"), err
}

func TestUnwireGoesOverAllPages(t *testing.T) {
	wire := setWire()
	f := newFixture(t, wire)
	f.PageSize = 2
	f.alive = []client.Object{cr("a")}
	names := []string{"n1", "n2", "n3", "n4", "n5"}
	for _, n := range names {
		u := configMap("mine")
		u.SetName(n)
		f.Put(u)
		if _, err := f.r.Reconcile(context.Background(), types.NamespacedName{Namespace: "ns", Name: n}); err != nil {
			t.Fatal(err)
		}
	}
	f.Put(configMap("untouched"))
	f.Writes = 0
	conflicts := 1
	f.Fail = func(verb string, k types.NamespacedName) error {
		if verb == "update" && k.Name == "n3" && conflicts > 0 {
			conflicts--
			f.Put(f.Object("ns", "n3"))
		}
		return nil
	}
	said, err := f.unwire(wire, wire.GVK)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if u := f.Object("ns", n); len(u.GetAnnotations()) != 0 || u.Object["data"].(map[string]any)["a"] != nil {
			t.Errorf("%s keeps entries: %v", n, u.Object)
		}
		if !strings.Contains(said, "ns/"+n+": took out 1") {
			t.Errorf("nothing is said about %s:\n%s", n, said)
		}
	}
	if f.Writes != len(names)+1 {
		t.Errorf("%d writes", f.Writes)
	}
	if said, err := f.unwire(wire, wire.GVK); err != nil || said != "" {
		t.Errorf("the second run is not idle: %q, %v", said, err)
	}
}

func TestUnwireDeletesWhatMLKeeperCreated(t *testing.T) {
	f := newFixture(t, creating())
	f.alive = []client.Object{cr("a")}
	f.reconcile()
	if _, err := f.unwire(creating(), creating().GVK); err != nil || f.Object("ns", "target") != nil {
		t.Errorf("it stays (%v)", err)
	}
}

func TestUnwireGoesOnAfterAFailure(t *testing.T) {
	wire := setWire()
	f := newFixture(t, wire)
	f.alive = []client.Object{cr("a")}
	f.Put(configMap())
	f.reconcile()
	damaged := configMap()
	damaged.SetName("damaged")
	damaged.SetAnnotations(map[string]string{keeper.WiringAnnotation: "{"})
	f.Put(damaged)
	broken := f.Object("ns", "target")
	broken.SetName("broken")
	broken.Object["broken"] = "yes"
	f.Put(broken)
	going := f.Object("ns", "target")
	going.SetName("going")
	now := metav1.Now()
	going.SetDeletionTimestamp(&now)
	f.Put(going)
	said, err := f.unwire(wire, wire.GVK)
	if err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "it is broken") {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(said, "going: is being deleted") || len(f.data()) != 0 {
		t.Errorf("said %q, data %v", said, f.data())
	}
}

func TestUnwireWithoutTheKind(t *testing.T) {
	f := newFixture(t, setWire())
	f.Fail = func(string, types.NamespacedName) error { return errors.New("must not be asked") }
	if said, err := f.unwire(setWire()); err != nil || !strings.Contains(said, "does not serve") {
		t.Errorf("said %q, %v", said, err)
	}
}

var _ wiring.Source = (*fixture)(nil)

func TestUnservedKindRests(t *testing.T) {
	f := newFixture(t, setWire())
	r := wiring.NewReconciler(setWire(), wiring.Deps{
		Client: f.Cluster, Source: f.Cluster,
		Resource: func(schema.GroupVersionKind) (schema.GroupVersionResource, bool) {
			return schema.GroupVersionResource{}, false
		},
		Alive: func(string, string) ([]client.Object, error) { t.Error("asked"); return nil, nil },
	})
	f.Put(&unstructured.Unstructured{Object: configMap().Object})
	if after, err := r.Reconcile(context.Background(), key); after != 0 || err != nil {
		t.Errorf("%v, %v", after, err)
	}
}

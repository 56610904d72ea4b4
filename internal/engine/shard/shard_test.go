package shard

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/watch"
)

// fakeNamespaces are the Namespaces as the informer manager has them.
type fakeNamespaces struct {
	objects map[string]metav1.Object
	synced  bool
	notify  watch.Notify
}

func (f *fakeNamespaces) WatchResources(
	_ schema.GroupVersionKind, _ func(*unstructured.Unstructured) (metav1.Object, error), notify watch.Notify, _ func(metav1.Object) string,
) {
	f.notify = notify
}

func (f *fakeNamespaces) Resource(_ schema.GroupKind, _, name string) (metav1.Object, bool) {
	o, ok := f.objects[name]
	return o, ok
}

func (f *fakeNamespaces) ResourceSynced(schema.GroupKind) bool { return f.synced }

func namespace(name, shard string) metav1.Object {
	return &metav1.ObjectMeta{Name: name, Labels: map[string]string{"shard": shard}}
}

func TestAManagerTearsDownWhatIsInItsNamespacesOnly(t *testing.T) {
	for _, c := range []struct {
		only      []string
		namespace string
		want      bool
	}{
		{nil, "a", true},
		{[]string{"a", "b"}, "b", true},
		{[]string{"a", "b"}, "c", false},
		{[]string{"a"}, "", true},
	} {
		s := New(nil, c.only, nil, nil)
		if got := s.MayFinalize(c.namespace); got != c.want {
			t.Errorf("of %v, in %q: %v", c.only, c.namespace, got)
		}
	}
}

func TestALabelOfTheNamespaceDecidesTheShard(t *testing.T) {
	namespaces := &fakeNamespaces{objects: map[string]metav1.Object{"mine": namespace("mine", "1"), "other": namespace("other", "2")}}
	s := New(labels.SelectorFromSet(labels.Set{"shard": "1"}), nil, namespaces, func(string) {})
	for _, c := range []struct {
		name, namespace      string
		own                  map[string]string
		synced               bool
		contained, tearsDown bool
	}{
		{name: "a namespace of this shard", namespace: "mine", contained: true, tearsDown: true},
		{name: "a namespace of another shard", namespace: "other", synced: true},
		{name: "a namespace that is not listed yet", namespace: "gone"},
		{name: "a namespace that is gone", namespace: "gone", synced: true, tearsDown: true},
		{name: "a cluster-scoped resource of this shard", own: map[string]string{"shard": "1"}, contained: true, tearsDown: true},
		{name: "a cluster-scoped resource of another shard", own: map[string]string{"shard": "2"}, tearsDown: true},
	} {
		namespaces.synced = c.synced
		if got := s.Contains(c.namespace, c.own); got != c.contained {
			t.Errorf("%s: contained %v", c.name, got)
		}
		if got := s.MayFinalize(c.namespace); got != c.tearsDown {
			t.Errorf("%s: torn down %v", c.name, got)
		}
	}
}

func TestOnlyChangedLabelsChangeTheShard(t *testing.T) {
	namespaces := &fakeNamespaces{}
	var changed []string
	New(labels.Everything(), nil, namespaces, func(name string) { changed = append(changed, name) })
	namespaces.notify(nil, namespace("created", "1"), true)
	namespaces.notify(namespace("same", "1"), namespace("same", "1"), false)
	namespaces.notify(namespace("moved", "1"), namespace("moved", "2"), false)
	namespaces.notify(namespace("deleted", "1"), nil, false)
	if want := []string{"created", "moved", "deleted"}; !slices.Equal(changed, want) {
		t.Errorf("changed %v, want %v", changed, want)
	}
	unsharded := &fakeNamespaces{}
	if New(nil, nil, unsharded, nil); unsharded.notify != nil {
		t.Error("Namespaces are watched without a selector")
	}
}

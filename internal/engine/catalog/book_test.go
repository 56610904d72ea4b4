package catalog

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var widget = schema.GroupKind{Group: "example.com", Kind: "Widget"}

func one(gk schema.GroupKind, versions ...string) map[schema.GroupKind]api {
	return map[schema.GroupKind]api{gk: {resource: "widgets", namespaced: true, versions: versions}}
}

func TestBookMergesSources(t *testing.T) {
	b := newBook()
	v1, v2 := origin{rank: fromService, name: "v1.example.com"}, origin{rank: fromService, name: "v2.example.com"}
	if got := b.put(v1, one(widget, "v1"), nil); !slices.Equal(got, []schema.GroupKind{widget}) {
		t.Fatalf("put v1 changed %v", got)
	}
	if got := b.put(v1, one(widget, "v1"), nil); len(got) != 0 {
		t.Fatalf("putting the same again changed %v", got)
	}
	b.put(v2, one(widget, "v2"), nil)
	if got := b.versions(widget); !slices.Equal(got, []string{"v2", "v1"}) {
		t.Fatalf("versions = %v", got)
	}
	b.put(v1, nil, nil)
	if _, _, ok := b.lookup(widget.WithVersion("v1")); ok {
		t.Fatal("v1 is still served")
	}
	m, _, ok := b.lookup(widget.WithVersion("v2"))
	if !ok || m.Resource.String() != "example.com/v2, Resource=widgets" || !m.Namespaced {
		t.Fatalf("lookup v2 = %v, %v", m, ok)
	}
	b.put(v2, nil, nil)
	if len(b.kinds) != 0 || len(b.bySource) != 0 {
		t.Fatalf("something is left: %+v", b)
	}
}

func TestBookKeepsSilentGroups(t *testing.T) {
	b := newBook()
	b.put(discovered, one(widget, "v1"), nil)
	keep := func(gk schema.GroupKind) bool { return gk == widget }
	if got := b.put(discovered, nil, keep); len(got) != 0 {
		t.Fatalf("changed %v", got)
	}
	// The kind must still belong to the source, or it could never go.
	if got := b.put(discovered, nil, nil); len(got) != 1 || len(b.kinds) != 0 {
		t.Fatalf("changed %v, left %v", got, b.kinds)
	}
}

func TestBookDisowns(t *testing.T) {
	b := newBook()
	b.put(discovered, one(widget, "v1", "v2"), nil)
	b.disown(func(_ schema.GroupKind, v string) bool { return v == "v1" })
	if got := b.versions(widget); !slices.Equal(got, []string{"v2"}) {
		t.Fatalf("versions = %v", got)
	}
	b.disown(func(gk schema.GroupKind, _ string) bool { return gk == widget })
	if len(b.kinds) != 0 || len(b.bySource[discovered]) != 0 {
		t.Fatalf("left %v, %v", b.kinds, b.bySource)
	}
}

func TestCollectLeavesOutSubresources(t *testing.T) {
	lists := []*metav1.APIResourceList{
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
			{Name: "deployments", Kind: "Deployment", Namespaced: true},
			{Name: "deployments/scale", Kind: "Scale", Namespaced: true},
		}},
		{GroupVersion: "apps/v1beta1", APIResources: []metav1.APIResource{
			{Name: "deployments", Kind: "Deployment", Namespaced: true},
		}},
	}
	got := collect(lists, nil, nil)
	d := got[schema.GroupKind{Group: "apps", Kind: "Deployment"}]
	if len(got) != 1 || !slices.Equal(d.versions, []string{"v1", "v1beta1"}) {
		t.Fatalf("collected %v", got)
	}
}

func TestReduceSurvivesAnything(t *testing.T) {
	for _, content := range []map[string]any{
		{},
		{"spec": "x"},
		{"spec": map[string]any{"versions": "x"}, "status": []any{1}},
		{"spec": map[string]any{"versions": []any{1, map[string]any{"served": "x"}}, "service": "x"}},
		{"status": map[string]any{"conditions": []any{nil, map[string]any{"type": 1}}}},
	} {
		for _, reduce := range []func(any) (any, error){reduceDefinition, reduceService} {
			once, err := reduce(&unstructured.Unstructured{Object: content})
			if err != nil {
				t.Fatalf("%v: %v", content, err)
			}
			if twice, _ := reduce(once); twice != once {
				t.Fatalf("%v: reduced twice", content)
			}
		}
	}
}

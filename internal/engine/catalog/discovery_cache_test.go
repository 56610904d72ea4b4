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

func TestDiscoveryCacheMergesSources(t *testing.T) {
	dc := newDiscoveryCache()
	v1, v2 := apiSource{rank: sourceAPIService, name: "v1.example.com"}, apiSource{rank: sourceAPIService, name: "v2.example.com"}
	if got := dc.replace(v1, one(widget, "v1"), nil); !slices.Equal(got, []schema.GroupKind{widget}) {
		t.Fatalf("put v1 changed %v", got)
	}
	if got := dc.replace(v1, one(widget, "v1"), nil); len(got) != 0 {
		t.Fatalf("putting the same again changed %v", got)
	}
	dc.replace(v2, one(widget, "v2"), nil)
	if got := dc.versions(widget); !slices.Equal(got, []string{"v2", "v1"}) {
		t.Fatalf("versions = %v", got)
	}
	dc.replace(v1, nil, nil)
	if _, _, ok := dc.lookup(widget.WithVersion("v1")); ok {
		t.Fatal("v1 is still served")
	}
	m, _, ok := dc.lookup(widget.WithVersion("v2"))
	if !ok || m.Resource.String() != "example.com/v2, Resource=widgets" || !m.Namespaced {
		t.Fatalf("lookup v2 = %v, %v", m, ok)
	}
	dc.replace(v2, nil, nil)
	if len(dc.kinds) != 0 || len(dc.bySource) != 0 {
		t.Fatalf("something is left: %+v", dc)
	}
}

func TestDiscoveryCacheKeepsFailedGroups(t *testing.T) {
	dc := newDiscoveryCache()
	dc.replace(discoverySource, one(widget, "v1"), nil)
	keep := func(gk schema.GroupKind) bool { return gk == widget }
	if got := dc.replace(discoverySource, nil, keep); len(got) != 0 {
		t.Fatalf("changed %v", got)
	}
	// The kind must still belong to the source, or it could never be removed.
	if got := dc.replace(discoverySource, nil, nil); len(got) != 1 || len(dc.kinds) != 0 {
		t.Fatalf("changed %v, left %v", got, dc.kinds)
	}
}

func TestDiscoveryCacheRemovesVersions(t *testing.T) {
	dc := newDiscoveryCache()
	dc.replace(discoverySource, one(widget, "v1", "v2"), nil)
	dc.removeVersions(func(_ schema.GroupKind, v string) bool { return v == "v1" })
	if got := dc.versions(widget); !slices.Equal(got, []string{"v2"}) {
		t.Fatalf("versions = %v", got)
	}
	dc.removeVersions(func(gk schema.GroupKind, _ string) bool { return gk == widget })
	if len(dc.kinds) != 0 || len(dc.bySource[discoverySource]) != 0 {
		t.Fatalf("left %v, %v", dc.kinds, dc.bySource)
	}
}

func TestResourceListsWithoutSubresources(t *testing.T) {
	lists := []*metav1.APIResourceList{
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
			{Name: "deployments", Kind: "Deployment", Namespaced: true},
			{Name: "deployments/scale", Kind: "Scale", Namespaced: true},
		}},
		{GroupVersion: "apps/v1beta1", APIResources: []metav1.APIResource{
			{Name: "deployments", Kind: "Deployment", Namespaced: true},
		}},
	}
	got := fromResourceLists(lists, nil, nil)
	d := got[schema.GroupKind{Group: "apps", Kind: "Deployment"}]
	if len(got) != 1 || !slices.Equal(d.versions, []string{"v1", "v1beta1"}) {
		t.Fatalf("collected %v", got)
	}
}

func TestTransformsNeverFail(t *testing.T) {
	for _, content := range []map[string]any{
		{},
		{"spec": "x"},
		{"spec": map[string]any{"versions": "x"}, "status": []any{1}},
		{"spec": map[string]any{"versions": []any{1, map[string]any{"served": "x"}}, "service": "x"}},
		{"status": map[string]any{"conditions": []any{nil, map[string]any{"type": 1}}}},
	} {
		for _, transform := range []func(any) (any, error){transformCRD, transformAPIService} {
			once, err := transform(&unstructured.Unstructured{Object: content})
			if err != nil {
				t.Fatalf("%v: %v", content, err)
			}
			if twice, _ := transform(once); twice != once {
				t.Fatalf("%v: reduced twice", content)
			}
		}
	}
}

package reader

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/watch"
)

func secretRef(i int) watch.Ref {
	return watch.Ref{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Namespace: "ns", Name: fmt.Sprint(i)}
}

func ofSize(bytes int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"k": strings.Repeat("x", bytes)}}}
	u.SetUID("u")
	u.SetResourceVersion("1")
	return u
}

func TestContentsAreBounded(t *testing.T) {
	var c contents
	for i := range 100 {
		c.put("", secretRef(i), ofSize(1<<20))
		if c.bytes > hardLimit {
			t.Fatalf("%d bytes are kept", c.bytes)
		}
	}
	if c.get("", secretRef(99), "u", "1") == nil {
		t.Error("the last one was not kept")
	}
	for i := range 100 {
		c.drop(secretRef(i))
	}
	if c.bytes != 0 || len(c.by) != 0 {
		t.Errorf("%d bytes of %d objects are left", c.bytes, len(c.by))
	}
}

// TestANamespaceEvictsItsOwnContents: who refers to many large objects has none of another namespace read again.
func TestANamespaceEvictsItsOwnContents(t *testing.T) {
	var c contents
	of := func(namespace string, i int) watch.Ref {
		ref := secretRef(i)
		ref.Namespace = namespace
		return ref
	}
	for i := range 10 {
		c.put("", of("quiet", i), ofSize(100<<10))
	}
	for i := range 200 {
		c.put("", of("large", i), ofSize(1<<20))
	}
	for i := range 10 {
		if c.get("", of("quiet", i), "u", "1") == nil {
			t.Errorf("content %d of another namespace was dropped", i)
		}
	}
	if c.get("", of("large", 199), "u", "1") == nil || c.bytes > hardLimit {
		t.Errorf("the last one was not kept, or too much: %d bytes", c.bytes)
	}
	for i := range 200 {
		c.drop(of("large", i))
		c.drop(of("quiet", i))
	}
	if len(c.of) != 0 || c.bytes != 0 {
		t.Errorf("%v are left", c.of)
	}
}

func TestContentsOfReadyCustomResourcesAreEvictedAboveTheSoftLimit(t *testing.T) {
	var c contents
	refs := []watch.Ref{secretRef(0), secretRef(1)}
	for _, ref := range refs {
		c.put("", ref, ofSize(100))
	}
	c.evict(refs)
	if len(c.by) != 2 {
		t.Fatal("a small cluster would have to read again")
	}
	for i := 2; i < 20; i++ {
		c.put("", secretRef(i), ofSize(1<<18))
	}
	c.evict(refs)
	if c.get("", refs[0], "u", "1") != nil || c.get("", secretRef(5), "u", "1") == nil {
		t.Error("the contents of another custom resource were evicted")
	}
}

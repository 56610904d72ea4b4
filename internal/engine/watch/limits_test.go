package watch

import (
	"fmt"
	"testing"
)

// TestANamespaceHasFewOtherNamespacesWatched: a user may invent names of namespaces, and each costs a watch.
func TestANamespaceHasFewOtherNamespacesWatched(t *testing.T) {
	m := &Manager{}
	m.refs = newReferences(m)
	watched := func(from string, i int, to string) bool {
		return m.refs.add(Referrer{Namespace: from, Name: fmt.Sprint(i)}, Ref{GVK: services, Namespace: to, Name: "gateway"}) != nil
	}
	for i := range maxForeignNamespaces {
		if !watched("tenant", i, fmt.Sprint("invented-", i)) {
			t.Fatalf("namespace %d is refused", i)
		}
	}
	if watched("tenant", 100, "one-more") || len(m.refs.watches) != maxForeignNamespaces {
		t.Errorf("one more is watched: %d watches", len(m.refs.watches))
	}
	for name, ok := range map[string]bool{
		"its own":              watched("tenant", 101, "tenant"),
		"one of those":         watched("tenant", 102, "invented-3"),
		"of another tenant":    watched("other", 1, "one-more"),
		"of the administrator": watched("", 1, "yet-one-more"),
	} {
		if !ok {
			t.Errorf("%s is refused", name)
		}
	}
	m.ReleaseReferences(Referrer{Namespace: "tenant", Name: "0"})
	if !watched("tenant", 100, "one-more") {
		t.Error("what was released still counts")
	}
}

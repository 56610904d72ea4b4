package invariants

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/test/bundle"
)

func TestInvariant17UndecodableResourceWedgesNobodyAndIsTold(t *testing.T) {
	b := open(t, options{})
	b.apply("bad", one(configMap(b.ns, "kept", "v")))
	b.ready("bad")
	uid := b.must(configMapGVK, b.ns, "kept").GetUID()
	b.patch(bundleGVK, b.ns, "bad", `{"spec":{"stages":{"not":"a list"}}}`)
	got := b.condition("bad", "Stalled", metav1.ConditionTrue, "InvalidSpec")
	if !strings.Contains(got.Message, "spec") {
		t.Errorf("the message does not name the field: %s", got.Message)
	}
	b.apply("good", one(configMap(b.ns, "one", "v")))
	b.ready("good")
	b.quiet()
	// The same after a restart, when the first list holds it.
	version := b.bundle("bad").ResourceVersion
	b.restart()
	b.apply("good", one(configMap(b.ns, "one", "changed")))
	b.value("one", "changed")
	b.ready("good")
	if b.bundle("bad").ResourceVersion != version {
		t.Error("the undecodable one is written again and again")
	}
	if b.must(configMapGVK, b.ns, "kept").GetUID() != uid {
		t.Error("its child was torn down")
	}
	b.patch(bundleGVK, b.ns, "bad", `{"spec":{"stages":null}}`)
	b.gone(configMapGVK, b.ns, "kept")
	b.ready("bad")
}

// TestInvariant17WhatExceedsTheMemoryOfANamespaceIsToldAndReadLater: the large custom resources of a namespace have a part of the cache. One more is
// Stalled and loses nothing, and is reconciled once there is room.
func TestInvariant17WhatExceedsTheMemoryOfANamespaceIsToldAndReadLater(t *testing.T) {
	b := open(t, options{})
	b.apply("more", one(configMap(b.ns, "kept", "v")))
	b.ready("more")
	uid := b.must(configMapGVK, b.ns, "kept").GetUID()
	large := bundle.Spec{Wire: strings.Repeat("x", 1<<20)}
	for i := range 34 {
		b.apply(fmt.Sprint("large-", i), large)
	}
	b.ready("large-33")
	spec := one(configMap(b.ns, "kept", "v"))
	spec.Wire = large.Wire
	b.apply("more", spec)
	got := b.condition("more", "Stalled", metav1.ConditionTrue, "TooLarge")
	if !strings.Contains(got.Message, b.ns) || !strings.Contains(got.Message, "move some into another namespace") {
		t.Errorf("the message names neither the namespace nor the remedy: %s", got.Message)
	}
	b.apply("small", one(configMap(b.ns, "one", "v")))
	b.ready("small")
	if b.must(configMapGVK, b.ns, "kept").GetUID() != uid {
		t.Error("its child was torn down")
	}
	b.delete(bundle.GVK, b.ns, "large-0")
	b.ready("more")
	b.quiet()
}

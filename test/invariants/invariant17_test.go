package invariants

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

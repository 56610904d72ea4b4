package invariants

import (
	"testing"
)

func TestInvariant02NoFinalizersAndTheGarbageCollectorCleansUpWithoutUs(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(configMap(b.ns, "one", "v"), deployment(b.ns, "two", false)))
	b.ready("b")
	bundle := b.bundle("b")
	if len(bundle.Finalizers) > 0 {
		t.Errorf("the custom resource has finalizers: %v", bundle.Finalizers)
	}
	for name, u := range map[string]map[string]any{
		"one": b.must(configMapGVK, b.ns, "one").Object, "two": b.must(deploymentGVK, b.ns, "two").Object,
	} {
		meta := u["metadata"].(map[string]any)
		if meta["finalizers"] != nil {
			t.Errorf("%s has finalizers: %v", name, meta["finalizers"])
		}
		refs, _ := meta["ownerReferences"].([]any)
		if len(refs) != 1 {
			t.Fatalf("%s has owner references %v", name, refs)
		}
		ref := refs[0].(map[string]any)
		if ref["uid"] != string(bundle.UID) || ref["controller"] != true || ref["blockOwnerDeletion"] != nil ||
			ref["apiVersion"] != "test.mlkeeper.dev/v1" {
			t.Errorf("%s is owned by %v", name, ref)
		}
	}
	b.op.Stop()
	b.delete(bundleGVK, b.ns, "b")
	b.gone(bundleGVK, b.ns, "b")
	b.gone(configMapGVK, b.ns, "one")
	b.gone(deploymentGVK, b.ns, "two")
}

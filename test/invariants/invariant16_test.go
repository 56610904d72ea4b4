package invariants

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/digestkey"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
)

// With the source down nothing is torn down and nothing is forgotten, over a restart too. With the source back nothing that is
// right is written.
func TestInvariant16WhatWasRenderedLastStays(t *testing.T) {
	var down atomic.Bool
	b := open(t, options{System: &bundle.System{Source: func() error {
		if down.Load() {
			return errors.New("the source does not answer")
		}
		return nil
	}}})
	b.apply("b", one(configMap(b.ns, "one", "v"), configMap(b.ns, "two", "v")))
	b.ready("b")
	b.settle()
	b.op.Stop()
	down.Store(true)
	one := b.must(configMapGVK, b.ns, "one").GetUID()
	b.restart()
	b.condition("b", "Ready", metav1.ConditionFalse, "SourceUnavailable")
	// However often something else wakes it meanwhile, the source is looked at again soon after it is back.
	for i := range 20 {
		b.c.Kubectl(b, "annotate", "--overwrite", "configmap", "one", "-n", b.ns, fmt.Sprint("test.mlkeeper.dev/seen=", i))
	}
	cluster.Consistently(t, while, func() error {
		if u := b.must(configMapGVK, b.ns, "one"); u.GetUID() != one || u.GetDeletionTimestamp() != nil {
			return errors.New("a child was torn down")
		}
		return nil
	})
	if n := len(b.bundle("b").Status.Inventory.Entries); n != 2 {
		t.Errorf("%d children are remembered", n)
	}
	mark := b.journal.mark()
	down.Store(false)
	b.ready("b")
	if got := b.journal.writes(mark, "", b.ns+"/configmaps/one"); len(got) > 0 {
		t.Errorf("what was right was written:\n%s", lines(got))
	}
}

// Whoever may view a namespace reads its UIDs, annotations and statuses, and not its Secrets. With all of that he cannot tell whether a
// password is the one of a Secret.
func TestInvariant16NobodyCanTryPasswordsAgainstADigest(t *testing.T) {
	b := open(t, options{})
	data := map[string][]byte{"password": []byte("guess")}
	b.c.Apply(b, "{apiVersion: v1, kind: Secret, metadata: {name: credentials}, stringData: {password: guess}}\n", b.ns)
	spec := one(configMap(b.ns, "config", "v"), object(
		`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"rendered"},"data":{"password":"Z3Vlc3M="}}`, b.ns))
	spec.Secret = "credentials"
	b.apply("b", spec)
	b.ready("b")
	cr, config := b.bundle("b"), b.must(configMapGVK, b.ns, "config")
	ns := b.must(namespaceGVK, "", b.ns)
	applied := map[string]string{}
	for _, e := range cr.Status.Inventory.Entries {
		applied[e.Kind] = e.AppliedHash
	}
	shown, _, _ := unstructured.NestedString(config.Object, "data", "digest")
	if shown == "" || applied["Secret"] == "" {
		t.Fatalf("there is no digest of the Secret that is read, or of the one that is rendered: %q, %v", shown, applied)
	}
	// The reconstruction is right: whoever reads an object may read its hash on it.
	if got := hashOf(t, cr, config, nil); got != config.GetAnnotations()[keeper.AppliedHashAnnotation] {
		t.Fatalf("the hash of the ConfigMap is %s, and not %s", config.GetAnnotations()[keeper.AppliedHashAnnotation], got)
	}
	other := one(configMap(b.ns, "other", "v"))
	other.Secret = "credentials"
	b.apply("other", other)
	b.ready("other")
	if text, _, _ := unstructured.NestedString(b.must(configMapGVK, b.ns, "other").Object, "data", "digest"); text == shown {
		t.Error("two custom resources have the same digest: with a password of his own, one user can try it against the digest of another")
	}
	rendered := b.must(secretGVK, b.ns, "rendered")
	if hashOf(t, cr, rendered, nil) == applied["Secret"] {
		t.Error("the hash of the rendered Secret is not keyed")
	}
	for _, public := range []string{
		"", string(cr.UID), cr.Name, b.ns, string(ns.GetUID()), string(config.GetUID()), string(rendered.GetUID()), digestkey.Name,
	} {
		var key digest.Key
		copy(key[:], public)
		if key.Secrets(data) == shown || key.For(string(cr.UID)).Secrets(data) == shown {
			t.Errorf("the digest of the Secret that is read has the key %q, which everybody knows", public)
		}
		if hashOf(t, cr, rendered, &key) == applied["Secret"] {
			t.Errorf("the hash of the rendered Secret has the key %q, which everybody knows", public)
		}
	}
	// Another manager has the same key.
	b.settle()
	mark := b.journal.mark()
	b.restart()
	b.nudge("b")
	b.settle()
	if got := b.journal.writes(mark, "", b.ns+"/configmaps/config"); len(got) > 0 {
		t.Errorf("the next manager wrote what was right:\n%s", lines(got))
	}
}

// entries are those of a bundle, in its status or in its Inventories.
func (b *bench) entries(name string) []keeper.InventoryEntry {
	b.Helper()
	out := b.bundle(name).Status.Inventory.Entries
	for _, inv := range b.inventories(name) {
		out = append(out, inv.Status.Entries...)
	}
	return out
}

// plain returns what is recorded of objects as releases before recorded it: by hashes that everybody can compute who guesses the content.
func (b *bench) plain(entries []keeper.InventoryEntry) []keeper.InventoryEntry {
	b.Helper()
	out := slices.Clone(entries)
	for i := range out {
		e := &out[i]
		live := observe.From(b.must(schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}, e.Namespace, e.Name), false)
		e.AppliedHash, e.OwnedFieldsHash = live.AppliedHash(), live.OwnedFieldsHash
	}
	return out
}

// TestInvariant16NobodyCanTryValuesAgainstAnInventory: a viewer of custom resources or Inventories, who may not read what these list, cannot tell
// whether a value that an object has is the one that he guesses: neither hash can be computed from the content alone.
func TestInvariant16NobodyCanTryValuesAgainstAnInventory(t *testing.T) {
	b := open(t, options{})
	b.apply("small", b.ordinary())
	b.apply("staged", b.staged(b.namespace()))
	for _, name := range []string{"small", "staged"} {
		b.ready(name)
		b.settle()
		recorded := b.entries(name)
		if len(recorded) < 3 {
			t.Fatalf("%d objects of %s are recorded", len(recorded), name)
		}
		for i, e := range b.plain(recorded) {
			if got := recorded[i].AppliedHash; got == "" || got == e.AppliedHash {
				t.Errorf("who guesses %s %s finds its hash %q in the inventory", e.Kind, e.Name, got)
			}
			if got := recorded[i].OwnedFieldsHash; got == "" || got == e.OwnedFieldsHash {
				t.Errorf("who guesses %s %s finds the hash of its fields %q in the inventory", e.Kind, e.Name, got)
			}
		}
	}
}

// TestInvariant16AnUpgradeSealsWhatWasRecorded begins with the hashes that releases before have recorded. No object is written, and what is
// recorded once: KServe copies the annotations of an InferenceService to its pods, so that another annotation would replace them.
func TestInvariant16AnUpgradeSealsWhatWasRecorded(t *testing.T) {
	b := open(t, options{})
	b.apply("small", b.ordinary())
	b.apply("staged", b.staged(b.namespace()))
	b.ready("small")
	b.ready("staged")
	b.settle()
	sealed := [][]keeper.InventoryEntry{b.entries("small"), b.entries("staged")}
	b.op.Stop()
	text := func(entries []keeper.InventoryEntry) string {
		raw, err := json.Marshal(b.plain(entries))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	b.patchStatus(bundleGVK, b.ns, "small", `{"status":{"inventory":{"entries":`+text(sealed[0])+`}}}`)
	for _, inv := range b.inventories("staged") {
		b.patchStatus(inventoryGVK, "", inv.Name, `{"status":{"entries":`+text(inv.Status.Entries)+`}}`)
	}
	mark := b.journal.mark()
	b.restart()
	cluster.Eventually(t, patience, func() error {
		if got := [][]keeper.InventoryEntry{b.entries("small"), b.entries("staged")}; !reflect.DeepEqual(got, sealed) {
			return fmt.Errorf("recorded is %+v, and was %+v", got, sealed)
		}
		return nil
	})
	b.settle()
	written := map[string]int{}
	for _, r := range b.journal.since(mark, request.write) {
		if !strings.Contains(r.path, "/leases") && !strings.HasSuffix(r.path, "reviews") {
			written[r.path]++
		}
	}
	for path, n := range written {
		if n > 1 || !strings.HasSuffix(path, "/status") {
			t.Errorf("%d writes of %s", n, path)
		}
	}
	if len(written) != 3 {
		t.Errorf("written were %v, and not the status and two Inventories", written)
	}
}

// hashOf is the applied hash of a child with the content of the live one, keyed where there is a key.
func hashOf(t *testing.T, cr *bundle.Bundle, live *unstructured.Unstructured, key *digest.Key) string {
	t.Helper()
	desired := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(), "data": live.Object["data"],
		"metadata": map[string]any{"name": live.GetName(), "namespace": live.GetNamespace()},
	}}
	stack := plan.Stack{
		Controller: bundle.Definition(nil).Controller, GVK: bundle.GVK, Namespace: cr.Namespace, Name: cr.Name, UID: cr.UID,
	}
	owner := plan.Owner{APIVersion: bundle.GVK.GroupVersion().String(), Kind: bundle.GVK.Kind, Name: cr.Name, UID: cr.UID}
	if key != nil {
		stamped, err := plan.Stamp(*key, plan.Object{Desired: desired}, stack, owner, 0)
		if err != nil {
			t.Fatal(err)
		}
		return stamped.Digest
	}
	stamped, err := plan.Stamp(digest.Key{}, plan.Object{Desired: desired}, stack, owner, 0)
	if err != nil {
		t.Fatal(err)
	}
	annotations := stamped.Desired.GetAnnotations()
	delete(annotations, keeper.AppliedHashAnnotation)
	stamped.Desired.SetAnnotations(annotations)
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode(stamped.Desired.Object); err != nil {
		t.Fatal(err)
	}
	return digest.Text(sum)
}

// The Secret with the key may be deleted while a manager runs, which changes nothing. The next manager has another key: it writes once what
// carries a digest.
func TestInvariant16ALostKeyIsReplaced(t *testing.T) {
	b := open(t, options{Cluster: cluster.Start(t)})
	b.c.Apply(b, "{apiVersion: v1, kind: Secret, metadata: {name: credentials}, stringData: {password: guess}}\n", b.ns)
	spec := one(configMap(b.ns, "config", "v"))
	spec.Secret = "credentials"
	b.apply("b", spec)
	b.apply("plain", one(configMap(b.ns, "without", "v")))
	b.ready("b")
	b.ready("plain")
	b.settle()
	content := func() *unstructured.Unstructured {
		u := b.must(configMapGVK, b.ns, "without")
		u.SetManagedFields(nil)
		u.SetResourceVersion("")
		return u
	}
	without := content()
	shown := func() string {
		text, _, _ := unstructured.NestedString(b.must(configMapGVK, b.ns, "config").Object, "data", "digest")
		return text
	}
	before := shown()
	mark := b.journal.mark()
	b.c.Kubectl(b, "-n", cluster.OperatorNamespace, "delete", "secret", digestkey.Name)
	b.nudge("b")
	b.settle()
	if got := b.journal.writes(mark, "", b.ns+"/configmaps/config"); len(got) > 0 || shown() != before {
		t.Errorf("the deletion of the key changed the digest %s to %s:\n%s", before, shown(), lines(got))
	}
	b.restart()
	b.nudge("b")
	b.settle()
	b.ready("b")
	if shown() == before {
		t.Error("a lost key is still in use")
	}
	if got := content(); !reflect.DeepEqual(got, without) {
		t.Errorf("an object without a digest was changed for another key: %v, and was %v", got, without)
	}
	mark = b.journal.mark()
	b.nudge("b")
	b.settle()
	if got := b.journal.writes(mark, "", b.ns+"/configmaps/config"); len(got) > 0 {
		t.Errorf("with another key it is written again and again:\n%s", lines(got))
	}
}

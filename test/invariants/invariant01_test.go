package invariants

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
)

const theirs = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mine"},"data":{"k":"theirs","other":"kept"}}
`

func TestInvariant01ObjectOfAnotherIsNeverMergedInto(t *testing.T) {
	b := open(t, options{})
	b.c.Apply(t, theirs, b.ns)
	before := b.must(configMapGVK, b.ns, "mine").GetResourceVersion()
	b.apply("b", one(configMap(b.ns, "mine", "ours"), configMap(b.ns, "free", "ours")))
	got := b.condition("b", "Ready", metav1.ConditionFalse, "ResourceConflict")
	if !strings.Contains(got.Message, "mine") || !strings.Contains(got.Message, "adopt") {
		t.Errorf("the message does not say what to do: %s", got.Message)
	}
	b.value("free", "ours")
	if after := b.must(configMapGVK, b.ns, "mine"); after.GetResourceVersion() != before {
		t.Errorf("the object of another was written: %v", after.Object)
	}
	b.delete(configMapGVK, b.ns, "mine")
	b.ready("b")
	b.value("mine", "ours")
}

func TestInvariant01AdoptionOnlyWhenAskedAndWithoutOwnerReference(t *testing.T) {
	b := open(t, options{})
	b.c.Apply(t, theirs, b.ns)
	b.apply("b", one(configMap(b.ns, "mine", "ours")), keeper.AdoptAnnotation, "true")
	b.ready("b")
	b.value("mine", "ours")
	b.field(configMapGVK, b.ns, "mine", "kept", "data", "other")
	// A later change must not make the garbage collector delete what we did not create.
	b.apply("b", one(configMap(b.ns, "mine", "ours again")), keeper.AdoptAnnotation, "true")
	b.value("mine", "ours again")
	b.ready("b")
	if refs := b.must(configMapGVK, b.ns, "mine").GetOwnerReferences(); len(refs) != 0 {
		t.Fatalf("an adopted object has owner references: %v", refs)
	}
	b.restart()
	b.quiet()
}

func TestInvariant01WhatSomebodyOwnsIsNotAdopted(t *testing.T) {
	b := open(t, options{})
	b.c.Apply(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owner"}}
`, b.ns)
	owner := b.must(configMapGVK, b.ns, "owner")
	b.c.Apply(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mine","ownerReferences":[
		{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q}]},"data":{"k":"theirs"}}
`, owner.GetUID()), b.ns)
	b.apply("b", one(configMap(b.ns, "mine", "ours")), keeper.AdoptAnnotation, "true")
	b.condition("b", "Ready", metav1.ConditionFalse, "ResourceConflict")
	b.value("mine", "theirs")
}

func TestInvariant01ReplacedObjectIsNotTouched(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(configMap(b.ns, "mine", "ours")))
	b.ready("b")
	var once sync.Once
	b.journal.hook(func(r *http.Request) *http.Response {
		if r.Method == http.MethodPatch && strings.Contains(r.Header.Get("Content-Type"), "apply-patch") &&
			strings.HasSuffix(r.URL.Path, b.ns+"/configmaps/mine") {
			// Between the judgement and its apply the object is replaced by one of somebody else.
			once.Do(func() {
				b.delete(configMapGVK, b.ns, "mine")
				b.c.Apply(t, theirs, b.ns)
			})
		}
		return nil
	})
	b.apply("b", one(configMap(b.ns, "mine", "ours, changed")))
	b.condition("b", "Ready", metav1.ConditionFalse, "ResourceConflict")
	got := b.must(configMapGVK, b.ns, "mine")
	if data := fmt.Sprint(got.Object["data"]); data != "map[k:theirs other:kept]" || len(got.GetLabels()) != 0 {
		t.Fatalf("the replacement was touched: %v %v", data, got.GetLabels())
	}
}

func TestInvariant01WhatTheFirstPlanHadAndTheNextHasNotIsRemoved(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(object(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"mine",
		"labels":{"first":"yes"}},"data":{"k":"ours","first":"yes"}}`, b.ns)))
	b.ready("b")
	b.apply("b", one(configMap(b.ns, "mine", "ours")))
	b.field(configMapGVK, b.ns, "mine", "", "data", "first")
	b.field(configMapGVK, b.ns, "mine", "", "metadata", "labels", "first")
	b.ready("b")
}

func TestInvariant01ObjectWhoseLabelsWereStrippedIsAdoptedAgain(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(configMap(b.ns, "mine", "ours"), retained(configMap(b.ns, "kept", "ours"))))
	b.ready("b")
	for _, name := range []string{"mine", "kept"} {
		uid := b.must(configMapGVK, b.ns, name).GetUID()
		b.patch(configMapGVK, b.ns, name, `{"metadata":{"labels":null}}`)
		cluster.Eventually(t, patience, func() error {
			u := b.must(configMapGVK, b.ns, name)
			if u.GetUID() != uid {
				return fmt.Errorf("%s was replaced", name)
			}
			if u.GetLabels()[keeper.ControllerLabel] == "" {
				return fmt.Errorf("%s has no label", name)
			}
			return nil
		})
		b.ready("b")
	}
	if n := b.events("b", "ResourceConflict"); n > 0 {
		t.Errorf("%d events say ResourceConflict", n)
	}
}

package invariants

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
)

func TestInvariant08FinalizerOfTheOriginalIsStrippedAtOnce(t *testing.T) {
	b := open(t, options{})
	b.apply("b", one(configMap(b.ns, "one", "v")))
	b.ready("b")
	b.patch(bundleGVK, b.ns, "b", fmt.Sprintf(`{"metadata":{"finalizers":[%q,"invariants.test/theirs"]}}`, bundle.OriginalFinalizer))
	cluster.Eventually(t, patience, func() error {
		if got := b.bundle("b").Finalizers; !slices.Equal(got, []string{"invariants.test/theirs"}) {
			return fmt.Errorf("the finalizers are %v", got)
		}
		return nil
	})
	b.patch(bundleGVK, b.ns, "b", `{"metadata":{"finalizers":null}}`)
}

func TestInvariant08DeletionNeverWaitsForTheOriginal(t *testing.T) {
	b := open(t, options{})
	b.op.Stop()
	b.apply("b", one(configMap(b.ns, "one", "v")))
	b.apply("bad", bundle.Spec{})
	for _, name := range []string{"b", "bad"} {
		b.patch(bundleGVK, b.ns, name, fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, bundle.OriginalFinalizer))
	}
	b.patch(bundleGVK, b.ns, "bad", `{"spec":{"stages":"no list"}}`)
	b.delete(bundleGVK, b.ns, "b")
	b.delete(bundleGVK, b.ns, "bad")
	b.restart()
	b.gone(bundleGVK, b.ns, "b")
	b.gone(bundleGVK, b.ns, "bad")
	if b.c.Get(t, configMapGVK, b.ns, "one") != nil {
		t.Error("a custom resource that is being deleted was given a child")
	}
}

func TestInvariant08ClaimOfTheOriginalNoLongerGoesWithTheCustomResource(t *testing.T) {
	b := open(t, options{})
	b.op.Stop()
	b.apply("b", one(retained(claim(b.ns, "data", "none")), configMap(b.ns, "app", "new")))
	// The original made the custom resource the controller of everything, and knew nothing of our labels.
	owner := fmt.Sprintf(`[{"apiVersion":"test.mlkeeper.dev/v1","kind":"Bundle","name":"b","uid":%q,"controller":true,
		"blockOwnerDeletion":true}]`, b.bundle("b").UID)
	b.c.Apply(t, string(claim(b.ns, "data", "none").Manifest.Raw)+"\n")
	b.c.Apply(t, string(configMap(b.ns, "app", "old").Manifest.Raw)+"\n")
	b.patch(claimGVK, b.ns, "data", `{"metadata":{"ownerReferences":`+owner+`}}`, "manager")
	b.patch(configMapGVK, b.ns, "app", `{"metadata":{"ownerReferences":`+owner+`}}`, "manager")
	uid := b.must(claimGVK, b.ns, "data").GetUID()
	b.restart()
	b.value("app", "new")
	cluster.Eventually(t, patience, func() error {
		u := b.must(claimGVK, b.ns, "data")
		if len(u.GetOwnerReferences()) > 0 || len(u.GetLabels()) == 0 || u.GetUID() != uid {
			return fmt.Errorf("the claim is %v", u.Object["metadata"])
		}
		return nil
	})
	cluster.Eventually(t, patience, func() error {
		refs := b.must(configMapGVK, b.ns, "app").GetOwnerReferences()
		if len(refs) != 1 || refs[0].BlockOwnerDeletion != nil {
			return fmt.Errorf("the owner references are %+v", refs)
		}
		return nil
	})
	b.delete(bundleGVK, b.ns, "b")
	b.gone(configMapGVK, b.ns, "app")
	cluster.Consistently(t, while, func() error {
		if b.must(claimGVK, b.ns, "data").GetDeletionTimestamp() != nil {
			return fmt.Errorf("the claim goes with the custom resource")
		}
		return nil
	})
}

// TestInvariant08WhatMustStayStaysAlthoughNothingCanBeRendered deletes custom resources of the original whose facts are
// missing, whose input is bad, and which do not fit their type: the deletion must not hang, and no claim go with it.
func TestInvariant08WhatMustStayStaysAlthoughNothingCanBeRendered(t *testing.T) {
	b := open(t, options{})
	b.op.Stop()
	specs := map[string]bundle.Spec{"missing": {Secret: "nowhere"}, "bad": {Problem: "bad"}, "unfit": {}, "alive": {Secret: "later"}}
	for name, spec := range specs {
		b.apply(name, spec)
		b.patch(bundleGVK, b.ns, name, fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, bundle.OriginalFinalizer))
		b.c.Apply(t, string(claim(b.ns, name, "none").Manifest.Raw)+"\n")
		b.patch(claimGVK, b.ns, name, fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"test.mlkeeper.dev/v1",
			"kind":"Bundle","name":%q,"uid":%q,"controller":true,"blockOwnerDeletion":true}]}}`, name, b.bundle(name).UID), "manager")
	}
	b.patch(bundleGVK, b.ns, "unfit", `{"spec":{"stages":"no list"}}`)
	for name := range specs {
		if name != "alive" {
			b.delete(bundleGVK, b.ns, name)
		}
	}
	b.restart()
	for name := range specs {
		if name == "alive" {
			continue
		}
		b.gone(bundleGVK, b.ns, name)
		cluster.Consistently(t, while, func() error {
			if u := b.must(claimGVK, b.ns, name); u.GetDeletionTimestamp() != nil || len(u.GetOwnerReferences()) > 0 {
				return fmt.Errorf("the claim of %s goes with it: %v", name, u.Object["metadata"])
			}
			return nil
		})
	}
	// One that is alive keeps the finalizer until it is known what must stay, and says what is missing.
	b.condition("alive", "Ready", metav1.ConditionFalse, "SecretMissing")
	if got := b.bundle("alive").Finalizers; len(got) != 1 {
		t.Errorf("the finalizers are %v", got)
	}
	b.c.Apply(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"later"}}
`, b.ns)
	cluster.Eventually(t, patience, func() error {
		if got := b.bundle("alive").Finalizers; len(got) > 0 {
			return fmt.Errorf("the finalizers are %v", got)
		}
		return nil
	})
}

func TestInvariant08ImmutableSelectorOfTheOriginalIsNotRecreated(t *testing.T) {
	b := open(t, options{})
	b.op.Stop()
	b.apply("b", one(deployment(b.ns, "app", false)))
	b.c.Apply(t, fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"app","ownerReferences":[
		{"apiVersion":"test.mlkeeper.dev/v1","kind":"Bundle","name":"b","uid":%q,"controller":true}]},"spec":{
		"selector":{"matchLabels":{"app":"app","part":"of-original"}},"template":{"metadata":{"labels":
		{"app":"app","part":"of-original"}},"spec":{"containers":[{"name":"main","image":"example.test/image:1"}]}}}}
`, b.bundle("b").UID), b.ns)
	uid := b.must(deploymentGVK, b.ns, "app").GetUID()
	b.restart()
	b.condition("b", "Stalled", metav1.ConditionTrue, "ImmutableField")
	if got := b.must(deploymentGVK, b.ns, "app"); got.GetUID() != uid || got.GetDeletionTimestamp() != nil {
		t.Error("the Deployment was recreated")
	}
}

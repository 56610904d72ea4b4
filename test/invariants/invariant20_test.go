package invariants

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
)

// TestInvariant20WhatOthersMadeStaysAsItIs: an object of somebody under the name of a child, and one in a Namespace that MLKeeper made, outlive the
// custom resource, and nothing of them is written meanwhile. Only controllers whose kinds users choose delete Namespaces: TestSmall of test/kubeflow
// has those of a KfDef.
func TestInvariant20WhatOthersMadeStaysAsItIs(t *testing.T) {
	b := open(t, options{})
	made := b.ns + "-made"
	b.c.Apply(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"taken"},"data":{"k":"theirs"}}`+"\n", b.ns)
	b.apply("b", bundle.Spec{Stages: []bundle.Stage{
		stage("first", object(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, made)),
		stage("second", clusterRole(b.ns+"-role", "get"), configMap(b.ns, "taken", "ours")),
	}})
	b.Cleanup(func() { b.delete(namespaceGVK, "", made) })
	b.condition("b", "Ready", metav1.ConditionFalse, "ResourceConflict")
	b.must(clusterRoleGVK, "", b.ns+"-role")
	b.c.Apply(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"theirs"},"data":{"k":"theirs"}}`+"\n", made)
	taken, theirs := b.must(configMapGVK, b.ns, "taken").GetResourceVersion(), b.must(configMapGVK, made, "theirs").GetResourceVersion()
	stand := func() error {
		if got := b.must(configMapGVK, b.ns, "taken").GetResourceVersion(); got != taken {
			return fmt.Errorf("what has the name of a child was written: %s, and not %s", got, taken)
		}
		if got := b.must(configMapGVK, made, "theirs").GetResourceVersion(); got != theirs {
			return fmt.Errorf("what is in a Namespace of ours was written: %s, and not %s", got, theirs)
		}
		if b.must(namespaceGVK, "", made).GetDeletionTimestamp() != nil {
			return fmt.Errorf("a Namespace goes that has an object of somebody")
		}
		return nil
	}
	b.nudge("b")
	if err := stand(); err != nil {
		t.Fatal(err)
	}
	b.delete(bundleGVK, b.ns, "b")
	b.gone(clusterRoleGVK, "", b.ns+"-role")
	b.noInventories("b")
	cluster.Consistently(t, while, stand)
}

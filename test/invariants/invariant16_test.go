package invariants

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/controller"
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

func TestInvariant16DigestsOfSecretsAreKeyed(t *testing.T) {
	data := map[string][]byte{"password": []byte("guess")}
	digest := func(uid types.UID) string { return controller.SecretDigest(uid, data) }
	again := digest("a")
	if digest("a") == digest("b") || digest("a") != again {
		t.Error("the digest does not depend on the key, or on something else")
	}
}

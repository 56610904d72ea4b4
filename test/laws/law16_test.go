package laws

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/engine/rendered"
	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
)

func TestLaw16RepairNeedsNeitherRenderNorSource(t *testing.T) {
	var renders, down atomic.Int32
	system := &bundle.Sourced{System: bundle.System{
		OnRender: func(*bundle.Bundle) { renders.Add(1) },
		Digest: func(b *bundle.Bundle) string {
			return rendered.KeyedDigest([]byte("key"), map[string][]byte{"spec": fmt.Append(nil, b.UID, b.Generation)})
		},
		Source: func() error {
			if down.Load() > 0 {
				return errors.New("the source does not answer")
			}
			return nil
		},
	}}
	opts := options{System: system}
	opts.Engine.RenderedDir = t.TempDir()
	b := open(t, opts)
	b.apply("b", one(configMap(b.ns, "one", "v"), configMap(b.ns, "two", "v")))
	b.ready("b")
	if n := renders.Load(); n != 1 {
		t.Errorf("%d renders for one generation", n)
	}
	// After a restart with the source down, repair comes from the disk.
	b.op.Stop()
	down.Store(1)
	b.patch(configMapGVK, b.ns, "one", `{"data":{"k":"changed"}}`)
	b.restart()
	b.value("one", "v")
	b.delete(configMapGVK, b.ns, "two")
	b.value("two", "v")
	b.ready("b")
	if n := renders.Load(); n != 1 {
		t.Errorf("repair took %d renders", n-1)
	}
	b.settle()
	// Lost with the source down: told, and nothing is torn down or forgotten.
	b.op.Stop()
	if err := os.RemoveAll(b.opts.Engine.RenderedDir); err != nil {
		t.Fatal(err)
	}
	one := b.must(configMapGVK, b.ns, "one").GetUID()
	b.restart()
	b.condition("b", "Ready", metav1.ConditionFalse, "SourceUnavailable")
	cluster.Consistently(t, while, func() error {
		if u := b.must(configMapGVK, b.ns, "one"); u.GetUID() != one || u.GetDeletionTimestamp() != nil {
			return errors.New("a child was torn down")
		}
		return nil
	})
	if n := len(b.bundle("b").Status.Children); n != 2 {
		t.Errorf("%d children are remembered", n)
	}
	// With the source back it is rendered again, and nothing need be written.
	mark := b.journal.mark()
	down.Store(0)
	b.ready("b")
	if got := b.journal.writes(mark, "", b.ns+"/configmaps/one"); len(got) > 0 {
		t.Errorf("what was right was written:\n%s", lines(got))
	}
	if n := renders.Load(); n < 2 {
		t.Error("a lost store was not filled again")
	}
}

func TestLaw16DigestsOfSecretsAreKeyed(t *testing.T) {
	data := map[string][]byte{"password": []byte("guess")}
	first, again := rendered.KeyedDigest([]byte("a"), data), rendered.KeyedDigest([]byte("a"), data)
	if first == rendered.KeyedDigest([]byte("b"), data) {
		t.Error("the digest does not depend on the key")
	}
	if first != again {
		t.Error("the digest is not stable")
	}
}

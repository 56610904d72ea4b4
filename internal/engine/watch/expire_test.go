package watch

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/mutation"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// TestDeletionsExpireWithoutAWrite: after the end of a large stack nothing of its kinds may ever be written again.
func TestDeletionsExpireWithoutAWrite(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	m := New(Options{Catalog: catalog.New(nil, nil, logr.Discard()), Clock: clock})
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	m.WatchChildren(gvk, "trustyai", func(_, _ *observe.Object) {})
	kept := func() int {
		m.mu.Lock() // Writes expire under its read lock.
		defer m.mu.Unlock()
		return reflect.ValueOf(m.children["trustyai"][gvk.GroupKind()].mutations).Elem().FieldByName("deletions").Len()
	}
	m.Deleted("trustyai", plan.Key{GroupKind: gvk.GroupKind(), Namespace: "a", Name: "x"}, "uid")
	if kept() != 1 {
		t.Fatal("the deletion is not kept to begin with")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	for end := time.Now().Add(30 * time.Second); kept() != 0; time.Sleep(time.Millisecond) {
		if clock.HasWaiters() {
			clock.Step(mutation.TTL / 10)
		}
		if time.Now().After(end) {
			t.Fatalf("%s later, the deletion is still kept", clock.Since(time.Unix(1e9, 0)))
		}
	}
	if passed := clock.Since(time.Unix(1e9, 0)); passed <= mutation.TTL {
		t.Errorf("the deletion was dropped after %s", passed)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

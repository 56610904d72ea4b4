package engine

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/shard"
	"mlkeeper.dev/internal/engine/watch"
	"mlkeeper.dev/internal/engine/wiring"
)

// TestAnObjectThatIsStillToBeCreatedIsEnqueuedAtTheStart: no watch has it, so that only the namespaces of the custom resources tell of it. It
// may have been deleted, or the custom resource created, while no manager ran.
func TestAnObjectThatIsStillToBeCreatedIsEnqueuedAtTheStart(t *testing.T) {
	type wired = stacks[*v1.TrustyAIService, struct{}]
	in := func(namespaces ...string) (out []types.NamespacedName) {
		for _, namespace := range namespaces {
			out = append(out, types.NamespacedName{Namespace: namespace, Name: "config"})
		}
		return out
	}
	for name, c := range map[string]struct {
		createName string
		enqueue    func(*wired)
		want       []types.NamespacedName
	}{
		"at the start":          {"config", func(s *wired) { s.wires[0].enqueueAll() }, in("mine", "others")},
		"with a shard":          {"config", func(s *wired) { s.enqueueShard(2) }, in("others")},
		"where none is created": {"", func(s *wired) { s.wires[0].enqueueAll() }, nil},
	} {
		var shards *shard.Shards
		if name == "with a shard" {
			shards = byNamespace()
			shards.Hold(1)
			shards.Hold(2)
		}
		work := priorityqueue.New[reconcile.Request]("targets-" + strings.ReplaceAll(name, " ", "-"))
		e := &Engine{Options: Options{Shards: shards}, informers: watch.New(watch.Options{Catalog: &catalog.Catalog{}})}
		s := &wired{Engine: e, wires: []*wireRunner{{
			engine: e, wire: wiring.Wire{Name: "w", CreateName: c.createName}, queue: &queue{work: work, shards: shards},
			namespaces: func() []string { return []string{"mine", "others"} },
		}}}
		c.enqueue(s)
		var got []types.NamespacedName
		for range work.Len() {
			request, _ := work.Get()
			got = append(got, request.NamespacedName)
		}
		work.ShutDown()
		slices.SortFunc(got, func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s, enqueued are %v, not %v", name, got, c.want)
		}
	}
}

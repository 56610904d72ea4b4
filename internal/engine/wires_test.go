package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/shard"
	"mlkeeper.dev/internal/engine/watch"
	"mlkeeper.dev/internal/engine/wiring"
	"mlkeeper.dev/test/cluster"
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

// TestTargetsAreKnownOnceTheirListHasCome: until then nobody knows which exist, and the wire neither creates one nor removes entries.
func TestTargetsAreKnownOnceTheirListHasCome(t *testing.T) {
	configMaps := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	server := fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		configMaps.GroupVersion().WithResource("configmaps"): "ConfigMapList",
	})
	server.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked <- struct{}{}
		<-answer
		return false, nil, nil
	})
	m := watch.New(watch.Options{Catalog: catalogOf(t), Dynamic: server, Clock: clock.RealClock{}, Log: logr.Discard()})
	m.WatchTargets("slow", configMaps, "", "", nil, nil)
	m.WatchTargets("absent", schema.GroupVersionKind{Group: "serving.kserve.io", Version: "v1beta1", Kind: "InferenceService"}, "", "", nil, nil)
	var of wiring.Source = targets{m}
	synced := func(when string, want map[string]bool) {
		t.Helper()
		for wire, want := range want {
			if of.TargetsSynced(wire) != want {
				t.Errorf("%s, all targets of wire %s are known: %t", when, wire, !want)
			}
		}
	}
	synced("before the start", map[string]bool{"slow": false, "absent": true, "undeclared": false})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.Start(ctx)
	}()
	<-asked
	synced("while the list hangs", map[string]bool{"slow": false, "absent": true, "undeclared": false})
	close(answer)
	cluster.Eventually(t, 20*time.Second, func() error {
		if !of.TargetsSynced("slow") {
			return errors.New("the list has come, and counts for nothing")
		}
		return nil
	})
	cancel()
	<-ended
}

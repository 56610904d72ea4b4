package rendering_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/rendering"
)

// keeping is a cache whose custom resources are reconciled as the engine does it: in the order of a queue, each with jobs of its own, whose
// results go with an eviction.
type keeping struct {
	*bench
	clusters map[types.NamespacedName]*controllertest.Cluster
	// evicted are the custom resources whose results were dropped, renderings those that were rendered, in order.
	evicted, renderings []string
	// bytes is what the next result takes.
	bytes int64
}

func newKeeping(t *testing.T, memory *rendering.Memory) *keeping {
	t.Helper()
	k := &keeping{bench: newBench(t), clusters: map[types.NamespacedName]*controllertest.Cluster{}, bytes: 200}
	k.cache = rendering.New[content](k.from, memory)
	k.cache.OnEvict(func(key types.NamespacedName) {
		k.evicted = append(k.evicted, key.String())
		clear(k.clusters[key].Answers)
	})
	return k
}

// reconcile reconciles custom resources, and again each that one of its jobs has ended for.
func (k *keeping) reconcile(names ...string) {
	k.t.Helper()
	for reconciles := 0; len(names) > 0; reconciles++ {
		if reconciles > 100 {
			k.t.Fatalf("it never ends: rendered are %q", k.renderings)
		}
		namespace, name, _ := strings.Cut(names[0], "/")
		names = names[1:]
		job := k.job
		job.NamespacedName = types.NamespacedName{Namespace: namespace, Name: name}
		job.Render = func(ctx context.Context, run rendering.Run[content]) *plan.Problem {
			k.renderings = append(k.renderings, job.String())
			problem := k.render(ctx, run)
			run.Result.Bytes = k.bytes
			return problem
		}
		cluster := k.clusters[job.NamespacedName]
		if cluster == nil {
			cluster = controllertest.New(time.Unix(0, 0), removed, current)
			k.clusters[job.NamespacedName] = cluster
		}
		if _, done := k.cache.Get(cluster, job); !done {
			asked := cluster.Asked[len(cluster.Asked)-1]
			cluster.Answers[asked.Name] = asked.Job(k.t.Context(), nil)
			names = append([]string{job.String()}, names...) // The end of a job enqueues it.
		}
	}
}

// holds fails unless the custom resources whose results were dropped, and then those that were rendered, are those.
func (k *keeping) holds(evicted, renderings string) {
	k.t.Helper()
	if got := strings.Join(k.evicted, " "); got != evicted {
		k.t.Errorf("dropped is what %q render, not %q", got, evicted)
	}
	if got := strings.Join(k.renderings, " "); got != renderings {
		k.t.Errorf("rendered are %q, not %q", got, renderings)
	}
	k.evicted, k.renderings = nil, nil
}

// TestResultsShareMemory holds what is dropped where results take too much, and that it is rendered again when it is needed, and no sooner.
func TestResultsShareMemory(t *testing.T) {
	k := newKeeping(t, rendering.NewMemory(1000))
	k.reconcile("a/1", "a/2")
	k.reconcile("a/1")
	k.holds("", "a/1 a/2")
	k.reconcile("a/3") // A namespace has one half.
	k.holds("a/2", "a/3")
	k.reconcile("a/1", "a/3")
	k.holds("", "")
	k.reconcile("a/2")
	k.holds("a/1", "a/2")
	k.reconcile("b/1", "b/2")
	k.holds("", "b/1 b/2")
	k.reconcile("c/1", "c/2") // All take 1200: of two namespaces with 400, the first gives something up.
	k.holds("a/3", "c/1 c/2")
	k.cache.Forget(types.NamespacedName{Namespace: "b", Name: "1"})
	k.reconcile("a/3")
	k.holds("", "a/3")
}

// TestMoreThanFitsIsNoLoop has custom resources none of which fits beside another: each event costs one rendering, and nothing costs one
// without an event.
func TestMoreThanFitsIsNoLoop(t *testing.T) {
	k := newKeeping(t, rendering.NewMemory(1000))
	k.bytes = 400
	k.reconcile("a/1", "a/2", "a/3")
	k.holds("a/1 a/2", "a/1 a/2 a/3")
	k.reconcile("a/1", "a/1", "a/1", "a/2")
	k.holds("a/3 a/1", "a/1 a/2")
	// What was rendered just now stays, although its namespace takes the most.
	k = newKeeping(t, rendering.NewMemory(1000))
	k.bytes = 350
	k.reconcile("a/1", "b/1")
	k.bytes = 450
	k.reconcile("c/1")
	k.holds("a/1", "a/1 b/1 c/1")
}

// TestWhatStandsForAFailureIsKeptLongest drops what nobody can render again only where nothing else is left.
func TestWhatStandsForAFailureIsKeptLongest(t *testing.T) {
	k := newKeeping(t, rendering.NewMemory(1000))
	k.reconcile("a/1")
	k.from.down = errors.New("no route")
	k.job.Trigger = "now"
	k.reconcile("a/1")
	k.from.down = nil
	k.reconcile("a/2")
	k.holds("", "a/1 a/2")
	k.reconcile("a/3")
	k.holds("a/2", "a/3")
}

// TestWhatStandsInSharesMemory counts a result of before with the last one, and drops both.
func TestWhatStandsInSharesMemory(t *testing.T) {
	k := newKeeping(t, rendering.NewMemory(1000))
	of := rendering.Subject{NamespacedName: types.NamespacedName{Namespace: "a", Name: "1"}, UID: "uid", Part: "part"}
	k.reconcile("a/1", "a/2")
	k.cache.Restore(of, &rendering.Result[content]{Bytes: 100})
	k.cache.Restore(of, nil)
	k.holds("", "a/1 a/2")
	k.cache.Restore(of, &rendering.Result[content]{Bytes: 101})
	k.holds("a/2", "")
	k.reconcile("a/2")
	k.holds("a/1", "a/2")
	if k.cache.Restored(of) != nil {
		t.Error("it is still there")
	}
}

// TestCachesShareMemory counts the results of two caches, such as those of two kinds.
func TestCachesShareMemory(t *testing.T) {
	memory := rendering.NewMemory(1000)
	one, other := newKeeping(t, memory), newKeeping(t, memory)
	one.reconcile("a/1", "a/2")
	other.reconcile("a/1")
	one.holds("a/1", "a/1 a/2")
	other.holds("", "a/1")
}

// TestWhatNeverFitsIsRefused has a custom resource whose results take more than its namespace may have: what was rendered before stands.
func TestWhatNeverFitsIsRefused(t *testing.T) {
	k := newKeeping(t, rendering.NewMemory(1000))
	k.reconcile("a/1")
	k.holds("", "a/1")
	k.bytes, k.job.Inputs = 501, "others"
	k.reconcile("a/1")
	last := k.cache.Last(rendering.Subject{NamespacedName: types.NamespacedName{Namespace: "a", Name: "1"}, UID: "uid", Part: "part"})
	if last == nil || last.Failure == nil || last.Failure.Reason != rendering.ReasonResultTooLarge || last.Bytes != 200 || last.Inputs != "inputs" {
		t.Fatalf("it is %+v", last)
	}
	// The parts of one custom resource count together.
	k.bytes = 200
	var failed []string
	for i := range 3 {
		k.job.Part = fmt.Sprint(i)
		k.reconcile("b/1")
		if last := k.cache.Last(rendering.Subject{NamespacedName: types.NamespacedName{Namespace: "b", Name: "1"}, UID: "uid", Part: k.job.Part}); last.Failure != nil {
			failed = append(failed, k.job.Part)
		}
	}
	if !slices.Equal(failed, []string{"2"}) {
		t.Errorf("refused are the parts %q", failed)
	}
}

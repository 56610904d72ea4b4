package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/plan"
)

// counting wraps a client so that what is in flight can be counted.
type counting struct {
	dynamic.Interface
	enter func() func()
}

func (c counting) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return countingResource{c.Interface.Resource(r), c.enter}
}

type countingResource struct {
	dynamic.NamespaceableResourceInterface
	enter func() func()
}

func (c countingResource) Namespace(ns string) dynamic.ResourceInterface {
	return countingNamespace{c.NamespaceableResourceInterface.Namespace(ns), c.enter}
}

func (c countingResource) Create(
	ctx context.Context, u *unstructured.Unstructured, opts metav1.CreateOptions, sub ...string,
) (*unstructured.Unstructured, error) {
	defer c.enter()()
	return c.NamespaceableResourceInterface.Create(ctx, u, opts, sub...)
}

type countingNamespace struct {
	dynamic.ResourceInterface
	enter func() func()
}

func (c countingNamespace) Create(
	ctx context.Context, u *unstructured.Unstructured, opts metav1.CreateOptions, sub ...string,
) (*unstructured.Unstructured, error) {
	defer c.enter()()
	return c.ResourceInterface.Create(ctx, u, opts, sub...)
}

// TestSlots shows that at most two CustomResourceDefinitions of all stacks and eight objects of one are written at a
// time (invariant 10).
func TestSlots(t *testing.T) {
	for _, tc := range []struct {
		gvk    schema.GroupVersionKind
		stacks int
		limit  int64
	}{{crdGVK, 3, crdSlots}, {configMapGVK, 1, parallelWrites}} {
		t.Run(tc.gvk.Kind, func(t *testing.T) {
			c := newCast(t)
			var flying, most atomic.Int64
			// The server serves one request at a time, so what is counted is what waits for it.
			c.Client = counting{c.Client, func() func() {
				now := flying.Add(1)
				for {
					m := most.Load()
					if now <= m || most.CompareAndSwap(m, now) {
						break
					}
				}
				return func() { flying.Add(-1) }
			}}
			var group sync.WaitGroup
			for s := range tc.stacks {
				group.Go(func() {
					var actions []decide.Action
					for i := range 12 {
						u := &unstructured.Unstructured{Object: map[string]any{}}
						u.SetGroupVersionKind(tc.gvk)
						u.SetName(fmt.Sprintf("x-%d-%d", s, i))
						if tc.gvk == configMapGVK {
							u.SetNamespace("ns")
						}
						st, err := plan.Stamp(digest.Key{}, plan.Object{Desired: u}, stack, self, 0)
						if err != nil {
							t.Error(err)
						}
						actions = append(actions, creates(st))
					}
					for _, r := range c.Do(context.Background(), Request{Stack: stack, Owners: []plan.Owner{self}, Actions: actions}) {
						if r.Err != nil || r.Problem != nil || !r.Wrote {
							t.Errorf("%+v", r)
						}
					}
				})
			}
			group.Wait()
			if got := most.Load(); got > tc.limit || got < 2 {
				t.Errorf("%d writes at a time", got)
			}
		})
	}
}

// TestASlotIsNotWaitedForForEver shows that the end of the process ends the wait for a slot.
func TestASlotIsNotWaitedForForEver(t *testing.T) {
	c := newCast(t)
	c.Do(context.Background(), Request{})
	for range crdSlots {
		c.crds <- struct{}{}
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(crdGVK)
	u.SetName("x")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	res := c.Do(ctx, Request{Stack: stack, Owners: []plan.Owner{self}, Actions: []decide.Action{creates(stamp(t, plan.Object{Desired: u}))}})
	if !errors.Is(res[0].Err, context.DeadlineExceeded) || len(c.server.asked()) > 0 {
		t.Errorf("%+v", res)
	}
	if res := c.Do(ctx, Request{Actions: []decide.Action{creates(declared(t, nil))}}); !errors.Is(res[0].Err, context.DeadlineExceeded) {
		t.Errorf("%+v", res)
	}
}

// TestStagesComeOneAfterAnother shows the order of writes, and that a failure does not stop what comes after it.
func TestStagesComeOneAfterAnother(t *testing.T) {
	c := newCast(t)
	var actions []decide.Action
	for i, name := range []string{"a", "b", "c"} {
		st := stamp(t, plan.Object{Desired: configMap(name, nil)})
		st.Stage = i
		actions = append(actions, creates(st), decide.Action{Verb: decide.Leave, Object: st, Key: st.Key})
	}
	c.server.answer = func(verb, _ string) *apierrors.StatusError {
		if verb == http.MethodPost && len(c.server.requests) == 1 {
			return apierrors.NewInternalError(errors.New("etcd"))
		}
		return nil
	}
	results := c.Do(context.Background(), Request{Stack: stack, Owners: []plan.Owner{self}, Actions: actions})
	if len(results) != 3 || results[0].Err == nil || !results[1].Wrote || !results[2].Wrote {
		t.Fatalf("%+v", results)
	}
	for i, want := range []string{"a", "b", "c"} {
		var u unstructured.Unstructured
		if err := json.Unmarshal(c.server.bodies[i], &u.Object); err != nil || u.GetName() != want {
			t.Errorf("%d is %s: %v", i, u.GetName(), err)
		}
	}
}

// TestNothingIsPrunedBesideARefusedWrite: a plan that cannot be carried out takes away nothing that runs, neither when a write is refused
// nor while it waits to be tried again. What is deleted to be made again is in the plan, and goes.
func TestNothingIsPrunedBesideARefusedWrite(t *testing.T) {
	for when, refused := range map[string]bool{"nothing": false, "the write": true, "a write before": true} {
		c := newCast(t)
		old, again := stamp(t, plan.Object{Desired: configMap("old", nil)}), stamp(t, plan.Object{Desired: configMap("again", nil)})
		prune := deletes(old, c.server.put("/api/v1/namespaces/ns/configmaps/old", "mlkeeper", old.Desired).GetUID())
		recreate := deletes(again, c.server.put("/api/v1/namespaces/ns/configmaps/again", "mlkeeper", again.Desired).GetUID())
		prune.ResourceVersion = c.server.get("/api/v1/namespaces/ns/configmaps/old").GetResourceVersion()
		recreate.ResourceVersion = c.server.get("/api/v1/namespaces/ns/configmaps/again").GetResourceVersion()
		recreate.Object = again
		c.server.answer = func(verb, _ string) *apierrors.StatusError {
			if when == "the write" && verb == http.MethodPost {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "new", nil)
			}
			return nil
		}
		create := creates(stamp(t, plan.Object{Desired: configMap("new", nil)}))
		results := c.Do(t.Context(), Request{
			Stack: stack, Owners: []plan.Owner{self}, Actions: []decide.Action{prune, recreate, create}, Refused: when == "a write before",
		})
		if got, want := len(results), map[bool]int{false: 3, true: 2}[refused]; got != want {
			t.Errorf("%s is refused: %d results, want %d: %+v", when, got, want, results)
		}
		if exists := c.server.get("/api/v1/namespaces/ns/configmaps/old") != nil; exists != refused {
			t.Errorf("%s is refused: the old object exists: %v", when, exists)
		}
		if c.server.get("/api/v1/namespaces/ns/configmaps/again") != nil {
			t.Errorf("%s is refused: an object that is made again is not deleted", when)
		}
	}
}

func TestWhatIsNotServedIsTransient(t *testing.T) {
	c := newCast(t)
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("x.io/v1")
	u.SetKind("Gateway")
	u.SetName("g")
	st := stamp(t, plan.Object{Desired: u})
	res := c.do(t, creates(st))
	if res.Err == nil || !strings.Contains(res.Err.Error(), "is not served") || len(c.server.asked()) > 0 {
		t.Errorf("%+v", res)
	}
}

// TestAPanicOverOneWriteEndsThatOneOnly: whether the writes are made one after the other or many at once.
func TestAPanicOverOneWriteEndsThatOneOnly(t *testing.T) {
	for _, many := range []int{3, fewWrites + 3} {
		c := newCast(t)
		c.Count = func(key plan.Key, _ decide.Verb, _ string) {
			if key.Name == "cm-1" {
				panic("over " + key.Name)
			}
		}
		var actions []decide.Action
		for i := range many {
			actions = append(actions, creates(declared(t, func(o *plan.Object) { o.Desired.SetName(fmt.Sprintf("cm-%d", i)) })))
		}
		results := c.Do(t.Context(), Request{Stack: stack, Owners: []plan.Owner{self}, Actions: actions})
		if len(results) != many {
			t.Fatalf("%d results of %d", len(results), many)
		}
		for _, r := range results {
			if failed := r.Err != nil; failed != (r.Action.Key.Name == "cm-1") || !failed && !r.Wrote {
				t.Errorf("of %d, %s: %+v", many, r.Action.Key.Name, r)
			}
		}
	}
}

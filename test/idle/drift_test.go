package idle

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
)

// repairTimeout is generous: what the machine is busy with otherwise decides how long a second is. The log has the
// times that were measured.
const repairTimeout = time.Minute

// TestEveryChildIsBack deletes every child of both shapes and changes every kind of field by hand, one after the other.
func TestEveryChildIsBack(t *testing.T) {
	w := newWorld(t, len(fixture.Shapes))
	w.settle(t)
	api, err := dynamic.NewForConfig(w.cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	var deleted, changed times
	for _, s := range w.services {
		for _, child := range s.Children(t, w.cluster) {
			hand := &hand{cluster: w.cluster, child: child, api: resource(t, w.cluster, api, child)}
			for _, c := range changesOf(child) {
				t.Run(fmt.Sprintf("%s/%s changed in %s", s.Shape, child, c.what), func(t *testing.T) {
					changed = append(changed, hand.change(t, c))
					s.AwaitReady(t, w.cluster)
				})
			}
			t.Run(fmt.Sprintf("%s/%s deleted", s.Shape, child), func(t *testing.T) {
				if took, gone := hand.delete(t); gone {
					deleted = append(deleted, took)
				}
				s.AwaitReady(t, w.cluster)
			})
		}
	}
	w.settle(t)
	for _, s := range w.services {
		s.AwaitReady(t, w.cluster)
	}
	t.Logf("%d children deleted: back after %s", len(deleted), deleted)
	t.Logf("%d fields changed: repaired after %s", len(changed), changed)
}

// change is one change by hand.
type change struct {
	what string
	path []string
	// to is the wrong value.
	to any
	// fresh says that a new value is as good as the old one, such as another certificate.
	fresh bool
}

// changesOf lists the changes of a child: a label of ours, and a value of every part that people edit.
func changesOf(child fixture.Child) []change {
	kind := child.GVK.Kind
	annotation := keeper.OwnerAnnotation
	if kind == "PersistentVolumeClaim" {
		// Without an owner reference, the owner annotation says whose the claim is: a change of it is an answer.
		annotation = keeper.AppliedHashAnnotation
	}
	out := []change{
		{what: "a label", path: []string{"metadata", "labels", keeper.StackLabel}, to: "nobody"},
		{what: "an annotation", path: []string{"metadata", "annotations", annotation}, to: "nobody"},
	}
	switch kind {
	case "ConfigMap":
		file := "config.yaml"
		if child.Name == "kserve-logger-ca-bundle" {
			file = "service-ca.crt"
		}
		out = append(out, change{what: "data", path: []string{"data", file}, to: "wrong: true\n"})
	case "Secret":
		out = append(out, change{what: "data", path: []string{"data", "tls.crt"}, to: "d3Jvbmc=", fresh: true})
	case "Deployment":
		out = append(out, change{what: "replicas", path: []string{"spec", "replicas"}, to: int64(3)},
			change{what: "the environment", path: []string{"spec", "template", "spec", "containers", "0", "env", "0", "value"}, to: "wrong"},
			change{what: "the image", path: []string{"spec", "template", "spec", "containers", "0", "image"}, to: "wrong:1"})
	case "Service":
		out = append(out, change{what: "a port", path: []string{"spec", "ports", "0", "targetPort"}, to: int64(1)},
			change{what: "the selector", path: []string{"spec", "selector", "app.kubernetes.io/part-of"}, to: "nobody"})
	case "ClusterRoleBinding":
		out = append(out, change{what: "a subject", path: []string{"subjects", "0", "name"}, to: "somebody"})
	case "Route":
		out = append(out, change{what: "the target", path: []string{"spec", "to", "name"}, to: "elsewhere"})
	case "ServiceMonitor":
		out = append(out, change{what: "an endpoint", path: []string{"spec", "endpoints", "0", "interval"}, to: "9s"})
	}
	return out
}

// hand is somebody who deletes and changes one child, and watches what becomes of it.
type hand struct {
	cluster *cluster.Cluster
	child   fixture.Child
	api     dynamic.ResourceInterface
}

func resource(t *testing.T, c *cluster.Cluster, api dynamic.Interface, child fixture.Child) dynamic.ResourceInterface {
	t.Helper()
	mapping, err := c.Client.RESTMapper().RESTMapping(child.GVK.GroupKind(), child.GVK.Version)
	if err != nil {
		t.Fatal(err)
	}
	if child.Namespace == "" {
		return api.Resource(mapping.Resource)
	}
	return api.Resource(mapping.Resource).Namespace(child.Namespace)
}

// change changes one field and returns how long the wrong value stood.
func (h *hand) change(t *testing.T, c change) time.Duration {
	t.Helper()
	live := h.get(t)
	before := valueAt(live.Object, c.path)
	if before == nil {
		t.Fatalf("%s has no %v", h.child, c.path)
	}
	events := h.watch(t, live)
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": pointer(c.path), "value": c.to}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.api.Patch(t.Context(), h.child.Name, types.JSONPatchType, patch, metav1.PatchOptions{
		FieldManager: "somebody",
	}); err != nil {
		t.Fatalf("change %s of %s: %v", c.what, h.child, err)
	}
	wrong := h.await(t, events, c.what+" to be changed", func(_ watch.Event, u *unstructured.Unstructured) bool {
		return same(valueAt(u.Object, c.path), c.to)
	})
	right := h.await(t, events, c.what+" to be repaired", func(_ watch.Event, u *unstructured.Unstructured) bool {
		now := valueAt(u.Object, c.path)
		return same(now, before) || c.fresh && now != nil && !same(now, c.to)
	})
	return right.Sub(wrong)
}

// delete deletes the child and returns how long there was none; gone is false where a finalizer holds it.
func (h *hand) delete(t *testing.T) (took time.Duration, gone bool) {
	t.Helper()
	live := h.get(t)
	if len(live.GetFinalizers()) > 0 {
		t.Logf("%s is held by its finalizers %v, and is not deleted", h.child, live.GetFinalizers())
		return 0, false
	}
	events := h.watch(t, live)
	if err := h.api.Delete(t.Context(), h.child.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete %s: %v", h.child, err)
	}
	went := h.await(t, events, "the old one to go", func(e watch.Event, u *unstructured.Unstructured) bool {
		return e.Type == watch.Deleted && u.GetUID() == live.GetUID()
	})
	came := h.await(t, events, "the new one", func(e watch.Event, u *unstructured.Unstructured) bool {
		return e.Type == watch.Added && u.GetUID() != live.GetUID()
	})
	return came.Sub(went), true
}

func (h *hand) get(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	u := h.cluster.Get(t, h.child.GVK, h.child.Namespace, h.child.Name)
	if u == nil {
		t.Fatalf("%s does not exist", h.child)
	}
	return u
}

func (h *hand) watch(t *testing.T, from *unstructured.Unstructured) watch.Interface {
	t.Helper()
	w, err := h.api.Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + h.child.Name, ResourceVersion: from.GetResourceVersion(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// await returns when the event came that is looked for.
func (h *hand) await(
	t *testing.T, events watch.Interface, what string, is func(watch.Event, *unstructured.Unstructured) bool,
) time.Time {
	t.Helper()
	timeout := time.After(repairTimeout)
	for {
		select {
		case e, open := <-events.ResultChan():
			u, ok := e.Object.(*unstructured.Unstructured)
			if !open || !ok {
				t.Fatalf("%s: the watch ended while it waited for %s: %v", h.child, what, e.Object)
			}
			if is(e, u) {
				return time.Now()
			}
		case <-timeout:
			t.Fatalf("%s: waited %s for %s", h.child, repairTimeout, what)
		}
	}
}

// times are durations that were measured.
type times []time.Duration

// String prints the least, the median and the most.
func (d times) String() string {
	if len(d) == 0 {
		return "nothing measured"
	}
	sorted := slices.Sorted(slices.Values(d))
	round := func(i int) time.Duration { return sorted[i].Round(time.Millisecond) }
	return fmt.Sprintf("min %s, median %s, max %s", round(0), round(len(sorted)/2), round(len(sorted)-1))
}

func same(a, b any) bool { return reflect.DeepEqual(a, b) }

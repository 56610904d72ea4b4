package faults

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/cluster"
)

// user is the field manager of what users and others write. It must not begin like MLKeeper's own.
const user = "somebody"

// foreignLabel marks what belongs to others and must stay as it is.
const foreignLabel = "faults.test/foreign"

// World is what the steps of a workload act on.
type World struct {
	// Namespace is the run's own.
	Namespace string
	run       *run
	// held says that HoldCollector was called, which takes more than the run's namespace.
	held bool
}

// trustServer makes the Secret with the authority of the workload's server.
func (w *World) trustServer() error {
	u := w.object(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "server")
	u.Object["stringData"] = map[string]any{"ca.crt": certificates().trusted}
	return w.Put(u)
}

// Apply applies manifests as a user. "NS" in them stands for the namespace, "SERVER" for the address of the workload's server, and what
// names no namespace goes there.
func (w *World) Apply(text string) error {
	_, err := w.made(text)
	return err
}

// made applies manifests, and returns the objects.
func (w *World) made(text string) ([]*unstructured.Unstructured, error) {
	text = strings.ReplaceAll(text, "NS", w.Namespace)
	if s := w.run.server; s != nil {
		text = strings.ReplaceAll(text, "SERVER", s.http.URL)
	}
	objects, err := cluster.Parse(text)
	if err != nil {
		return nil, err
	}
	for _, u := range objects {
		if err := w.Put(u); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// Put applies one object as a user, in the run's namespace where it names none.
func (w *World) Put(u *unstructured.Unstructured) error {
	if err := w.run.suite.cluster.SetNamespace(u, w.Namespace); err != nil {
		return err
	}
	err := w.run.suite.cluster.Client.Apply(w.run.ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner(user), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return w.seen(u)
}

// Patch merge-patches an object as a user.
func (w *World) Patch(gvk schema.GroupVersionKind, name, patch string) error {
	u := w.object(gvk, name)
	err := w.run.suite.cluster.Client.Patch(w.run.ctx, u, client.RawPatch(types.MergePatchType, []byte(patch)),
		client.FieldOwner(user))
	if err != nil {
		return fmt.Errorf("patch %s %s: %w", gvk.Kind, name, err)
	}
	return w.seen(u)
}

// seen waits until the run's own memory, by which the steps are judged, knows what a user wrote.
func (w *World) seen(u *unstructured.Unstructured) error {
	version, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("%s %s has no version: %w", u.GetKind(), u.GetName(), err)
	}
	return w.run.await("the write to be seen", func() error {
		if !w.run.history.has(u.GetUID(), version) {
			return fmt.Errorf("version %d of %s %s was not told yet", version, u.GetKind(), u.GetName())
		}
		return nil
	})
}

// Delete deletes an object as a user; one that is not there is fine.
func (w *World) Delete(gvk schema.GroupVersionKind, name string) error {
	err := w.run.suite.cluster.Client.Delete(w.run.ctx, w.object(gvk, name),
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", gvk.Kind, name, err)
	}
	return nil
}

// Upgrade replaces the operator by the one of the kind, as a rolling update of its Deployment does.
func (w *World) Upgrade() error { return w.run.upgrade() }

func (w *World) object(gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	u.SetName(name)
	u.SetNamespace(w.Namespace)
	return u
}

// Ready says which custom resource of the kind is not Ready for its generation; there must be one at least.
func (w *World) Ready() error {
	all := w.run.history.all(w.run.kind.Resource)
	if len(all) == 0 {
		return errors.New("there is no custom resource")
	}
	for _, u := range all {
		if err := isReady(u); err != nil {
			return err
		}
	}
	return nil
}

// Condition says whether a condition of a custom resource has a status, and a reason if one is given, for the current
// generation.
func (w *World) Condition(name, kind, status string, reason ...string) error {
	u := w.run.history.get(w.run.kind.Resource, name)
	if u == nil {
		return fmt.Errorf("%s does not exist", name)
	}
	c := conditionOf(u, kind)
	if c == nil || c["status"] != status || len(reason) > 0 && c["reason"] != reason[0] || !observed(u) {
		return fmt.Errorf("%s: %s is %v, not %s %v for generation %d", name, kind, c, status, reason, u.GetGeneration())
	}
	return nil
}

// Gone says which object that belongs to a custom resource is still there: everything that carries MLKeeper's label but
// what is kept on purpose, which nobody owns.
func (w *World) Gone() error {
	if left := w.run.history.all(w.run.kind.Resource); len(left) > 0 {
		return fmt.Errorf("%d custom resources are left", len(left))
	}
	return leftovers(w.run.history)
}

// Get returns an object as it is now, or nil; resource is the plural name with group.
func (w *World) Get(resource, name string) *unstructured.Unstructured {
	return w.run.history.get(resource, strings.ReplaceAll(name, "NS", w.Namespace))
}

// conditionOf returns a condition of an object, or nil.
func conditionOf(u *unstructured.Unstructured, kind string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

// observed says that the status of a custom resource is of its current generation.
func observed(u *unstructured.Unstructured) bool {
	seen, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	return seen == u.GetGeneration()
}

// isReady says why a custom resource is not Ready for its generation.
func isReady(u *unstructured.Unstructured) error {
	c := conditionOf(u, "Ready")
	if c == nil || c["status"] != "True" || !observed(u) {
		return fmt.Errorf("%s is not Ready at generation %d: %v", u.GetName(), u.GetGeneration(), c)
	}
	return nil
}

// clear deletes what a run made. The namespace itself stays with what hardly costs anything: its end would cost the
// control plane more than the run did.
func (w *World) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if w.held {
		if err := w.ReleaseCollector(); err != nil {
			w.run.note("clean-up: %v", err)
		}
	}
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for key, u := range w.run.history.all("") {
		resource, _, _ := strings.Cut(key, "/")
		c := w.run.suite.cluster.Client
		// The volume controller frees claims and volumes of its own finalizers.
		if len(u.GetFinalizers()) > 0 && !strings.HasPrefix(resource, "persistentvolume") {
			_ = c.Patch(ctx, u.DeepCopy(), free)
		}
		err := c.Delete(ctx, u.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err != nil && !apierrors.IsNotFound(err) {
			w.run.note("clean-up: %v", err)
		}
	}
}

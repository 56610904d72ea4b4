package kuttl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/test/cluster"
)

// callTimeout limits the requests of one look at the cluster, and pollEvery is the time between two looks.
const (
	callTimeout = 30 * time.Second
	pollEvery   = 50 * time.Millisecond
)

// Run runs every case below dir, in parallel and each in a namespace of its own, and returns when all have ended. It
// is what "kubectl kuttl test dir" does; vars are the values of --template-var.
func Run(t *testing.T, c *cluster.Cluster, dir string, vars map[string]any) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	// The group ends when its parallel cases have.
	t.Run("kuttl", func(t *testing.T) {
		for _, entry := range entries {
			if !entry.IsDir() {
				continue
			}
			cases++
			t.Run(entry.Name(), func(t *testing.T) {
				t.Parallel()
				RunCase(t, c, filepath.Join(dir, entry.Name()), vars)
			})
		}
	})
	if cases == 0 {
		t.Fatalf("%s holds no cases", dir)
	}
}

// RunCase runs the case in one folder in a namespace of its own.
func RunCase(t *testing.T, c *cluster.Cluster, dir string, vars map[string]any) {
	t.Helper()
	r := &runner{cluster: c, namespace: c.Namespace(t)}
	steps, err := load(dir, environment{Namespace: r.namespace, Vars: vars})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		start := time.Now()
		if err := r.run(t, s); err != nil {
			t.Fatalf("step %02d-%s in namespace %s: %v", s.index, s.name, r.namespace, err)
		}
		t.Logf("step %02d-%s passed in %s", s.index, s.name, time.Since(start).Round(time.Millisecond))
	}
}

// runner runs the steps of one case.
type runner struct {
	cluster   *cluster.Cluster
	namespace string
}

// run deletes, applies, and looks until everything asserted holds at once.
func (r *runner) run(t *testing.T, s *step) error {
	deadline := time.Now().Add(s.timeout)
	for _, ref := range s.deletes {
		if err := r.remove(ref, deadline); err != nil {
			return err
		}
	}
	for _, u := range s.applies {
		created, err := r.apply(u.DeepCopy())
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		if created != nil && created.GetNamespace() != r.namespace {
			t.Cleanup(func() { r.cleanUp(t, created) })
		}
	}
	return until(time.Now().Add(s.timeout), func() error { return r.check(s) })
}

// until looks until nothing is wrong or the time is over.
func until(deadline time.Time, look func() error) error {
	for {
		err := look()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not in time: %w", err)
		}
		time.Sleep(pollEvery)
	}
}

// check says everything that does not hold now.
func (r *runner) check(s *step) error {
	var errs []error
	for _, expected := range s.asserts {
		errs = append(errs, r.present(expected))
	}
	for _, unwanted := range s.absents {
		errs = append(errs, r.absent(unwanted))
	}
	return errors.Join(errs...)
}

// apply merges into an object or, where there is none, creates it, as kuttl does: a step that changes an object need
// not repeat what the schema requires. It returns the object if it created it.
func (r *runner) apply(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	found, err := r.find(u)
	if err != nil {
		return nil, err
	}
	if err := r.cluster.SetNamespace(u, r.namespace); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if len(found) == 0 || u.GetName() == "" {
		return u, r.cluster.Client.Create(ctx, u)
	}
	patch, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return nil, r.cluster.Client.Patch(ctx, u, client.RawPatch(types.MergePatchType, patch))
}

// cleanUp deletes what a case created outside its namespace, without waiting.
func (r *runner) cleanUp(t *testing.T, u *unstructured.Unstructured) {
	if err := r.delete(u); err != nil {
		t.Logf("delete %s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

// remove deletes what a reference names and waits until it is gone.
func (r *runner) remove(ref reference, deadline time.Time) error {
	pattern := &unstructured.Unstructured{}
	pattern.SetGroupVersionKind(ref.gvk())
	pattern.SetName(ref.Name)
	pattern.SetNamespace(ref.Namespace)
	pattern.SetLabels(ref.Labels)
	found, err := r.find(pattern)
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", ref.Kind, ref.Name, err)
	}
	for i := range found {
		u := &found[i]
		err := r.delete(u)
		if err == nil {
			err = until(deadline, func() error { return r.gone(u) })
		}
		if err != nil {
			return fmt.Errorf("delete %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

func (r *runner) delete(u *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return client.IgnoreNotFound(r.cluster.Client.Delete(ctx, u))
}

// gone says why an object is not gone; one under its name with another UID is not it.
func (r *runner) gone(u *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	left := u.DeepCopy()
	err := r.cluster.Client.Get(ctx, client.ObjectKeyFromObject(u), left)
	switch {
	case apierrors.IsNotFound(err) || (err == nil && left.GetUID() != u.GetUID()):
		return nil
	case err == nil:
		return errors.New("it is still there")
	default:
		return err
	}
}

// find reads the object of a name or, without one, all objects of the kind with the labels.
func (r *runner) find(pattern *unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	pattern = pattern.DeepCopy()
	if err := r.cluster.SetNamespace(pattern, r.namespace); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	gvk := pattern.GroupVersionKind()
	if pattern.GetName() != "" {
		u := unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		err := r.cluster.Client.Get(ctx, client.ObjectKeyFromObject(pattern), &u)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return []unstructured.Unstructured{u}, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind + "List"})
	err := r.cluster.Client.List(ctx, list, client.InNamespace(pattern.GetNamespace()), client.MatchingLabels(pattern.GetLabels()))
	return list.Items, err
}

// present says why no object is as expected.
func (r *runner) present(expected *unstructured.Unstructured) error {
	what := expected.GetKind() + " " + expected.GetName()
	found, err := r.find(expected)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(found) == 0 {
		return fmt.Errorf("%s: there is none", what)
	}
	var errs []error
	for i := range found {
		err := Subset(expected.Object, found[i].Object)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w, in\n%s", what, err, describe(&found[i])))
	}
	return errors.Join(errs...)
}

// absent says that an object is as it should not be.
func (r *runner) absent(unwanted *unstructured.Unstructured) error {
	found, err := r.find(unwanted)
	if err != nil {
		return fmt.Errorf("%s %s: %w", unwanted.GetKind(), unwanted.GetName(), err)
	}
	for i := range found {
		if Subset(unwanted.Object, found[i].Object) == nil {
			return fmt.Errorf("%s %s is there as it should not be:\n%s", found[i].GetKind(), found[i].GetName(), describe(&found[i]))
		}
	}
	return nil
}

// describe prints an object for the message of a failure, but for the content of Secrets.
func describe(u *unstructured.Unstructured) string {
	u = u.DeepCopy()
	u.SetManagedFields(nil)
	if u.GetKind() == "Secret" {
		delete(u.Object, "data")
	}
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

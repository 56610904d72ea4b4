package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// scene is one cluster with many services, each to be deleted in an order of its own. All orders of a scene agree on
// which goes first, the operator or the CRDs, since a cluster has only one of each; so a few clusters show all orders.
type scene struct {
	cluster  *cluster.Cluster
	operator *harness.Operator
	victims  []*victim
	// patient waits after each step until it has taken effect.
	patient bool
}

// victim is one service and the order in which it and what it depends on are deleted.
type victim struct {
	*fixture.Service
	order order
}

// newScene boots a cluster with one Ready and wired service of each shape for every order.
func newScene(t *testing.T, orders []order, patient bool) *scene {
	t.Helper()
	c := cluster.Start(t, fixture.CRDs())
	c.InstallCRDs(t)
	informGarbageCollector(t, c)
	s := &scene{cluster: c, patient: patient, operator: harness.Start(t, c, harness.Options{}, fixture.Controller())}
	for _, o := range orders {
		for _, shape := range fixture.Shapes {
			s.victims = append(s.victims, &victim{Service: fixture.Create(t, c, shape), order: o})
		}
	}
	for _, v := range s.victims {
		v.AwaitReady(t, c)
	}
	return s
}

// perform deletes everything, in the order of each victim.
func (s *scene) perform(t *testing.T, shared []step) {
	t.Helper()
	for phase := range 3 {
		s.deletePrivate(t, phase)
		s.settle(t, shared[:phase], phase)
		if phase < len(shared) {
			s.deleteShared(t, shared[phase])
			s.settle(t, shared[:phase+1], phase)
		}
	}
}

// deletePrivate deletes the custom resources and namespaces whose turn is in this phase, those of all victims at once.
func (s *scene) deletePrivate(t *testing.T, phase int) {
	t.Helper()
	var wg sync.WaitGroup
	failed := make([]error, len(s.victims))
	for i, v := range s.victims {
		wg.Go(func() {
			for _, what := range v.order.phases()[phase] {
				failed[i] = errors.Join(failed[i], s.deleteOf(t.Context(), v, what))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
}

// deleteOf deletes the custom resource or the namespace of a victim. A custom resource may be gone with its definition
// or its namespace.
func (s *scene) deleteOf(ctx context.Context, v *victim, what step) error {
	u := &unstructured.Unstructured{}
	goneBefore := false
	switch what {
	case theCR:
		u.SetGroupVersionKind(fixture.GVK)
		u.SetNamespace(v.Namespace)
		u.SetName(v.Name)
		goneBefore = v.order.before(theCRDs, theCR) || v.order.before(theNamespace, theCR)
	case theNamespace:
		u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
		u.SetName(v.Namespace)
	}
	err := s.cluster.Client.Delete(ctx, u)
	if goneBefore && (apierrors.IsNotFound(err) || meta.IsNoMatchError(err)) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("delete the %s of %s: %w", what, v.Namespace, err)
	}
	return nil
}

func (s *scene) deleteShared(t *testing.T, what step) {
	t.Helper()
	if what == theOperator {
		s.operator.Stop()
		return
	}
	for _, name := range definitions {
		crd := &metav1.PartialObjectMetadata{}
		crd.SetGroupVersionKind(crdGVK)
		crd.SetName(name)
		if err := s.cluster.Client.Delete(t.Context(), crd); err != nil {
			t.Fatalf("delete the definition %s: %v", name, err)
		}
	}
}

// settle gives a patient scene the time that a person takes: until the custom resources that were deleted are gone and,
// where the operator is alive, the objects of others hold what they held before.
func (s *scene) settle(t *testing.T, done []step, phase int) {
	t.Helper()
	if !s.patient {
		return
	}
	for _, v := range s.victims {
		if !slices.Contains(done, theCRDs) && !slices.Contains(v.order.until(phase), theCR) {
			continue
		}
		cluster.Eventually(t, allGone, func() error {
			if s.cluster.Get(t, fixture.GVK, v.Namespace, v.Name) != nil {
				return fmt.Errorf("TrustyAIService %s/%s is still there", v.Namespace, v.Name)
			}
			if slices.Contains(done, theOperator) {
				return nil
			}
			return v.AsBefore(t, s.cluster)
		})
	}
}

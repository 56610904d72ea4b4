package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
)

// TestDeletionInEveryOrder deletes {custom resource, operator, CRDs, namespace} in all 24 orders, and {custom resource,
// operator, CRDs} in all 6 while the namespace stays, for both shapes of a TrustyAIService, with the garbage collector
// of a real control plane. One delete follows the other without a pause.
func TestDeletionInEveryOrder(t *testing.T) {
	orders := slices.Concat(ordersOf(theCR, theOperator, theCRDs, theNamespace), ordersOf(theCR, theOperator, theCRDs))
	forEachScene(t, orders, false, func(t *testing.T, s *scene) {
		for _, v := range s.victims {
			if v.order.has(theNamespace) {
				continue // The objects of others went with it.
			}
			// An operator that was stopped a moment after the delete may have come to the entries or not.
			if err := v.WiredOrAsBefore(t, s.cluster); err != nil {
				t.Errorf("%s: %v", v, err)
			}
		}
	})
}

// TestDeletionStepByStep waits after each step as a person does. Where the operator saw its custom resource go, the
// objects of others hold what they held before; where it went first, they stay wired.
func TestDeletionStepByStep(t *testing.T) {
	forEachScene(t, ordersOf(theCR, theOperator, theCRDs), true, func(t *testing.T, s *scene) {
		for _, v := range s.victims {
			if v.order[0] == theOperator {
				if err := v.Wired(t, s.cluster); err != nil {
					t.Errorf("%s: nobody was there to take the entries out, but: %v", v, err)
				}
			} else if err := v.AsBefore(t, s.cluster); err != nil {
				t.Errorf("%s: the operator left an entry: %v", v, err)
			}
		}
	})
}

// forEachScene performs the orders on two clusters, one for those in which the operator goes before the CRDs and one for
// the others, and asserts what is left. entries looks at the objects of others, before the entries are taken out.
func forEachScene(t *testing.T, orders []order, patient bool, entries func(*testing.T, *scene)) {
	t.Helper()
	for _, shared := range ordersOf(theOperator, theCRDs) {
		t.Run(string(shared[0])+" first", func(t *testing.T) {
			t.Parallel()
			var mine []order
			for _, o := range orders {
				if o.before(shared[0], shared[1]) {
					mine = append(mine, o)
				}
			}
			s := newScene(t, mine, patient)
			s.perform(t, shared)
			s.assertGone(t)
			entries(t, s)
			fixture.Unwire(t, s.cluster)
			for _, v := range s.victims {
				if v.order.has(theNamespace) {
					continue
				}
				if err := v.AsBefore(t, s.cluster); err != nil {
					t.Errorf("%s: unwire left an entry: %v", v, err)
				}
			}
		})
	}
}

// assertGone waits until nothing is left but what is kept on purpose, and tells order by order what is.
func (s *scene) assertGone(t *testing.T) {
	t.Helper()
	began := time.Now()
	var left []cluster.Object
	err := poll(t, allGone, func(ctx context.Context) error {
		if err := definitionsGone(ctx, s.cluster); err != nil {
			return err
		}
		all, err := s.cluster.Everything(ctx)
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(all, func(o cluster.Object) bool { return !s.isLeft(o) })
		if len(left) > 0 {
			return errors.New("objects are left")
		}
		return nil
	})
	for _, v := range s.victims {
		t.Run(v.order.String()+"/"+string(v.Shape), func(t *testing.T) {
			for _, o := range left {
				if o.Namespace == v.Namespace || strings.Contains(o.Name, v.Namespace) {
					t.Errorf("%s is left %s after the last delete", o, allGone)
				}
			}
			if !v.order.has(theNamespace) && s.cluster.Get(t, claimGVK, v.Namespace, v.Claim) == nil {
				t.Error("the claim is not kept, though the namespace and retentionPolicy Retain say so")
			}
		})
	}
	if err != nil {
		t.Errorf("%v: %v", err, left)
		return
	}
	t.Logf("%d services are gone %s after the last delete", len(s.victims), time.Since(began).Round(100*time.Millisecond))
}

// isLeft says that an object should not be there: it is ours, it is in a namespace of a victim and was not there
// before, or it is the namespace of a victim. A claim is kept where its namespace is.
func (s *scene) isLeft(o cluster.Object) bool {
	for _, v := range s.victims {
		switch {
		case o.Namespace == v.Namespace:
			return v.order.has(theNamespace) || !v.keeps(o)
		case o.Resource == "namespaces" && o.Name == v.Namespace:
			return v.order.has(theNamespace)
		case o.Namespace == "" && o.Resource != "persistentvolumes" && strings.Contains(o.Name, v.Namespace):
			return true
		}
	}
	return isOurs(o)
}

// keeps says that an object stays where the namespace stays: the claim, the objects of others with what controllers
// made for them, and what every namespace has.
func (v *victim) keeps(o cluster.Object) bool {
	switch o.Resource {
	case "persistentvolumeclaims":
		return o.Name == v.Claim
	case "serviceaccounts":
		return o.Name == "default"
	case "configmaps":
		return o.Name == "kube-root-ca.crt" || o.Name == "model-serving-config" && v.Shape == fixture.Plain
	case "inferenceservices":
		return o.Name == "model"
	case "deployments", "replicasets", "pods":
		// What KServe made of the InferenceService.
		if strings.HasPrefix(o.Name, "model-predictor") {
			return true
		}
		return (o.Name == "modelmesh" || strings.HasPrefix(o.Name, "modelmesh-")) && v.Shape == fixture.Secured
	}
	return false
}

// String names the victim in messages.
func (v *victim) String() string { return fmt.Sprintf("%s, %s", v.order, v.Shape) }

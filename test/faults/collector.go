package faults

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// awaitCollected waits until the garbage collector of the cluster knows the kinds, which it does up to half a minute
// after their definitions came. Until then it would leave what their end should take along.
func (s *Suite) awaitCollected() { <-s.collected }

// awaitCollector tries the garbage collector with an Inventory, whose definition comes with those of all kinds.
func (s *Suite) awaitCollector(ctx context.Context) error {
	c := s.cluster.Client
	return wait.PollUntilContextTimeout(ctx, 300*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		owner := &keeper.Inventory{
			ObjectMeta: metav1.ObjectMeta{Name: "probe-" + rand.String(6)},
			Spec: keeper.InventorySpec{Owner: keeper.InventoryOwner{
				Group: "probe.test", Kind: "Probe", Namespace: "default", Name: "probe", UID: "probe",
			}},
		}
		if err := c.Create(ctx, owner); err != nil {
			return false, nil //nolint:nilerr // The definition may not be served yet.
		}
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: owner.Name, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: keeper.GroupVersion.String(), Kind: "Inventory", Name: owner.Name, UID: owner.UID,
			}},
		}}
		if err := c.Create(ctx, probe); err != nil {
			return false, err
		}
		if err := c.Delete(ctx, owner); err != nil {
			return false, err
		}
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Second, true, func(ctx context.Context) (bool, error) {
			err := c.Get(ctx, client.ObjectKeyFromObject(probe), probe)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		return err == nil, nil
	})
}

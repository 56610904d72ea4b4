package inventory

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/observe"
)

// create posts an Inventory. The name contains the UID of the owner, so that one that exists already was created before a crash and
// is not in the cache yet.
func (s *Store) create(ctx context.Context, inv *keeper.Inventory) (*keeper.Inventory, error) {
	u, err := toUnstructured(inv)
	if err != nil {
		return nil, err
	}
	resource, err := s.resource()
	if err != nil {
		return nil, err
	}
	out, err := s.Client.Resource(resource).Create(ctx, u, metav1.CreateOptions{FieldManager: observe.FieldManager})
	if apierrors.IsAlreadyExists(err) {
		out, err = s.Client.Resource(resource).Get(ctx, inv.Name, metav1.GetOptions{})
		if err == nil && out.GetDeletionTimestamp() != nil {
			err = fmt.Errorf("the Inventory %s is being deleted: waiting for it to be gone", inv.Name)
		}
	}
	if err != nil {
		return nil, err
	}
	s.Count(Key(inv.Name), "Create", GVK.Kind)
	return s.remember(out)
}

// update writes an Inventory or a subresource of it, with its resourceVersion as a precondition.
func (s *Store) update(ctx context.Context, inv *keeper.Inventory, sub ...string) (*keeper.Inventory, error) {
	u, err := toUnstructured(inv)
	if err != nil {
		return nil, err
	}
	resource, err := s.resource()
	if err != nil {
		return nil, err
	}
	out, err := s.Client.Resource(resource).Update(ctx, u, metav1.UpdateOptions{FieldManager: observe.FieldManager}, sub...)
	if err != nil {
		return nil, err
	}
	s.Count(Key(inv.Name), "Apply", GVK.Kind)
	return s.remember(out)
}

// UpdateStatus writes the status of an Inventory, with its resourceVersion as a precondition.
func (s *Store) UpdateStatus(ctx context.Context, inv *keeper.Inventory) (*keeper.Inventory, error) {
	out, err := s.update(ctx, inv, "status")
	if err != nil {
		return nil, fmt.Errorf("write the status of Inventory %s: %w", inv.Name, err)
	}
	return out, nil
}

// Delete deletes an Inventory by UID; the garbage collector deletes what it owns. A conflict is an error like others: it does not
// prove that the Inventory with this UID is gone, and no event needs to follow.
func (s *Store) Delete(ctx context.Context, inv *keeper.Inventory) error {
	resource, err := s.resource()
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	err = s.Client.Resource(resource).Delete(ctx, inv.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &inv.UID}, PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Inventory %s: %w", inv.Name, err)
	}
	s.Count(Key(inv.Name), "Delete", GVK.Kind)
	return nil
}

func toUnstructured(o runtime.Object) (*unstructured.Unstructured, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: m}, nil
}

package reader

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/listing"
)

// Live is what a background job may read of the cluster.
type Live struct {
	Catalog Catalog
	Client  dynamic.Interface
	// ResourceAs is the client of a served kind with the rights of a user; an empty user has the operator's.
	ResourceAs func(user string, gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error)
}

var _ controller.Live = Live{}

// List implements controller.Live.
func (l Live) List(
	ctx context.Context, gvk schema.GroupVersionKind, namespace, selector string, limit int64,
) ([]unstructured.Unstructured, error) {
	mapping, ok := l.Catalog.Lookup(gvk)
	if !ok {
		return nil, fmt.Errorf("the cluster does not serve %s", gvk)
	}
	list, err := listing.First(ctx, l.Client.Resource(mapping.Resource).Namespace(namespace), selector, limit)
	if err != nil {
		return nil, fmt.Errorf("list %s in %s: %w", gvk.Kind, namespace, err)
	}
	return list, nil
}

// ListAs implements controller.Live.
func (l Live) ListAs(
	ctx context.Context, user string, gvk schema.GroupVersionKind, namespace string, limit int,
) ([]unstructured.Unstructured, error) {
	if _, ok := l.Catalog.Lookup(gvk); !ok {
		return nil, nil
	}
	resource, err := l.ResourceAs(user, gvk, namespace)
	if err != nil {
		return nil, err
	}
	var out []unstructured.Unstructured
	err = listing.Each(ctx, resource, "", listing.MaxListed, func(u *unstructured.Unstructured) bool {
		u.SetManagedFields(nil)
		out = append(out, *u)
		return len(out) <= limit
	})
	if err == nil && len(out) > limit {
		err = fmt.Errorf("there are more than %d", limit)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	return out, nil
}

// Get implements controller.Live.
func (l Live) Get(
	ctx context.Context, user string, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	if _, ok := l.Catalog.Lookup(gvk); !ok {
		return nil, nil
	}
	resource, err := l.ResourceAs(user, gvk, namespace)
	if err != nil {
		return nil, err
	}
	live, err := resource.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", gvk.Kind, name, err)
	}
	if gvk.Group != "" || gvk.Kind != "Secret" {
		live.SetManagedFields(nil) // Those of a Secret tell when its data was written.
	}
	return live, nil
}

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
	list, err := l.Client.Resource(mapping.Resource).Namespace(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: selector, Limit: limit, ResourceVersion: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("list %s in %s: %w", gvk.Kind, namespace, err)
	}
	return list.Items, nil
}

const (
	// listPage is how many objects of a list are read at once, and maxListed how large they may be together, in bytes: a user may have
	// large ones.
	listPage  = 25
	maxListed = 8 << 20
)

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
	left, next := maxListed, ""
	for {
		page, err := resource.List(ctx, metav1.ListOptions{Limit: listPage, Continue: next})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		for i := range page.Items {
			page.Items[i].SetManagedFields(nil)
			raw, err := page.Items[i].MarshalJSON()
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
			}
			left -= len(raw)
		}
		out = append(out, page.Items...)
		if next = page.GetContinue(); len(out) > limit || left < 0 {
			return nil, fmt.Errorf("list %s: there are more than %d, or more than %d bytes of them", gvk.Kind, limit, maxListed)
		}
		if next == "" {
			return out, nil
		}
	}
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
	live.SetManagedFields(nil)
	return live, nil
}

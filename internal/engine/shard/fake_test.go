package shard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// errNoAnswer is what a client gets that does not reach the API server.
var errNoAnswer = errors.New("no answer")

// store is the API server's part of Leases, with its optimistic concurrency.
type store struct {
	version int
	stored  map[string]*coordinationv1.Lease
}

func newStore() *store { return &store{stored: map[string]*coordinationv1.Lease{}} }

// storeClient is the client of one manager.
type storeClient struct {
	coordinationclient.LeaseInterface
	*store
	// fails says of a request, by its verb, whether it reaches the API server, and whether its answer does.
	fails func(verb string) (request, answer bool)
}

// answer does a request, unless it does not reach the API server.
func answer[T any](c *storeClient, verb string, do func() (T, error)) (T, error) {
	var none T
	request, answer := c.fails(verb)
	if request {
		return none, errNoAnswer
	}
	out, err := do()
	if answer {
		return none, errNoAnswer
	}
	return out, err
}

func (s *store) put(lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	out := lease.DeepCopy()
	out.ResourceVersion = strconv.Itoa(s.version)
	s.stored[out.Name] = out
	return out.DeepCopy()
}

func (c *storeClient) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	return answer(c, "list", func() (*coordinationv1.LeaseList, error) {
		out := &coordinationv1.LeaseList{}
		for _, name := range slices.Sorted(maps.Keys(c.stored)) {
			out.Items = append(out.Items, *c.stored[name].DeepCopy())
		}
		return out, nil
	})
}

func (c *storeClient) Create(_ context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return answer(c, "create", func() (*coordinationv1.Lease, error) {
		if _, exists := c.stored[lease.Name]; exists {
			return nil, apierrors.NewAlreadyExists(leaseResource, lease.Name)
		}
		return c.put(lease), nil
	})
}

func (c *storeClient) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return answer(c, "update", func() (*coordinationv1.Lease, error) {
		switch was, exists := c.stored[lease.Name]; {
		case !exists:
			return nil, apierrors.NewNotFound(leaseResource, lease.Name)
		case was.ResourceVersion != lease.ResourceVersion:
			return nil, apierrors.NewConflict(leaseResource, lease.Name, errors.New("it was changed"))
		}
		return c.put(lease), nil
	})
}

func (c *storeClient) Delete(_ context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := answer(c, "delete", func() (struct{}, error) {
		switch was, exists := c.stored[name]; {
		case !exists:
			return struct{}{}, apierrors.NewNotFound(leaseResource, name)
		case was.ResourceVersion != *opts.Preconditions.ResourceVersion:
			return struct{}{}, apierrors.NewConflict(leaseResource, name, errors.New("it was changed"))
		}
		delete(c.stored, name)
		return struct{}{}, nil
	})
	return err
}

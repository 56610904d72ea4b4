package scenario

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/world"
)

// few is how many pairs of a long comparison are run.
func (b *Bench) few(n int) int {
	if b.Config.Quick {
		return 1
	}
	return n
}

// bootTrusted boots a cluster with a namespace, and an administrator in the operator's own, as config/components/trusted has it.
func (b *Bench) bootTrusted(ctx context.Context, ns string, flags ...string) (*world.Cluster, *world.Identity, error) {
	c, err := world.Boot(ctx, b.Config.Devcluster, flags...)
	if err != nil {
		return nil, nil, err
	}
	_, err = c.Install(ctx, b.Config.Manifest)
	var id *world.Identity
	if err == nil {
		id, err = c.Administrator(ctx, world.OperatorNamespace, "trusted")
	}
	if err == nil {
		err = errors.Join(c.Apply(ctx, []*unstructured.Unstructured{namespace(ns)}), c.Quiet(ctx, settled, readyTimeout), installed(ctx, c))
	}
	if err != nil {
		c.Stop()
		return nil, nil, err
	}
	return c, id, nil
}

// installed waits until the garbage collector knows the operator's own kinds: it looks for new ones every 30 s. On a cluster
// where the operator was installed before, it does; until then it asks live for each object with such an owner.
func installed(ctx context.Context, c *world.Cluster) error {
	return until(ctx, func() error {
		watches, err := c.Audit.Watching("system:kube-controller-manager", time.Now())
		if err == nil && !slices.ContainsFunc(watches, func(e audit.Entry) bool { return e.Resource == "inventories" }) {
			err = errors.New("the garbage collector does not watch inventories")
		}
		return err
	})
}

// until asks five times a second, for readyTimeout at most, until something is right. It gives up before when one of the
// operators has died.
func until(ctx context.Context, right func() error, operators ...*world.Operator) error {
	for deadline := time.Now().Add(readyTimeout); ; {
		err := right()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		dead := world.Pause(ctx, 200*time.Millisecond)
		for _, op := range operators {
			dead = errors.Join(dead, op.Running())
		}
		if dead != nil {
			return dead
		}
	}
}

func namespace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
}

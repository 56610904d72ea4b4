package scenario

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/bench/internal/world"
)

// few is how many pairs of a long comparison are run.
func (b *Bench) few(n int) int {
	if b.Config.Quick {
		return 1
	}
	return n
}

// bootTrusted boots a cluster on which no webhook is called, with a namespace, and an administrator in the operator's own, as
// config/trusted has it.
func (b *Bench) bootTrusted(ctx context.Context, ns string, flags ...string) (*world.Cluster, *world.Identity, error) {
	c, err := world.Boot(ctx, b.Config.Devcluster, append([]string{"--webhook-admission=false"}, flags...)...)
	if err != nil {
		return nil, nil, err
	}
	_, err = c.Install(ctx, b.Config.Manifest)
	var id *world.Identity
	if err == nil {
		id, err = c.Administrator(ctx, world.OperatorNamespace, "trusted")
	}
	if err == nil {
		err = errors.Join(c.Apply(ctx, []*unstructured.Unstructured{namespace(ns)}), c.Quiet(ctx, settled, readyTimeout))
	}
	if err != nil {
		c.Stop()
		return nil, nil, err
	}
	return c, id, nil
}

func namespace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
}

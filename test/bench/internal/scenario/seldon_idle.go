package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/world"
)

// seldonIdle looks at an operator whose SeldonOperator is Ready with all switches on. Whatever is rendered is rendered for a
// reconcile, so that without one there is no rendering.
func (b *Bench) seldonIdle(ctx context.Context, repository string) error {
	c, id, err := b.bootTrusted(ctx, seldonNamespace, "--crds", "istio,knative")
	if err != nil {
		return err
	}
	defer c.Stop()
	op, err := b.runSeldon(ctx, c, id, repository)
	if err != nil {
		return err
	}
	defer op.Stop(30 * time.Second)
	stack := seldonStack("analytics", "catalogue", "payloadstore", "routing", "detectors")
	if err := errors.Join(c.Apply(ctx, append(seldonVolumes(), stack)), b.seldonReady(ctx, c, op)); err != nil {
		return err
	}
	if err := c.Quiet(ctx, 5*time.Second, readyTimeout); err != nil {
		return err
	}
	before, err := op.Metrics(ctx)
	if err != nil {
		return err
	}
	span, mark := min(seldonIdle, b.Config.Idle), c.Audit.Mark()
	b.say("looking at the idle operator for %s", span)
	if err := world.Pause(ctx, span); err != nil {
		return err
	}
	after, err := op.Metrics(ctx)
	if err != nil {
		return err
	}
	entries, err := c.Audit.Entries(mark, id.User)
	if err != nil {
		return err
	}
	var writes, reads []audit.Entry
	for _, e := range entries {
		switch e.Class() {
		case audit.Write, audit.Event:
			writes = append(writes, e)
		case audit.Get, audit.List:
			reads = append(reads, e)
		}
	}
	what := fmt.Sprintf(" in %s of idling with all switches on", span)
	b.count("seldon.idleWrites", "writes"+what, len(writes), audit.Count(writes).String())
	b.count("seldon.idleReads", "live reads"+what, len(reads), audit.Count(reads).String())
	reconciles := after.Since(before, reconcilesMetric)
	b.count("seldon.idleReconciles", "reconciles, and so renderings,"+what, int(sum(reconciles)), describeCounts(reconciles))
	return nil
}

// seldonVolumes are volumes for the claims of the trial components, which nothing provisions here.
func seldonVolumes() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for i := range 4 {
		out = append(out, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolume", "metadata": map[string]any{"name": fmt.Sprintf("trial-%d", i)},
			"spec": map[string]any{
				"capacity": map[string]any{"storage": "8Gi"}, "accessModes": []any{"ReadWriteOnce"}, "hostPath": map[string]any{"path": "/nowhere"},
			},
		}})
	}
	return out
}

// seldonReady waits until the SeldonOperator is Ready.
func (b *Bench) seldonReady(ctx context.Context, c *world.Cluster, op *world.Operator) error {
	return b.seldonUntil(ctx, c, op, func(u *unstructured.Unstructured) error {
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, item := range conditions {
			if one, ok := item.(map[string]any); ok && one["type"] == "Ready" && one["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("it is not Ready: %v", conditions)
	})
}

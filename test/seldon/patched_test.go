package seldon

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/test/cluster"
)

// patched changes what no value of a chart does, and then gives a patch that cannot be applied.
func patched(t *testing.T, c *cluster.Cluster, ns string) {
	const good = `{target: {kind: Deployment, name: seldon-deploy}, patch: "- {op: add, path: /spec/minReadySeconds, value: 1}"}`
	before := revisionOf(get(t, c, ns, "stack").Status.Components, "enterprise")
	apply(t, c, ns, "{enterprise: {patches: ["+good+"], commonMetadata: {labels: {team: a}}}}")
	cluster.Eventually(t, patience, func() error {
		d := c.Get(t, deployments, ns, "seldon-deploy")
		if team := text(d, "metadata", "labels", "team"); team != "a" || fmt.Sprint(d.Object["spec"].(map[string]any)["minReadySeconds"]) != "1" {
			return fmt.Errorf("it is of team %q: %v", team, d.Object["spec"])
		}
		return ready(get(t, c, ns, "stack"))
	})
	if after := revisionOf(get(t, c, ns, "stack").Status.Components, "enterprise"); after != before+1 {
		t.Errorf("revision %d is followed by %d", before, after)
	}
	if team := text(c.Get(t, deployments, ns, "seldon-controller-manager"), "metadata", "labels", "team"); team != "" {
		t.Errorf("another component is of team %q", team)
	}
	apply(t, c, ns, "{enterprise: {patches: ["+good+", {patch: 'kind: none'}]}}")
	cluster.Eventually(t, patience, func() error { return reason(get(t, c, ns, "stack"), "ChartFailed", "spec.enterprise.patches[1]") })
	if !meta.IsStatusConditionTrue(get(t, c, ns, "stack").Status.Conditions, "Stalled") {
		t.Error("it is not Stalled")
	}
	apply(t, c, ns, "{}")
	cluster.Eventually(t, patience, func() error {
		if team := text(c.Get(t, deployments, ns, "seldon-deploy"), "metadata", "labels", "team"); team != "" {
			return fmt.Errorf("it is still of team %q", team)
		}
		return ready(get(t, c, ns, "stack"))
	})
}

// revisionOf is the revision of a component.
func revisionOf(components []v1alpha1.ComponentStatus, name string) int32 {
	for _, c := range components {
		if c.Name == name {
			return c.Revision
		}
	}
	return 0
}

package kubeflow

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

var leases = schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}

// TestARestartKeepsWhatARefusedPlanWasToReplace has the operator start with a change that is refused: what the plan no longer has stays, though
// no watch shows it yet.
func TestARestartKeepsWhatARefusedPlanWasToReplace(t *testing.T) {
	c := cluster.Start(t)
	a := mirror(t)
	c.InstallCRDs(t)
	ns := c.Namespace(t)
	grant(t, c, ns)
	const lease = "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: old}, spec: {holderIdentity: a}}"
	archive(t, c, ns, "kf", application("one", configMap("one")+"\n---\n"+lease))
	o := start(t, c, a, harness.Options{}, kubeflow.Settings{})
	apply(t, c, ns, "kf", "", "one")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	o.Settle(t, time.Minute)
	o.Stop()
	lost := c.Get(t, leases, ns, "old").GetUID()
	// The API server refuses a value that is no quantity.
	const refused = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: new}, spec: {hard: {pods: many}}}"
	archive(t, c, ns, "kf", application("one", configMap("one")+"\n---\n"+refused))
	o = start(t, c, a.again(t), harness.Options{}, kubeflow.Settings{})
	cluster.Eventually(t, time.Minute, func() error { return reason(get(t, c, ns, "kf"), "Invalid", "ResourceQuota "+ns+"/new") })
	o.Settle(t, time.Minute)
	if now := c.Get(t, leases, ns, "old"); now == nil || now.GetUID() != lost || now.GetDeletionTimestamp() != nil {
		t.Errorf("what was refused did not replace it, and it is gone: %v", now)
	}
	archive(t, c, ns, "kf", application("one", configMap("one")))
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, leases, ns, "old") })
	remove(t, c, ns, "kf")
}

// TestWhatReplacesAnObjectIsServedBeforeThatIsPruned: a misspelled kind, or one whose definition is not installed yet, deletes nothing of what runs.
func TestWhatReplacesAnObjectIsServedBeforeThatIsPruned(t *testing.T) {
	c := cluster.Start(t)
	a := mirror(t)
	c.InstallCRDs(t)
	ns := c.Namespace(t)
	grant(t, c, ns)
	const (
		lease      = "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: old}, spec: {holderIdentity: a}}"
		misspelled = "{apiVersion: coordination.k8s.io/v1, kind: Leese, metadata: {name: new}, spec: {holderIdentity: a}}"
	)
	archive(t, c, ns, "kf", application("one", configMap("one")+"\n---\n"+lease))
	o := start(t, c, a, harness.Options{}, kubeflow.Settings{})
	apply(t, c, ns, "kf", "", "one")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	before := c.Get(t, leases, ns, "old").GetUID()
	archive(t, c, ns, "kf", application("one", configMap("one")+"\n---\n"+misspelled))
	cluster.Eventually(t, time.Minute, func() error {
		return reason(get(t, c, ns, "kf"), "Progressing", "is not served, install what provides it")
	})
	o.Settle(t, time.Minute)
	if now := c.Get(t, leases, ns, "old"); now == nil || now.GetUID() != before || now.GetDeletionTimestamp() != nil {
		t.Errorf("what replaces it cannot be made, and it is gone: %v", now)
	}
	archive(t, c, ns, "kf", application("one", configMap("one")+"\n---\n"+strings.Replace(lease, "old", "new", 1)))
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, leases, ns, "old") })
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	if c.Get(t, leases, ns, "new") == nil {
		t.Error("the corrected object is not there")
	}
	remove(t, c, ns, "kf")
}

package kubeflow

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// oldLease is replaced by another object, such as newLease, and must not go before that exists.
const oldLease = "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: old}, spec: {holderIdentity: a}}"

var newLease = strings.Replace(oldLease, "old", "new", 1)

// leaseStays waits until the operator is through, and fails the test unless a Lease is still the one with a UID.
func leaseStays(t *testing.T, c *cluster.Cluster, o *harness.Operator, ns, name string, uid types.UID, when string) {
	t.Helper()
	o.Settle(t, time.Minute)
	if now := c.Get(t, leases, ns, name); now == nil || now.GetUID() != uid || now.GetDeletionTimestamp() != nil {
		t.Errorf("%s, and it is gone: %v", when, now)
	}
}

// kubeflowIn installs what the KfDefs of a namespace need.
func kubeflowIn(t *testing.T) (c *cluster.Cluster, a archives, ns string) {
	t.Helper()
	c, a = cluster.Start(t), mirror(t)
	c.InstallCRDs(t)
	ns = c.Namespace(t)
	grant(t, c, ns)
	return c, a, ns
}

var leases = schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}

// TestARestartKeepsWhatARefusedPlanWasToReplace has the operator start with a change that is refused: what the plan no longer has stays, though
// no watch shows it yet.
func TestARestartKeepsWhatARefusedPlanWasToReplace(t *testing.T) {
	c, a, ns := kubeflowIn(t)
	archive(t, c, ns, "kf", application("one", configMap("one")+"\n---\n"+oldLease))
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
	leaseStays(t, c, o, ns, "old", lost, "what was refused did not replace it")
	archive(t, c, ns, "kf", application("one", configMap("one")))
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, leases, ns, "old") })
	remove(t, c, ns, "kf")
}

// TestWhatReplacesAnObjectIsServedBeforeThatIsPruned: a misspelled kind, or one whose definition is not installed yet, deletes nothing of what runs.
func TestWhatReplacesAnObjectIsServedBeforeThatIsPruned(t *testing.T) {
	c, a, ns := kubeflowIn(t)
	misspelled := strings.Replace(newLease, "Lease", "Leese", 1)
	archive(t, c, ns, "kf", application("one", configMap("one")+"\n---\n"+oldLease))
	o := start(t, c, a, harness.Options{}, kubeflow.Settings{})
	apply(t, c, ns, "kf", "", "one")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	before := c.Get(t, leases, ns, "old").GetUID()
	archive(t, c, ns, "kf", application("one", configMap("one")+"\n---\n"+misspelled))
	cluster.Eventually(t, time.Minute, func() error {
		return reason(get(t, c, ns, "kf"), "Progressing", "is not served, install what provides it")
	})
	leaseStays(t, c, o, ns, "old", before, "what replaces it cannot be made")
	archive(t, c, ns, "kf", application("one", configMap("one")+"\n---\n"+newLease))
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, leases, ns, "old") })
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	if c.Get(t, leases, ns, "new") == nil {
		t.Error("the corrected object is not there")
	}
	remove(t, c, ns, "kf")
}

// TestWhatReplacesAnObjectIsMadeBeforeThatIsPruned: an application waits for another one that is not healthy, and keeps what it has.
func TestWhatReplacesAnObjectIsMadeBeforeThatIsPruned(t *testing.T) {
	c, a, ns := kubeflowIn(t)
	archiveOf := func(first, second string) {
		files := application("one", first)
		maps.Copy(files, application("two", second))
		archive(t, c, ns, "kf", files)
	}
	archiveOf(configMap("one"), oldLease)
	o := start(t, c, a, harness.Options{}, kubeflow.Settings{})
	apply(t, c, ns, "kf", "", "one", "two {dependsOn: [one]}")
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	before := c.Get(t, leases, ns, "old").GetUID()
	// No node takes its pod.
	const pending = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: pending}, spec: {selector: {matchLabels: {a: b}}, template: {" +
		"metadata: {labels: {a: b}}, spec: {nodeSelector: {is: nowhere}, containers: [{name: c, image: x}]}}}}"
	archiveOf(configMap("one")+"\n---\n"+pending, newLease)
	cluster.Eventually(t, time.Minute, func() error { return reason(get(t, c, ns, "kf"), "Progressing", "") })
	leaseStays(t, c, o, ns, "old", before, "what replaces it waits for another application")
	archiveOf(configMap("one"), newLease)
	cluster.Eventually(t, time.Minute, func() error { return c.Gone(t, leases, ns, "old") })
	cluster.Eventually(t, time.Minute, func() error { return ready(get(t, c, ns, "kf")) })
	before = c.Get(t, leases, ns, "new").GetUID()
	// A folder without a kustomization, as with a path that is one folder too short.
	files := application("one", configMap("one"))
	files["two/readme.md"] = &fstest.MapFile{Data: []byte("nothing")}
	archive(t, c, ns, "kf", files)
	cluster.Eventually(t, time.Minute, func() error {
		if cr := get(t, c, ns, "kf"); !strings.Contains(strings.Join(cr.Status.Warnings, "\n"), "what it made before stays") {
			return fmt.Errorf("the warnings are %q", cr.Status.Warnings)
		}
		return ready(get(t, c, ns, "kf"))
	})
	leaseStays(t, c, o, ns, "new", before, "the application renders nothing")
	remove(t, c, ns, "kf")
}

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/pki"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// unstored is a service of which a generated Secret cannot be stored.
type unstored struct {
	ns string
	// secret is the one that somebody else has; empty where a quota refuses all.
	secret, reason string
	// runs says that the service ran before, with certificates that are due for renewal now.
	runs        bool
	generation  int64
	replicaSets int
	trusts      string
}

func (u *unstored) String() string {
	return fmt.Sprintf("%s %s of a service that runs: %t", u.reason, u.secret, u.runs)
}

// prevent puts a Secret of somebody in the place of a generated one, or leaves no quota for any.
func (u *unstored) prevent(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if u.secret == "" {
		if u.runs {
			c.Kubectl(t, "-n", u.ns, "delete", "secret", "tas-tls")
		}
		c.Kubectl(t, "-n", u.ns, "create", "quota", "full", "--hard=count/secrets=0")
		cluster.Eventually(t, time.Minute, func() error {
			if text := c.Kubectl(t, "-n", u.ns, "get", "quota", "full", "-o", "jsonpath={.status.hard}"); !strings.Contains(text, "secrets") {
				return fmt.Errorf("the quota is not counted yet: %q", text)
			}
			return nil
		})
		return
	}
	if u.runs {
		c.Kubectl(t, "-n", u.ns, "delete", "secret", u.secret)
	}
	c.Kubectl(t, "-n", u.ns, "create", "secret", "generic", u.secret, "--from-literal=tls.crt=theirs", "--from-literal=tls.key=theirs")
}

// look counts what a rollout would add to.
func (u *unstored) look(t *testing.T, c *cluster.Cluster) (generation int64, replicaSets int, trusts string) {
	t.Helper()
	if d := c.Get(t, gvkOf("apps/v1", "Deployment"), u.ns, "tas"); d != nil {
		generation = d.GetGeneration()
	}
	replicaSets = len(strings.Fields(c.Kubectl(t, "-n", u.ns, "get", "replicasets", "-o", "name")))
	if route := c.Get(t, gvkOf("route.openshift.io/v1", "Route"), u.ns, "tas"); route != nil {
		trusts, _, _ = unstructured.NestedString(route.Object, "spec", "tls", "destinationCACertificate")
	}
	return generation, replicaSets, trusts
}

// TestGeneratedCertificatesThatCannotBeStoredRollNothing has Secured services without service-ca and cert-manager. While a
// Secret that MLKeeper generates cannot be stored, no pod is started and none restarted for it, and the writes come with
// growing pauses.
func TestGeneratedCertificatesThatCannotBeStoredRollNothing(t *testing.T) {
	const watched, attempts = 30 * time.Second, 8
	c := cluster.Shared(t)
	var all []*unstored
	var namespaces []string
	for _, runs := range []bool{true, false} {
		for _, secret := range []string{"tas-tls", "tas-internal", "tas-ca", ""} {
			u := &unstored{ns: c.Namespace(t), secret: secret, reason: "ResourceConflict", runs: runs}
			if secret == "" {
				u.reason = "QuotaExceeded"
			}
			all, namespaces = append(all, u), append(namespaces, u.ns)
			boundClaim(t, c, u.ns, "tas-pvc")
		}
	}
	now := &harness.ShiftedClock{}
	opts := harness.Options{Engine: engine.Options{Namespaces: namespaces, Clock: now}}
	first := start(t, c, opts)
	for _, u := range all {
		if u.runs {
			c.Apply(t, upstream, u.ns)
		}
	}
	for _, u := range all {
		if u.runs {
			condition(t, c, u.ns, "tas", "Ready", metav1.ConditionTrue)
			u.generation, u.replicaSets, u.trusts = u.look(t, c)
			if u.generation != 1 || u.replicaSets != 1 || u.trusts == "" {
				t.Errorf("%s: generation %d and %d ReplicaSets before", u, u.generation, u.replicaSets)
			}
		}
	}
	first.Stop()
	now.Shift(pki.LeafLife * 3 / 4)
	for _, u := range all {
		u.prevent(t, c)
		if !u.runs {
			c.Apply(t, upstream, u.ns)
		}
	}
	second := start(t, c, opts)
	for _, u := range all {
		name := u.secret
		if name == "" {
			name = "Secret " + u.ns + "/tas-"
		}
		cluster.Eventually(t, time.Minute, func() error {
			ready := meta.FindStatusCondition(get(t, c, u.ns, "tas").Status.Conditions, "Ready")
			if ready == nil || ready.Status == metav1.ConditionTrue || ready.Reason != u.reason || !strings.Contains(ready.Message, name) {
				return fmt.Errorf("%s: %+v", u, ready)
			}
			return nil
		})
	}
	for _, u := range all {
		if !u.runs && (u.secret == "tas-tls" || u.secret == "tas-internal") {
			_, _, u.trusts = u.look(t, c) // The authority is stored.
		}
	}
	before := second.Requests.Snapshot()
	<-time.After(watched)
	writes := cluster.Sum(second.Requests.Since(before), func(r cluster.Request) bool { return r.Write() && r.Resource == "secrets" })
	rollouts := 0
	for _, u := range all {
		generation, replicaSets, trusts := u.look(t, c)
		if generation != u.generation || replicaSets != u.replicaSets || trusts != u.trusts {
			t.Errorf("%s: generation %d, was %d; %d ReplicaSets, were %d; the Route trusts the same: %t",
				u, generation, u.generation, replicaSets, u.replicaSets, trusts == u.trusts)
		}
		rollouts += replicaSets - u.replicaSets
	}
	t.Logf("%d services, %s: %d rollouts, %d writes of Secrets", len(all), watched, rollouts, writes)
	if writes > attempts*len(all) {
		t.Errorf("%d writes of Secrets in %s:\n%s", writes, watched, cluster.Describe(second.Requests.Since(before)))
	}
	// What stood in the way goes, and so the services come up, or get their certificates.
	for _, u := range all {
		what := []string{"secret", u.secret}
		if u.secret == "" {
			what = []string{"quota", "full"}
		}
		c.Kubectl(t, append([]string{"-n", u.ns, "delete"}, what...)...)
		c.Kubectl(t, "-n", u.ns, "annotate", "trustyaiservice", "tas", keeper.ReconcileAtAnnotation+"=now")
	}
	for _, u := range all {
		condition(t, c, u.ns, "tas", "Ready", metav1.ConditionTrue)
		if _, replicaSets, _ := u.look(t, c); replicaSets != u.replicaSets+1 {
			t.Errorf("%s: %d ReplicaSets at the end, %d before", u, replicaSets, u.replicaSets)
		}
	}
}

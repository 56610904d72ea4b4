package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/cli"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// stateOf is which objects of a namespace there are, and in which version, pods left out, once the controllers of Kubernetes have written
// nothing for two seconds.
func stateOf(t *testing.T, c *cluster.Cluster, ns string) string {
	t.Helper()
	state, since := "", time.Now()
	cluster.Eventually(t, time.Minute, func() error {
		before := state
		state = c.Kubectl(t, "-n", ns, "get", "sa,svc,cm,deploy,rs,servicemonitors,routes,pvc,secret,tas", "-o",
			"jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.metadata.resourceVersion}{'\\n'}{end}")
		if state != before {
			since = time.Now()
		}
		if time.Since(since) < 2*time.Second {
			return fmt.Errorf("it still changes:\n%s", state)
		}
		return nil
	})
	return state
}

// adopted waits until the operator has adopted the service of upstreamService.
func adopted(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	cluster.Eventually(t, time.Minute, func() error {
		if now := c.Get(t, gvk, ns, "tas"); len(now.GetFinalizers()) > 0 {
			return fmt.Errorf("finalizers %v", now.GetFinalizers())
		}
		if st := get(t, c, ns, "tas").Status; st.StorageFormat == "" {
			return fmt.Errorf("not adopted yet: %+v", st.Conditions)
		}
		return nil
	})
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
}

// TestAnAdoptionIsToldFirst compares what `mlkeeper diff --adopt` tells of a running service of upstream's with what the operator then does.
func TestAnAdoptionIsToldFirst(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	pods, sh := upstreamService(t, c, ns), newShell(t, c)
	before := stateOf(t, c, ns)
	told := sh.says(1, []string{
		"the finalizer of the previous operator is removed: " + upstreamFinalizer,
		"PersistentVolumeClaim " + ns + "/tas-pvc: it is released, and stays when the custom resource is deleted",
		"changed ClusterRoleBinding tas-" + ns + "-proxy-rolebinding: the change needs an immutable field to change",
		"1 adopted, 1 objects released, no pod restarts",
	}, cli.NewDiffCommand, "--adopt", "-n", ns, "-o", "summary")
	if now := stateOf(t, c, ns); now != before {
		t.Errorf("telling wrote:\n%s\nwas\n%s", now, before)
	}

	start(t, c, harness.Options{})
	adopted(t, c, ns)
	if now := podUIDs(t, c, ns); !slices.Equal(now, pods) {
		t.Errorf("the pods were replaced: %v, not %v", now, pods)
	}
	// Nothing was written that was not listed. The Deployment controller writes the ReplicaSet when the Deployment changes.
	after := stateOf(t, c, ns)
	for line := range strings.Lines(before) {
		kind, rest, _ := strings.Cut(line, " ")
		name, _, _ := strings.Cut(rest, " ")
		if !strings.Contains(after, line) && kind != "ReplicaSet" && !strings.Contains(told, "  "+kind+" "+ns+"/"+name) {
			t.Errorf("%s %s was written, which was not told:\n%s", kind, name, told)
		}
	}
	sh.says(0, []string{"there is nothing to adopt"}, cli.NewDiffCommand, "--adopt", "-n", ns)
	sh.says(0, []string{"0 created, 0 changed, 0 deleted"}, cli.NewDiffCommand, "tas/tas", "-n", ns)
}

// TestHandBackKeepsPodsAndData adopts a running service of upstream's and hands it back: the custom resource owns its objects as before, and
// neither the end of the Inventories nor anything else takes a pod.
func TestHandBackKeepsPodsAndData(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	pods, sh := upstreamService(t, c, ns), newShell(t, c)
	o := start(t, c, harness.Options{})
	adopted(t, c, ns)
	o.Stop()

	before := stateOf(t, c, ns)
	sh.says(0, []string{"dry run: Deployment " + ns + "/tas: owned by"}, cli.NewHandBackCommand, "--dry-run")
	if now := stateOf(t, c, ns); now != before {
		t.Errorf("the dry run wrote:\n%s\nwas\n%s", now, before)
	}
	sh.says(0, []string{"apply the original operator's manifest"}, cli.NewHandBackCommand)
	out := sh.says(0, nil, cli.NewHandBackCommand)
	if strings.Contains(out, "owned by") {
		t.Errorf("the second run does something:\n%s", out)
	}

	owner := c.Get(t, gvk, ns, "tas")
	for _, want := range []struct{ apiVersion, kind, name string }{
		{"v1", "ServiceAccount", "tas-proxy"},
		{"v1", "Service", "tas"},
		{"v1", "Service", "tas-tls"},
		{"apps/v1", "Deployment", "tas"},
		{"v1", "ConfigMap", "tas-kube-rbac-proxy-config"},
	} {
		u := c.Get(t, gvkOf(want.apiVersion, want.kind), ns, want.name)
		if refs := u.GetOwnerReferences(); len(refs) != 1 || refs[0].UID != owner.GetUID() {
			t.Errorf("%s %s has the owners %v", want.kind, want.name, refs)
		}
	}
	if c.Get(t, gvkOf("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), "", "tas-"+ns+"-proxy-rolebinding") != nil {
		t.Error("the binding of MLKeeper's role stays, which upstream would not correct")
	}
	cluster.Eventually(t, time.Minute, func() error {
		if left := c.Kubectl(t, "get", "inventories", "-o", "jsonpath={.items[?(@.spec.owner.namespace=='"+ns+"')].metadata.name}"); left != "" {
			return fmt.Errorf("the Inventories %s are left", left)
		}
		return nil
	})
	c.Consistently(t, 5*time.Second, func() error {
		if now := podUIDs(t, c, ns); !slices.Equal(now, pods) {
			return fmt.Errorf("the pods were replaced: %v, not %v", now, pods)
		}
		return nil
	})
	// With upstream, which has no finalizer on it yet, the objects go with the custom resource; the data stays.
	c.Kubectl(t, "-n", ns, "delete", "trustyaiservice", "tas")
	cluster.Eventually(t, time.Minute, func() error {
		if out := c.Kubectl(t, "-n", ns, "get", "svc,deploy,pod,pvc", "-o", "name"); out != "persistentvolumeclaim/tas-pvc\n" {
			return fmt.Errorf("what is left is\n%s", out)
		}
		return nil
	})
}

package kubeflow

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/source"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestARefusedRepositoryEndsNoRepair takes the archive away while the manager runs, while it restarts, and with what it kept.
func TestARefusedRepositoryEndsNoRepair(t *testing.T) {
	c := cluster.Start(t)
	var status atomic.Int32
	var content atomic.Pointer[[]byte]
	publish := func(value string) {
		t.Helper()
		packed, err := manifesttest.Pack(application("first", "{apiVersion: v1, kind: ConfigMap, metadata: {name: deployed}, data: {value: "+value+"}}"))
		if err != nil {
			t.Fatal(err)
		}
		content.Store(&packed)
	}
	publish("one")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if code := status.Load(); code != 0 {
			w.WriteHeader(int(code))
			return
		}
		_, _ = w.Write(*content.Load())
	}))
	t.Cleanup(server.Close)
	a := archives{server: server, options: source.Options{
		Dir: t.TempDir(), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Policy: source.Policy{AllowHTTP: true},
		Map: []source.Mapping{{From: "https://example.test", To: server.URL}},
	}}.again(t)
	ns := c.Namespace(t)
	grant(t, c, ns)
	o := start(t, c, a, harness.Options{}, kubeflow.Settings{})
	c.Apply(t, `
apiVersion: kfdef.apps.kubeflow.org/v1
kind: KfDef
metadata: {name: kf}
spec:
  serviceAccountName: mlkeeper
  applications: [{name: first, kustomizeConfig: {repoRef: {name: manifests, path: first}}}]
  repos: [{name: manifests, uri: "https://example.test/manifests.tar.gz"}]
`, ns)
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "kf")) })

	status.Store(http.StatusForbidden)
	c.Kubectl(t, "-n", ns, "annotate", "kfdef", "kf", "keeper.mlkeeper.dev/reconcile-at=now")
	since := unavailable(t, c, ns, "Unauthorized", "stays declared", nil)
	restores(t, c, ns)
	value(t, c, ns, "one")

	o.Stop()
	status.Store(http.StatusNotFound)
	c.Kubectl(t, "-n", ns, "delete", "configmap", "deployed")
	a = a.again(t)
	o = start(t, c, a, harness.Options{}, kubeflow.Settings{})
	value(t, c, ns, "one")
	unavailable(t, c, ns, "NotFound", "stays declared", since)

	// What was kept is lost, as an emptyDir with its pod: nothing can be repaired, and nothing is pruned.
	o.Stop()
	status.Store(http.StatusUnauthorized)
	a.options.Dir = t.TempDir()
	a = a.again(t)
	start(t, c, a, harness.Options{}, kubeflow.Settings{})
	unavailable(t, c, ns, "Unauthorized", "nothing is repaired", since)
	value(t, c, ns, "one")

	publish("two")
	status.Store(0)
	value(t, c, ns, "two")
	cluster.Eventually(t, patience, func() error {
		cr := get(t, c, ns, "kf")
		if meta.FindStatusCondition(cr.Status.Conditions, kubeflow.ConditionSourceUnavailable) != nil {
			return fmt.Errorf("the repository is back: %+v", cr.Status.Conditions)
		}
		return ready(cr)
	})
}

// TestAnAbsentSecretEndsNoRepair deletes a Secret whose entries are variables while the manager runs, and while it restarts.
func TestAnAbsentSecretEndsNoRepair(t *testing.T) {
	c := cluster.Start(t)
	ns := c.Namespace(t)
	grant(t, c, ns)
	a := mirror(t)
	o := start(t, c, a, harness.Options{}, kubeflow.Settings{})
	archive(t, c, ns, "kf", application("one", "{apiVersion: v1, kind: ConfigMap, metadata: {name: deployed}, data: {value: '${VALUE}'}}"))
	secret := func(value string) {
		t.Helper()
		c.Apply(t, "{apiVersion: v1, kind: Secret, metadata: {name: variables}, stringData: {VALUE: "+value+"}}\n", ns)
	}
	secret("one")
	c.Apply(t, `
apiVersion: kfdef.apps.kubeflow.org/v1
kind: KfDef
metadata: {name: kf}
spec:
  serviceAccountName: mlkeeper
  rendering: Kustomize
  applications:
  - {name: one, kustomizeConfig: {repoRef: {name: manifests, path: one/base}}, postBuild: {substituteFrom: [{kind: Secret, name: variables}]}, namespace: `+ns+`}
  repos: [{name: manifests, uri: 'configmap:kf/manifests.tar.gz'}]
`, ns)
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "kf")) })

	absent := func() error { return reason(get(t, c, ns, "kf"), "SecretNotFound", "there is no Secret of this name") }
	c.Kubectl(t, "-n", ns, "delete", "secret", "variables")
	cluster.Eventually(t, patience, absent)
	restores(t, c, ns)
	value(t, c, ns, "one")
	if err := absent(); err != nil {
		t.Error(err)
	}
	if cr := get(t, c, ns, "kf"); cr.Status.ApplicationsReady != "1/1" {
		t.Errorf("%+v", cr.Status)
	}

	// After a restart nobody knows what was rendered: nothing is repaired, and nothing is pruned.
	o.Stop()
	o = start(t, c, a, harness.Options{}, kubeflow.Settings{})
	o.Settle(t, patience)
	if err := absent(); err != nil {
		t.Error(err)
	}
	value(t, c, ns, "one")

	secret("two")
	value(t, c, ns, "two")
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "kf")) })
}

// unavailable waits until the repository is told to be so, since the time that is given, and that it is Stalled.
func unavailable(t *testing.T, c *cluster.Cluster, ns, reason, text string, since *metav1.Time) *metav1.Time {
	t.Helper()
	var out *metav1.Time
	cluster.Eventually(t, patience, func() error {
		conditions := get(t, c, ns, "kf").Status.Conditions
		got := meta.FindStatusCondition(conditions, kubeflow.ConditionSourceUnavailable)
		if got == nil || got.Reason != reason || !strings.Contains(got.Message, text) || !meta.IsStatusConditionTrue(conditions, "Stalled") {
			return fmt.Errorf("want %s with %q, and Stalled: %+v", reason, text, conditions)
		}
		out = &got.LastTransitionTime
		return nil
	})
	if since != nil && !since.Equal(out) {
		t.Errorf("it is unavailable since %s, told is %s", since, out)
	}
	return out
}

// restores deletes what is deployed by hand, and waits until it is there again.
func restores(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	before := c.Get(t, configMaps, ns, "deployed")
	c.Kubectl(t, "-n", ns, "delete", "configmap", "deployed")
	cluster.Eventually(t, patience, func() error {
		if after := c.Get(t, configMaps, ns, "deployed"); after == nil || after.GetUID() == before.GetUID() {
			return fmt.Errorf("it is not restored")
		}
		return nil
	})
}

// value waits until what is deployed has a value.
func value(t *testing.T, c *cluster.Cluster, ns, want string) {
	t.Helper()
	cluster.Eventually(t, patience, func() error {
		o := c.Get(t, configMaps, ns, "deployed")
		if o == nil {
			return fmt.Errorf("it is not there")
		}
		if data, _ := o.Object["data"].(map[string]any); data["value"] != want {
			return fmt.Errorf("data %v, want %s", data, want)
		}
		return nil
	})
}

package seldon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/seldon"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestARefusedRepositoryEndsNoRepair takes the charts away while the manager runs, while it restarts, and with what it kept.
func TestARefusedRepositoryEndsNoRepair(t *testing.T) {
	c := cluster.Start(t)
	var status atomic.Int32
	var charts atomic.Pointer[http.Handler]
	publish := func(value string) {
		t.Helper()
		var all []manifesttest.Chart
		for _, name := range []string{"seldon-core-operator", "seldon-deploy"} {
			packed, err := manifesttest.Pack(fstest.MapFS{
				"Chart.yaml":             {Data: []byte("apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n")},
				"templates/objects.yaml": {Data: fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-%s}\ndata: {value: %s}\n", name, value)},
			})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, manifesttest.Chart{Name: name, Version: "1.0.0", Archive: packed})
		}
		handler := manifesttest.ChartRepository(all...)
		charts.Store(&handler)
	}
	publish("one")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := status.Load(); code != 0 {
			w.WriteHeader(int(code))
			return
		}
		(*charts.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ns, dir := c.Namespace(t), t.TempDir()
	o, store := startIn(t, c, server.URL, dir, harness.Options{})
	apply(t, c, ns, "{core: {chart: {version: 1.0.0}}, enterprise: {chart: {version: 1.0.0}}}")
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "stack")) })

	status.Store(http.StatusForbidden)
	c.Kubectl(t, "-n", ns, "annotate", "seldonoperator", "stack", "keeper.mlkeeper.dev/reconcile-at=now")
	since := unavailable(t, c, ns, "Unauthorized", "stays declared", nil)
	before := c.Get(t, configMaps, ns, "of-seldon-deploy")
	c.Kubectl(t, "-n", ns, "delete", "configmap", "of-seldon-deploy")
	cluster.Eventually(t, patience, func() error {
		if after := c.Get(t, configMaps, ns, "of-seldon-deploy"); after == nil || after.GetUID() == before.GetUID() {
			return fmt.Errorf("it is not restored")
		}
		return nil
	})

	o.Stop()
	_ = store.Close()
	status.Store(http.StatusNotFound)
	c.Kubectl(t, "-n", ns, "delete", "configmap", "of-seldon-deploy")
	o, store = startIn(t, c, server.URL, dir, harness.Options{})
	hold(t, c, ns, "one")
	unavailable(t, c, ns, "NotFound", "stays declared", since)

	// What was kept is lost, as an emptyDir with its pod: nothing can be repaired, and nothing is pruned.
	o.Stop()
	_ = store.Close()
	status.Store(http.StatusUnauthorized)
	startIn(t, c, server.URL, t.TempDir(), harness.Options{})
	unavailable(t, c, ns, "Unauthorized", "nothing of it is repaired", since)
	hold(t, c, ns, "one")

	publish("two")
	status.Store(0)
	hold(t, c, ns, "two")
	cluster.Eventually(t, patience, func() error {
		cr := get(t, c, ns, "stack")
		if meta.FindStatusCondition(cr.Status.Conditions, seldon.ConditionSourceUnavailable) != nil {
			return fmt.Errorf("the repository is back: %+v", cr.Status.Conditions)
		}
		return ready(cr)
	})
}

// unavailable waits until the repository is told to be so, since the time that is given, and that it is Stalled.
func unavailable(t *testing.T, c *cluster.Cluster, ns, reason, text string, since *metav1.Time) *metav1.Time {
	t.Helper()
	var out *metav1.Time
	cluster.Eventually(t, patience, func() error {
		conditions := get(t, c, ns, "stack").Status.Conditions
		got := meta.FindStatusCondition(conditions, seldon.ConditionSourceUnavailable)
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

// hold waits until what both charts deploy has a value.
func hold(t *testing.T, c *cluster.Cluster, ns, want string) {
	t.Helper()
	cluster.Eventually(t, patience, func() error {
		for _, name := range []string{"of-seldon-core-operator", "of-seldon-deploy"} {
			o := c.Get(t, configMaps, ns, name)
			if o == nil {
				return fmt.Errorf("%s is not there", name)
			}
			if data, _ := o.Object["data"].(map[string]any); data["value"] != want {
				return fmt.Errorf("%s: data %v, want %s", name, data, want)
			}
		}
		return nil
	})
}

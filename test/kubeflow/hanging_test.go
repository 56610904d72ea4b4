package kubeflow

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestAHangingRepositoryCostsFewReconciles has repositories that take a request and never answer: a fetch under way is no
// reason to reconcile, nor is one that waits for a slot.
func TestAHangingRepositoryCostsFewReconciles(t *testing.T) {
	// slots are the fetches that the engine has under way at most.
	const slots, most, watched = 32, 10, 30 * time.Second
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hang) })
	c := cluster.Start(t)
	start(t, c, mirror(t), harness.Options{}, kubeflow.Settings{})
	ns := c.Namespace(t)
	grant(t, c, ns)
	for _, resources := range []int{1, slots + 8} {
		t.Run(fmt.Sprintf("%d", resources), func(t *testing.T) {
			before := harness.ReconcilesOf(t, "kfdef")
			for i := range resources {
				c.Apply(t, fmt.Sprintf("apiVersion: kfdef.apps.kubeflow.org/v1\nkind: KfDef\nmetadata: {name: hangs-%d-%d}\nspec:\n"+
					"  serviceAccountName: mlkeeper\n  repos: [{name: manifests, uri: '%s/manifests.tar.gz'}]\n"+
					"  applications: [{name: one, kustomizeConfig: {repoRef: {name: manifests, path: one}}}]\n", resources, i, server.URL), ns)
			}
			<-time.After(watched)
			for i := range resources {
				cr := get(t, c, ns, fmt.Sprintf("hangs-%d-%d", resources, i))
				if meta.IsStatusConditionTrue(cr.Status.Conditions, "Ready") || meta.FindStatusCondition(cr.Status.Conditions, "Ready") == nil {
					t.Errorf("%s: %+v", cr.Name, cr.Status.Conditions)
				}
			}
			reconciles := harness.ReconcilesOf(t, "kfdef") - before
			t.Logf("%d KfDefs: %d reconciles in %s", resources, reconciles, watched)
			if reconciles >= most*resources {
				t.Errorf("%d reconciles of %d KfDefs, which is not fewer than %d each", reconciles, resources, most)
			}
		})
	}
}

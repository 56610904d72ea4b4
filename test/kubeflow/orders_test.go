package kubeflow

import (
	"testing"
	"testing/fstest"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
	"mlkeeper.dev/test/orders"
)

// TestDeletionInEveryOrder: whatever is deleted in whatever order, nothing is left.
func TestDeletionInEveryOrder(t *testing.T) {
	orders.Every(t, orders.Kind{
		GVK: kfDef, CRD: "kfdefs.kfdef.apps.kubeflow.org", Name: "kf", Install: install,
		Start: func(t *testing.T, c *cluster.Cluster) *harness.Operator {
			return start(t, c, mirror(t), harness.Options{}, trusting)
		},
	})
}

// install makes a KfDef with an object outside of its namespace, so that there are Inventories.
func install(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	files := fstest.MapFS{}
	merge(files, application("web", configMap("settings")))
	merge(files, application("role", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: `+ns+`}, rules: []}`))
	archive(t, c, ns, "kf", files)
	c.Apply(t, `
apiVersion: kfdef.apps.kubeflow.org/v1
kind: KfDef
metadata: {name: kf}
spec:
  repos: [{name: manifests, uri: 'configmap:kf/manifests.tar.gz'}]
  applications:
  - {name: web, kustomizeConfig: {repoRef: {name: manifests, path: web}}}
  - {name: role, kustomizeConfig: {repoRef: {name: manifests, path: role}}}
`, ns)
}

package seldon

import (
	"testing"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
	"mlkeeper.dev/test/orders"
)

// TestDeletionInEveryOrder: whatever is deleted in whatever order, nothing is left.
func TestDeletionInEveryOrder(t *testing.T) {
	orders.Every(t, orders.Kind{
		GVK: kind, CRD: "seldonoperators.operator.seldon.io", Name: "stack", Install: install,
		Start: func(t *testing.T, c *cluster.Cluster) *harness.Operator {
			return start(t, c, repository(t).URL, harness.Options{})
		},
	})
}

// install makes a SeldonOperator with small charts of its own, which make something outside of its namespace too.
func install(t *testing.T, c *cluster.Cluster, ns string) {
	t.Helper()
	chartMap(t, c, ns, map[string]string{
		"core": `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "{{ .Release.Namespace }}"}
rules: []
`,
		"enterprise": `
apiVersion: v1
kind: ConfigMap
metadata: {name: seldon-deploy}
data: {random: {{ randAlphaNum 8 | quote }}}
`,
	})
	apply(t, c, ns, `{core: {chart: {repository: "configmap:charts/core.tgz"}}, enterprise: {chart: {repository: "configmap:charts/enterprise.tgz"}}}`)
}

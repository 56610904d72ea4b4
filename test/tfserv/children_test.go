package tfserv

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/tfserver"
)

// everyField asks for every kind of child that a Tfserv may have, but for a ScaledObject, which is there in place of the autoscaler. It refers to
// a Secret, and to a claim no longer.
const everyField = `{"spec":{"secretName":"key","secretFileName":"key.json","secretFileLocation":"/secret/","modelVolume":null,"podDisruptionBudget":{"minAvailable":1},"monitoring":{},"ingress":{"host":"models.example.com"},` +
	`"resources":{"requests":{"cpu":"10m"}},"autoscaling":{"minReplicas":1,"maxReplicas":3}}}`

// noField takes back what can be taken back, the canary included.
const noField = `{"spec":{"podDisruptionBudget":null,"monitoring":null,"ingress":null,"httpRoute":null,"grpcRoute":null,"autoscaling":null,"canary":null,` +
	`"models":null,"configMap":"own","configFileName":"models.conf"}}`

// TestEveryChildIsRepairedAndGoes: each kind of child is made, comes back as it was when somebody changes or deletes it, and goes with the
// field that asks for it. `make rbac-minimal` knows by this test that the rights over each kind are used.
func TestEveryChildIsRepairedAndGoes(t *testing.T) {
	c := cluster.Shared(t)
	store := &tfserver.Memory{}
	ns := c.Namespace(t)
	servers := servingAll(t, store)
	store.Put(storedModel, 42)
	startAsking(t, c, ns, servers)
	c.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\ndata: {models.conf: 'model_config_list { config { name: \"resnet\" "+
		"base_path: \"/models/resnet\" model_platform: \"tensorflow\" } }'}\n"+
		"---\napiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {key.json: '{}'}\n", ns)
	c.Apply(t, withCanary, ns)
	patch(t, c, tfserv, ns, sample, `{"spec":{"modelVolume":{"claimName":"absent"}}}`)
	condition(t, c, ns, sample, "Ready", metav1.ConditionFalse, "ClaimNotFound")
	patch(t, c, tfserv, ns, sample, everyField)
	optional := []string{"grpcroutes", "horizontalpodautoscalers", "httproutes", "ingresses", "poddisruptionbudgets", "servicemonitors"}
	fixture.AwaitMarked(t, c, ns, optional...)
	condition(t, c, ns, sample, "Ready", metav1.ConditionTrue)
	fixture.Disturb(t, c, ns)
	patch(t, c, tfserv, ns, sample, byKEDA)
	fixture.AwaitGone(t, c, ns, "horizontalpodautoscalers")
	fixture.AwaitMarked(t, c, ns, "scaledobjects")
	fixture.Disturb(t, c, ns)
	patch(t, c, tfserv, ns, sample, noField)
	// The servers mount a copy of the user's own configuration, so a ConfigMap remains.
	fixture.AwaitGone(t, c, ns, append(optional, "scaledobjects")...)
	absent(t, c, deployment, ns, sample+"-canary")
	absent(t, c, service, ns, sample+"-canary-service")
}

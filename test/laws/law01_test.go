package laws

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/test/bundle"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

func TestLaw01ObjectOfAnotherIsNeverMergedInto(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	c.Apply(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mine"},"data":{"k":"theirs"}}
`, ns)
	apply(t, c, ns, "b", bundle.Spec{Stages: []bundle.Stage{{Name: "all", Objects: []bundle.Object{
		configMap(ns, "mine", "ours"), configMap(ns, "free", "ours"),
	}}}})
	got := condition(t, c, ns, "b", "Ready", metav1.ConditionFalse)
	if got.Reason != "NameTaken" {
		t.Fatalf("reason %s: %s", got.Reason, got.Message)
	}
}

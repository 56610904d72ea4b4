package e2e

import (
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

func TestBothVersionsShareOneSchemaAndNeedNoWebhook(t *testing.T) {
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: "trustyaiservices.trustyai.opendatahub.io"}
	if err := c.Client.Get(t.Context(), key, crd); err != nil {
		t.Fatal(err)
	}
	if how := crd.Spec.Conversion; how != nil && how.Strategy != apiextensionsv1.NoneConverter {
		t.Errorf("conversion is %s", how.Strategy)
	}
	schemas := map[string]any{}
	for i := range crd.Spec.Versions {
		schemas[crd.Spec.Versions[i].Name] = crd.Spec.Versions[i].Schema
	}
	if len(schemas) != 2 || !reflect.DeepEqual(schemas["v1"], schemas["v1alpha1"]) {
		t.Error("v1 and v1alpha1 differ, so that a conversion would lose something")
	}
	ns := c.Namespace(t)
	c.Apply(t, adr("a-volume"), ns)
	stored := get(t, c, ns, example)
	old := c.Get(t, gvkOf("trustyai.opendatahub.io/v1alpha1", "TrustyAIService"), ns, example)
	now := c.Get(t, gvk, ns, example)
	if !reflect.DeepEqual(old.Object["spec"], now.Object["spec"]) || stored.Spec.Storage.PV != "a-volume" {
		t.Errorf("v1alpha1 reads %v, v1 reads %v", old.Object["spec"], now.Object["spec"])
	}
}

func TestScaleSubresource(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	ns := c.Namespace(t)
	c.Apply(t, databaseSecret("tas-db-credentials"), ns)
	c.Apply(t, `
apiVersion: trustyai.opendatahub.io/v1
kind: TrustyAIService
metadata: {name: tas}
spec: {exposure: Plain, storage: {format: DATABASE}, metrics: {schedule: 5s}}
`, ns)
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	c.Kubectl(t, "-n", ns, "scale", "trustyaiservice", "tas", "--replicas=3")
	condition(t, c, ns, "tas", "Ready", metav1.ConditionTrue)
	if cr := get(t, c, ns, "tas"); cr.Status.Replicas != 3 || cr.Status.Selector == "" {
		t.Errorf("replicas %d, selector %q", cr.Status.Replicas, cr.Status.Selector)
	}
}

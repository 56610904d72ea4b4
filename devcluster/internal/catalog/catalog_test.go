package catalog

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDefinitions(t *testing.T) {
	crds, err := Load(Names())
	if err != nil {
		t.Fatal(err)
	}
	var served []string
	for _, crd := range crds {
		for _, r := range resources(crd) {
			served = append(served, r.Resource+"."+r.Version+"."+r.Group)
		}
		storage := 0
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			if v.(map[string]any)["storage"] == true {
				storage++
			}
		}
		if storage != 1 {
			t.Errorf("%s has %d storage versions", crd.GetName(), storage)
		}
	}
	for _, want := range []string{
		"routes.v1.route.openshift.io", "servicemonitors.v1.monitoring.coreos.com",
		"inferenceservices.v1beta1.serving.kserve.io", "servingruntimes.v1alpha1.serving.kserve.io",
		"virtualservices.v1beta1.networking.istio.io", "virtualservices.v1.networking.istio.io",
		"destinationrules.v1.networking.istio.io", "gateways.v1beta1.networking.istio.io",
		"services.v1.serving.knative.dev", "brokers.v1.eventing.knative.dev", "triggers.v1.eventing.knative.dev",
		"certificates.v1.cert-manager.io", "certificaterequests.v1.cert-manager.io", "securitycontextconstraints.v1.security.openshift.io",
		"servicecas.v1.operator.openshift.io", "issuers.v1.cert-manager.io", "clusterissuers.v1.cert-manager.io",
		"httproutes.v1.gateway.networking.k8s.io", "backendtlspolicies.v1.gateway.networking.k8s.io",
	} {
		if !slices.Contains(served, want) {
			t.Errorf("%s is not served", want)
		}
	}
	// The Gateway API lists it, with served: false, for what is stored in it.
	if old := "backendtlspolicies.v1alpha3.gateway.networking.k8s.io"; slices.Contains(served, old) {
		t.Errorf("%s counts as served", old)
	}
}

// TestSchemasAreTheOriginals: what the third parties refuse is refused, and what they default and merge by key is, too.
func TestSchemasAreTheOriginals(t *testing.T) {
	crds, err := Load(Names())
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			schema, _, _ := unstructured.NestedMap(v.(map[string]any), "schema", "openAPIV3Schema")
			if schema["x-kubernetes-preserve-unknown-fields"] == true {
				t.Errorf("%s accepts anything", crd.GetName())
			}
			fields, _, _ := unstructured.NestedMap(schema, "properties", "spec", "properties")
			if crd.GetName() == "securitycontextconstraints.security.openshift.io" {
				fields, _, _ = unstructured.NestedMap(schema, "properties")
			}
			if len(fields) == 0 {
				t.Errorf("%s says nothing about its spec", crd.GetName())
			}
		}
	}
}

func TestResolve(t *testing.T) {
	got, err := Resolve([]string{"Route", "isvc", "kserve", "route"})
	if err != nil || !slices.Equal(got, []string{"route", "inferenceservice"}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := Resolve([]string{"Route", "OpenShift"}); err != nil || !slices.Equal(got, []string{"route", "scc", "serviceca"}) {
		t.Errorf("OpenShift: %v, %v", got, err)
	}
	if got, err := Resolve([]string{"route", All}); err != nil || len(got) != len(Names()) {
		t.Errorf("all: %v, %v", got, err)
	}
	if _, err := Resolve([]string{"rout"}); err == nil || !strings.Contains(err.Error(), "choose from") {
		t.Errorf("unknown: %v", err)
	}
}

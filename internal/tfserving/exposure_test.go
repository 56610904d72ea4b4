package tfserving

import (
	"encoding/json"
	"strings"
	"testing"

	"mlkeeper.dev/internal/engine/controller/controllertest"
)

const exposed = `
metadata: {name: tfs}
spec:
  restPort: 8501
  grpcPort: 8500
  models:
    - {name: resnet, basePath: "gs://bucket/resnet"}
  ingress: {host: models.example.com, ingressClassName: nginx, tlsSecretName: models-tls}
  httpRoute: {host: models.example.com, gateway: {name: public, namespace: gateways, sectionName: https}}
  grpcRoute: {host: grpc.example.com, gateway: {name: public}}
`

func TestWhatLeadsToTheServersFromOutside(t *testing.T) {
	c := controllertest.New(testNow)
	_, p := gatherAndRender(t, c, custom(t, exposed))
	controllertest.Golden(t, "exposed", p)
	for kind, want := range map[string][]string{
		"Ingress": {
			`"host":"models.example.com"`, `"ingressClassName":"nginx"`, `"secretName":"models-tls"`,
			`"backend":{"service":{"name":"tfs-service","port":{"name":"rest"}}}`,
		},
		"HTTPRoute": {
			`"hostnames":["models.example.com"]`, `"namespace":"gateways","sectionName":"https"`,
			`"backendRefs":[{"group":"","kind":"Service","name":"tfs-service","port":8501,"weight":1}]`,
		},
		"GRPCRoute": {
			`"hostnames":["grpc.example.com"]`, `"parentRefs":[{"group":"gateway.networking.k8s.io","kind":"Gateway","name":"public"}]`,
			`"backendRefs":[{"group":"","kind":"Service","name":"tfs-service","port":8500,"weight":1}]`,
		},
	} {
		text, err := json.Marshal(controllertest.MustFind(t, p, kind, "tfs").Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("the %s has no %s: %s", kind, part, text)
			}
		}
	}
}

// TestTheURLOutsideOfTheClusterIsThatOfTheIngress, once it exists and no longer than it is declared.
func TestTheURLOutsideOfTheClusterIsThatOfTheIngress(t *testing.T) {
	c := controllertest.New(testNow)
	cr := custom(t, exposed)
	_, p := gatherAndRender(t, c, cr)
	wantURL := func(want string) {
		t.Helper()
		if project(t, c, cr); cr.Status.ExternalURL != want {
			t.Errorf("status.externalURL is %q, not %q", cr.Status.ExternalURL, want)
		}
	}
	wantURL("")
	c.Written(p, ownerOf(cr))
	wantURL("https://models.example.com")
	cr.Spec.Ingress.TLSSecretName = ""
	wantURL("http://models.example.com")
	cr.Spec.Ingress = nil
	wantURL("")
}

// TestARouteIsLeftOutWhereItsAPIIsNotServed: the routes are optional objects, which the engine names in the status, and a problem with the
// models takes nothing away that leads to the servers.
func TestARouteIsLeftOutWhereItsAPIIsNotServed(t *testing.T) {
	c := controllertest.New(testNow)
	cr := custom(t, exposed)
	cr.Spec.Models, cr.Spec.ConfigMap = nil, "missing"
	_, p := gatherAndRender(t, c, cr)
	if len(p.Problems) != 1 {
		t.Fatalf("problems %+v", p.Problems)
	}
	optional := map[string]bool{}
	for _, stage := range p.Stages {
		for _, o := range stage.Objects {
			optional[o.Key().Kind] = o.Optional
		}
	}
	for kind, want := range map[string]bool{"Service": false, "Ingress": false, "HTTPRoute": true, "GRPCRoute": true} {
		if got, found := optional[kind]; !found || got != want {
			t.Errorf("%s: there %t, optional %t", kind, found, got)
		}
	}
	_, p = gatherAndRender(t, c, custom(t, inline))
	for _, kind := range []string{"Ingress", "HTTPRoute", "GRPCRoute"} {
		if controllertest.Find(p, kind, "tfs") != nil {
			t.Errorf("a %s that nobody asked for", kind)
		}
	}
}

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mlkeeper.dev/test/cluster"
)

// thirdParties are the groups of devcluster's catalog that MLKeeper renders objects of.
var thirdParties = []string{"cert-manager.io", "eventing.knative.dev", "gateway.networking.k8s.io", "monitoring.coreos.com", "networking.istio.io", "route.openshift.io"}

// TestThirdPartiesTakeWhatIsRendered gives every object of their kinds in the renderings of all controllers to an API server with the
// definitions that the third parties publish.
func TestThirdPartiesTakeWhatIsRendered(t *testing.T) {
	c := cluster.Start(t, cluster.WithCRDs("all"))
	paths, err := filepath.Glob("../../internal/*/testdata/golden/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kinds, seen := map[string]bool{}, map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := cluster.Parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			ns := c.Namespace(t)
			for _, u := range objects {
				group, content := u.GroupVersionKind().Group, fmt.Sprint(u.Object)
				if !slices.Contains(thirdParties, group) || seen[content] {
					continue
				}
				seen[content], kinds[u.GetKind()] = true, true
				u.SetNamespace(ns)
				// What the stand-ins change is no answer to an apply.
				u.SetAnnotations(map[string]string{"devcluster.mlkeeper.dev/stand-in": "off"})
				c.Strictly(t, u)
			}
		})
	}
	for _, kind := range []string{"BackendTLSPolicy", "Broker", "Certificate", "GRPCRoute", "Gateway", "HTTPRoute", "Issuer", "Route", "ServiceMonitor"} {
		if !kinds[kind] {
			t.Errorf("no rendering has a %s", kind)
		}
	}
}

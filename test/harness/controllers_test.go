package harness

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/bundle"
)

// TestEachControllerHasItsRole: controllers of the tests have no shipped role. Each has the one that is made for it, beside those of others.
func TestEachControllerHasItsRole(t *testing.T) {
	var controllers []Register
	for name, kind := range map[string]schema.GroupVersionKind{
		"one":   {Version: "v1", Kind: "ConfigMap"},
		"other": {Group: "apps", Version: "v1", Kind: "Deployment"},
	} {
		def := bundle.Definition([]schema.GroupVersionKind{kind})
		def.Controller = name
		controllers = append(controllers, Controller(def, &bundle.System{}))
	}
	rights, err := rightsOf(Options{}, controllers)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(rights.Roles, "\n---\n")
	if len(rights.Roles) != 2 || !strings.Contains(all, "configmaps") || !strings.Contains(all, "deployments") {
		t.Errorf("the roles are\n%s", all)
	}
}

package harness

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/bundle"
)

// TestEachRoomHasItsRole: rooms of the tests have no shipped role. Each has the one that is made for it, beside those of others.
func TestEachRoomHasItsRole(t *testing.T) {
	var rooms []Register
	for name, kind := range map[string]schema.GroupVersionKind{
		"one":   {Version: "v1", Kind: "ConfigMap"},
		"other": {Group: "apps", Version: "v1", Kind: "Deployment"},
	} {
		def := bundle.Definition([]schema.GroupVersionKind{kind})
		def.Room = name
		rooms = append(rooms, Room(def, &bundle.System{}))
	}
	rights, err := rightsOf(Options{}, rooms)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(rights.Roles, "\n---\n")
	if len(rights.Roles) != 2 || !strings.Contains(all, "configmaps") || !strings.Contains(all, "deployments") {
		t.Errorf("the roles are\n%s", all)
	}
}

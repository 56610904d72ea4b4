package install

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mlkeeper.dev/test/cluster"
)

// TestEveryFolderOfConfigIsAccepted builds each kustomization of config/ and asks the API server what it makes of the
// result, so that a folder that is applied by hand only is not found broken by its first user. Components have
// TestComponentsCombine, for they are no kustomizations by themselves.
func TestEveryFolderOfConfigIsAccepted(t *testing.T) {
	c := cluster.Start(t)
	monitoringKinds(t, c)
	// A dry run makes no namespace for the objects that are in it. "system" is what config/default renames.
	for _, n := range []string{namespace, "system"} {
		c.Kubectl(t, "create", "namespace", n)
	}
	c.InstallCRDs(t)
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range kustomizations(t, filepath.Join(root, "config")) {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			built := filepath.Join(t.TempDir(), "built.yaml")
			if err := os.WriteFile(built, []byte(c.Kubectl(t, "kustomize", folder)), 0o600); err != nil {
				t.Fatal(err)
			}
			if out := c.Kubectl(t, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", built); out == "" {
				t.Error("the kustomization is empty")
			}
		})
	}
}

// kustomizations are the folders below a folder that kustomize can build by themselves.
func kustomizations(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "kustomization.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(text), "kind: Component") {
			out = append(out, filepath.Dir(path))
		}
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("%d kustomizations in %s: %v", len(out), root, err)
	}
	return out
}

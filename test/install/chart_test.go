//go:build realhelm

package install

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"mlkeeper.dev/test/cluster"
)

// adoption is the command with which the chart says to adopt a definition.
var adoption = regexp.MustCompile(`kubectl patch crd (\S+) --type=merge -p '([^']*)'`)

// TestChartOverTheOriginals installs the chart with helm over the definition of each original, however it was applied, the way that the chart
// and its page tell. The release is upgraded as any other afterwards.
func TestChartOverTheOriginals(t *testing.T) {
	c := cluster.Start(t)
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	chart := filepath.Join(root, "charts", "mlkeeper")
	settings := []string{"--set", "image.repository=registry.example.com/mlkeeper", "--set", "image.tag=v0.1.0"}
	helm := func(args ...string) (string, error) { return c.Helm(t, namespace, append(args, settings...)...) }
	all := maps.Clone(originals)
	all["upstream"] = trustyaiService
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, by := range appliers {
			t.Run(name+", "+by.name, func(t *testing.T) {
				t.Cleanup(func() { c.DeleteDefinitions(t) })
				old := stands(t, c, all[name], by.args...)
				install := []string{"install", "mlkeeper", chart, "--create-namespace", "--take-ownership", "--force-conflicts"}
				if name == "upstream" {
					out, err := helm(install...)
					tells := adoption.FindStringSubmatch(out)
					if err == nil || tells == nil {
						t.Fatalf("the chart does not say how to adopt the definition: %v\n%s", err, out)
					}
					c.Kubectl(t, "patch", "crd", tells[1], "--type=merge", "-p", tells[2])
				}
				out, err := helm(install...)
				must(t, out, err)
				t.Cleanup(func() {
					out, err := c.Helm(t, namespace, "uninstall", "mlkeeper", "--wait")
					must(t, out, err)
				})
				old.check(t, c)
				out, err = helm("upgrade", "mlkeeper", chart)
				must(t, out, err)
				old.check(t, c)
			})
		}
	}
}

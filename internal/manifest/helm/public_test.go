//go:build realcharts

package helm

import (
	"os"
	"testing"

	"mlkeeper.dev/internal/manifest/manifesttest"
)

// TestPublicChartsLikeHelmsCommand compares, of each version of the charts in the folder that CHARTS names, what an installation, an upgrade,
// and an installation with each of the values that the chart is tested with render with what Helm's own command renders.
func TestPublicChartsLikeHelmsCommand(t *testing.T) {
	command := manifesttest.HelmCommand(t)
	for _, chart := range manifesttest.PublicCharts(t, command, os.Getenv("CHARTS")) {
		for _, version := range chart.Versions {
			compare := func(name string, raw []byte, upgrade bool) {
				t.Run(chart.Name+"/"+version.Version+"/"+name, func(t *testing.T) {
					values, err := ParseValues(raw)
					if err != nil {
						t.Fatal(err)
					}
					loaded, err := Load(version.Files)
					if err != nil {
						t.Fatal(err)
					}
					in := input(loaded, values)
					in.Upgrade = upgrade
					t.Logf("Helm fills in anew: %v", likeHelm(t, command, version.Archive, in))
				})
			}
			compare("install", chart.Values, false)
			compare("upgrade", chart.Values, true)
			for name, values := range version.Values {
				compare("ci/"+name, values, false)
			}
		}
	}
}

//go:build realoriginal

package install

import (
	"os"
	"path/filepath"
	"strings"
)

// The definition of the upstream operator is that of the checkout ORIGINAL_CHECKOUT here, with the conversion that its kustomization adds
// (config/components/tas, patches/webhook_in_trustyaiservices.yaml).
func init() {
	file := filepath.Join(os.Getenv("ORIGINAL_CHECKOUT"), "config", "components", "tas", "crd", "trustyai.opendatahub.io_trustyaiservices.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	conversion := upstream[strings.Index(upstream, "  conversion:"):strings.Index(upstream, "  versions:")]
	trustyaiService.releases[1].definition = strings.Replace(string(text), "\nspec:\n", "\nspec:\n"+conversion, 1)
}

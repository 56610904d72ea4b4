package tfserving

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/tfserving/modelconfig"
)

// serving finds out which model config the servers run with. While a problem keeps the declared one from them, it is the copy that they
// were given last, whatever has become of the owner's ConfigMap.
func (g *gathering) serving(ctx context.Context) error {
	g.facts.Serving = g.facts.Config
	if g.facts.Running == nil || len(g.facts.Problems) == 0 {
		return nil
	}
	// With Poll the Deployment may be recorded to use a copy that has no model config.
	for _, name := range []string{g.facts.Running.Config, liveName(g.cr)} {
		if !strings.HasPrefix(name, configPrefix(g.cr)) {
			continue
		}
		kept, err := g.read.Referenced(ctx, gvkConfigMap, g.cr.Namespace, name)
		if err != nil {
			return err
		}
		text, found := modelFile(kept, configFile(g.cr))
		if config, _, err := modelconfig.ParseNewer(text); found && err == nil {
			g.facts.Serving = config
			return nil
		}
	}
	return nil
}

// modelFile is the model config in a copy: under the name of the file, or under another one where that has changed since.
func modelFile(kept *unstructured.Unstructured, file string) (text string, found bool) {
	if kept == nil {
		return "", false
	}
	data, _, _ := unstructured.NestedStringMap(kept.Object, "data")
	if text, found = data[file]; found {
		return text, true
	}
	for name, text := range data {
		if name != batchingFile && name != monitoringFile {
			return text, true
		}
	}
	return "", false
}

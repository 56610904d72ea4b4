package tfserving

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/tfserving/modelconfig"
)

// liveConfig reads the model config that servers read again and again, as it is now.
func (g *gathering) liveConfig(ctx context.Context) error {
	if !polls(g.cr, g.facts) || g.facts.ConfigText == "" {
		return nil
	}
	live, err := g.read.Referenced(ctx, gvkConfigMap, g.cr.Namespace, liveName(g.cr))
	if err != nil || live == nil {
		return err
	}
	g.live, _, _ = unstructured.NestedString(live.Object, "data", configFile(g.cr))
	return nil
}

// holdLabels leaves a label that moves where it is, as long as not every server has the version that it moves to: TensorFlow Serving
// would refuse the whole config until then. Where nobody serves, nobody can refuse it.
func (g *gathering) holdLabels() {
	if g.live == "" || g.facts.Running == nil || g.facts.Running.Ready == 0 {
		return
	}
	before, err := modelconfig.Parse(g.live)
	if err != nil {
		// Somebody else has written it, and it is about to be replaced.
		return
	}
	config, held := g.facts.Config.HoldLabels(before, func(model string, version int64) bool {
		return g.facts.Answer != nil && slices.Contains(g.facts.Answer.Loaded, LoadedVersion{model, version})
	})
	if len(held) > 0 {
		g.facts.Held, g.facts.Config, g.facts.ConfigText = held, config, config.String()
	}
}

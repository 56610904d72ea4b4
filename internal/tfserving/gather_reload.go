package tfserving

import (
	"context"

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
	g.liveText, _, _ = unstructured.NestedString(live.Object, "data", configFile(g.cr))
	if config, _, err := modelconfig.ParseNewer(g.liveText); err == nil {
		g.live = config
	}
	return nil
}

// holdLabels leaves a label that moves where it is, as long as not every server has the version that it moves to: TensorFlow Serving
// would refuse the whole config until then. Where there is no pod, nobody can refuse it; one that is not ready may run all the same.
func (g *gathering) holdLabels() {
	if g.liveText == "" || g.facts.Running == nil || g.facts.Running.Total == 0 {
		return
	}
	config, held := g.facts.Config.HoldLabels(g.live, func(model string, version int64) bool {
		return g.facts.Answer != nil && g.facts.Answer.Loaded[LoadedVersion{model, version}]
	})
	if len(held) > 0 && !g.waits(held[0]) {
		g.facts.Held, g.facts.Config, g.facts.ConfigText = held, config, config.String()
	}
}

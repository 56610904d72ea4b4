package tfserving

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/tfserving/modelconfig"
)

// restartLength is the number of characters that tell restarts apart.
const restartLength = 8

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
	if mark := live.GetAnnotations()[restartAnnotation]; len(mark) == restartLength {
		g.liveRestart = mark
	}
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

// restart decides whether servers that read their config again are restarted for the one that is declared now. TensorFlow Serving waits without
// limit for a version of each new model, and reads no other config meanwhile, not even the corrected one (ServerCore::ReloadConfig in
// model_servers/server_core.cc). The config is written before the pods are replaced: a new one must not start with the one before.
func (g *gathering) restart() {
	if !polls(g.cr, g.facts) {
		return
	}
	g.facts.Restart = g.liveRestart
	if running := g.facts.Running; running != nil && g.facts.Restart == "" {
		g.facts.Restart = running.Restart
	}
	g.facts.NextRestart = g.facts.Restart
	if g.blocked() {
		// The config may be one that servers were restarted for before.
		g.facts.NextRestart = hashOf(map[string]string{"restart": g.facts.Restart, "live": g.liveText, "declared": g.facts.ConfigText})[:restartLength]
	}
}

// blocked says that servers wait for a model of the config that they read now, and that the declared config has it no more, or elsewhere. One
// that is declared as before may come yet.
func (g *gathering) blocked() bool {
	running := g.facts.Running
	if g.liveText == "" || running == nil || running.Total == 0 || len(g.facts.Problems) > 0 {
		return false
	}
	declared := map[modelconfig.Model]bool{}
	for _, m := range g.facts.Config.Models() {
		declared[m] = true
	}
	return slices.ContainsFunc(g.live.Models(), func(m modelconfig.Model) bool {
		return !declared[m] && (running.Ready == 0 || g.unknown(m.Name))
	})
}

// unknown says that, by what they answered last, a server knows no version of a model.
func (g *gathering) unknown(model string) bool {
	return slices.ContainsFunc(g.cr.Status.Models, func(m v1alpha1.ModelStatus) bool {
		return m.Name == controller.Cut(model, maxModelName) && m.Version == "" && m.State == stateUnknown
	})
}

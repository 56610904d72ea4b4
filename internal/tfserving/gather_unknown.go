package tfserving

import (
	"fmt"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/tfserving/modelconfig"
)

// maxUnknown bounds what is said of a field that MLKeeper does not know.
const maxUnknown = 256

// parsed reads the model config of the owner. The server of spec.image may be newer than what MLKeeper knows.
func (g *gathering) parsed(text string) (config modelconfig.Config, unknown string, err error) {
	if g.cr.Spec.Image == "" {
		config, err = modelconfig.Parse(text)
		return config, "", err
	}
	return modelconfig.ParseNewer(text)
}

// dropped refuses a config with a field that MLKeeper does not know, where it would print the config anew and without that field.
func (g *gathering) dropped(why, remedy string) bool {
	if g.facts.Unknown == "" {
		return false
	}
	g.problem(plan.Terminal, reasonConfigInvalid, "spec.configMap", g.cr.Spec.ConfigMap+"/"+configFile(g.cr),
		fmt.Sprintf("MLKeeper would print it anew %s, and would drop a field that it does not know: %s", why, controller.Cut(g.facts.Unknown, maxUnknown)),
		remedy+"; "+keepsRunning)
	return true
}

// pinned refuses such a config for the servers of a canary, whose config is printed anew.
func (g *gathering) pinned() {
	if c := g.cr.Spec.Canary; c != nil && c.State != v1alpha1.CanaryAborted {
		g.dropped("for spec.canary", "take the field out, or spec.canary")
	}
}

// waits refuses such a config while a label is to be held. It is taken as it is when the version is available.
func (g *gathering) waits(held modelconfig.HeldLabel) bool {
	return g.dropped(fmt.Sprintf("to hold the label %q of model %q until every server has version %d available", held.Label, held.Model, held.To),
		"have the version served first, and move the label then")
}

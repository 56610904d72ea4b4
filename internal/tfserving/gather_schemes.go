package tfserving

import (
	"fmt"
	"slices"
	"strings"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/tfserving/modelconfig"
)

// schemes are those of base paths that the images of TensorFlow Serving have a file system for (tensorflow/core/platform), and s3, which
// has a field of its own.
var schemes = []string{"file", "gs", "s3"}

// unreadable is the first model below a scheme that the images of TensorFlow Serving cannot read, for which they wait for ever.
func unreadable(config modelconfig.Config) (modelconfig.Model, bool) {
	models := config.Models()
	at := slices.IndexFunc(models, func(m modelconfig.Model) bool {
		scheme, _, _ := strings.Cut(m.BasePath, "://")
		return !strings.HasPrefix(m.BasePath, "/") && !slices.Contains(schemes, scheme)
	})
	if at < 0 {
		return modelconfig.Model{}, false
	}
	return models[at], true
}

// schemes refuses what the server cannot read. An image of the owner may have other file systems: there it is warned of.
func (g *gathering) schemes() {
	m, found := unreadable(g.facts.Config)
	if !found || g.cr.Spec.Image != "" {
		return
	}
	field, value := "spec.models", ""
	if len(g.cr.Spec.Models) == 0 {
		field, value = "spec.configMap", g.cr.Spec.ConfigMap+"/"+configFile(g.cr)
	}
	message := fmt.Sprintf("model %q has the base_path %q, whose scheme TensorFlow Serving cannot read", m.Name, m.BasePath)
	g.problem(plan.Terminal, reasonConfigInvalid, field, value, controller.Cut(message, 512),
		"use a path, gs:// or s3://, or set spec.image to an image that reads it; "+keepsRunning)
}

package tfserving

import (
	"strings"
	"testing"

	"mlkeeper.dev/internal/engine/controller/controllertest"
)

// TestASchemeThatTheServerCannotReadStopsBeforeThePods: TensorFlow Serving waits for such a path for ever, with its ports closed.
func TestASchemeThatTheServerCannotReadStopsBeforeThePods(t *testing.T) {
	for path, readable := range map[string]bool{
		"https://models.example.com/resnet": false, "hdfs://namenode/resnet": false, "az://account/resnet": false, "oci://registry/resnet": false,
		"GS://bucket/resnet": false, "ram://resnet": false, "gs://bucket/resnet": true, "file:///models/resnet": true, "/models/https://resnet": true,
	} {
		c := configured(t, modelConfig("resnet", path))
		for field, spec := range map[string]string{
			"spec.models":    strings.Replace(inline, "gs://bucket/resnet", path, 1),
			"spec.configMap": "metadata: {name: tfs}\nspec:\n  configMap: models\n",
		} {
			cr := custom(t, spec)
			_, p := gatherAndRender(t, c, cr)
			want, status, reason := "Terminal ConfigInvalid", "False", reasonConfigInvalid
			if readable {
				want, status, reason = "", "True", reasonConfigAccepted
			}
			if got := controllertest.Reasons(p); got != want {
				t.Errorf("%s in %s: problems %q", path, field, p.Problems)
			}
			for _, part := range []string{field, path, "spec.image"} {
				if text := strings.Join(problems(p), " "); !readable && !strings.Contains(text, part) {
					t.Errorf("%s in %s: %q lacks %q", path, field, text, part)
				}
			}
			project(t, c, cr)
			condition(t, cr, ConditionConfigValid, status, reason)
			// An image of the owner may have a file system for it.
			_, p = gatherAndRender(t, c, custom(t, spec+"  image: registry.example.com/serving\n"))
			if len(p.Problems) > 0 || (len(p.Warnings) == 1) == readable || !readable && !strings.Contains(p.Warnings[0], path) {
				t.Errorf("%s in %s with an image: problems %q, warnings %q", path, field, p.Problems, p.Warnings)
			}
		}
	}
}

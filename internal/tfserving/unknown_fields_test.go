package tfserving

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
)

// newer is a model config with a field of a newer server, and with more of a model.
func newer(name, more string) string {
	return strings.Replace(modelConfig(name, "/models/m"), `model_platform:`, more+` loading_priority: 3 model_platform:`, 1)
}

const ownImage = "metadata: {name: tfs}\nspec:\n  configMap: models\n  image: registry.example.com/serving:nightly\n"

// TestAFieldOfANewerServerIsWarnedOf where the owner brings the server, and is refused where he does not: the stock image would end.
func TestAFieldOfANewerServerIsWarnedOf(t *testing.T) {
	c := configured(t, newer("m", ""))
	_, p := gatherAndRender(t, c, custom(t, strings.Replace(ownImage, "image:", "serviceAccountName: x #", 1)))
	if got := controllertest.Reasons(p); got != "Terminal ConfigInvalid" || !strings.Contains(problems(p)[0], "unknown field: loading_priority") {
		t.Errorf("without an image: problems %q", p.Problems)
	}
	cr := custom(t, ownImage)
	facts, p := gatherAndRender(t, c, cr)
	if len(p.Problems) > 0 || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "unknown field: loading_priority") {
		t.Fatalf("problems %q, warnings %q", p.Problems, p.Warnings)
	}
	if !strings.Contains(facts.ConfigText, "loading_priority: 3") || len(facts.Config.Models()) != 1 {
		t.Errorf("the servers read %s", facts.ConfigText)
	}
	copied := controllertest.MustFind(t, p, "ConfigMap", volume(t, p, "tfs", configVolume).ConfigMap.Name)
	if text, _, _ := unstructured.NestedString(copied.Object, "data", "models.conf"); text != facts.Source {
		t.Errorf("the copy is %s", text)
	}
	cr.Spec.ConfigReload = v1alpha1.ConfigPoll
	_, polled := gatherAndRender(t, c, cr)
	_, changed := gatherAndRender(t, configured(t, newer("other", "")), cr)
	if polled.Inputs == changed.Inputs {
		t.Error("a config that the owner changes counts as a change of MLKeeper's, and waits for the rollouts of other namespaces")
	}
	// What is wrong with every server is refused as before, and by the word that is mistyped.
	for text, want := range map[string]string{
		newer("m", "colour: "): "",
		newer("", ""):          "model 1 has no name",
		strings.Replace(newer("m", ""), "base_path", "base_pth", 1): "unknown field: base_pth",
	} {
		_, p = gatherAndRender(t, configured(t, text), cr)
		if got := controllertest.Reasons(p); got != "Terminal ConfigInvalid" || !strings.Contains(problems(p)[0], want) {
			t.Errorf("%s: problems %q", text, p.Problems)
		}
	}
}

// TestAFieldThatWouldBeDroppedIsRefused: where MLKeeper prints the config anew, what it does not know would be lost without a word.
func TestAFieldThatWouldBeDroppedIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, spec, want string }{
		"a download": {
			strings.Replace(newer("m", ""), "/models/m", "s3://models/m", 1), ownImage + "  s3: {downloader: {image: dl}}\n", "spec.s3.downloader",
		},
		"a canary": {newer("m", ""), ownImage + "  canary: {model: m, version: 42}\n", "spec.canary"},
	} {
		_, p := gatherAndRender(t, configured(t, c.text), custom(t, c.spec))
		if got := controllertest.Reasons(p); got != "Terminal ConfigInvalid" {
			t.Fatalf("%s: problems %q", name, p.Problems)
		}
		for _, want := range []string{"spec.configMap (models/models.conf)", "unknown field: loading_priority", c.want, "would drop"} {
			if got := problems(p)[0]; !strings.Contains(got, want) {
				t.Errorf("%s: %q lacks %q", name, got, want)
			}
		}
	}
	for name, spec := range map[string]string{
		"an image that reads S3":    ownImage + "  s3: {imageReadsS3: true}\n",
		"a canary that was aborted": ownImage + "  canary: {model: m, version: 42, state: Aborted}\n",
	} {
		if _, p := gatherAndRender(t, configured(t, newer("m", "")), custom(t, spec)); len(p.Problems) > 0 {
			t.Errorf("%s: problems %q", name, p.Problems)
		}
	}
}

// TestALabelOfAConfigWithAFieldOfANewerServerWaits until its version is available, since the config in which it is held would be printed anew.
func TestALabelOfAConfigWithAFieldOfANewerServerWaits(t *testing.T) {
	label := func(versions, at string) string {
		return newer("m", `model_version_policy { specific { `+versions+` } } version_labels { key: "stable" value: `+at+` }`)
	}
	c, cr := configured(t, label("versions: 41 versions: 42", "41")), custom(t, ownImage+"  configReload: Poll\n")
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, true)
	step := func(text, want string) {
		t.Helper()
		c.Get(key("ConfigMap", "models")).Object["data"] = map[string]any{"models.conf": text}
		facts, p := gatherAndRender(t, c, cr)
		if got := controllertest.Reasons(p); got != want {
			t.Fatalf("problems %q, not %q", p.Problems, want)
		}
		written := controllertest.Find(p, "ConfigMap", "tfs-config-live") != nil
		if want != "" && (written || !strings.Contains(problems(p)[0], `the label "stable" of model "m"`)) {
			t.Errorf("problems %q, and the config is written: %t", p.Problems, written)
		}
		if want == "" && !strings.Contains(facts.ConfigText, "loading_priority") {
			t.Errorf("the servers read %s", facts.ConfigText)
		}
	}
	moved := label("versions: 41 versions: 42", "42")
	step(moved, "Terminal ConfigInvalid")
	answer := func(versions ...string) {
		t.Helper()
		said := askedAt(t, c, cr, says(versions...))
		c.Answers[c.Asked[0].Name] = said
	}
	answer("42 LOADING", "41 AVAILABLE")
	step(moved, "Terminal ConfigInvalid")
	answer("42 AVAILABLE", "41 AVAILABLE")
	step(moved, "")
	clear(c.Answers)
	step(label("versions: 43", "43"), "Terminal ConfigInvalid")
}

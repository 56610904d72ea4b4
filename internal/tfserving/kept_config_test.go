package tfserving

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
)

// modelConfig is a model config with one model below a path.
func modelConfig(name, path string) string {
	return `model_config_list { config { name: "` + name + `" base_path: "` + path + `" model_platform: "tensorflow" } }`
}

// configured is a cluster with the model config of a Tfserv in the ConfigMap models.
func configured(t testing.TB, text string) *controllertest.Cluster {
	t.Helper()
	c := controllertest.New(testNow)
	u := controllertest.Parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: models, namespace: ns}}")
	u.Object["data"] = map[string]any{"models.conf": text}
	c.Put(u)
	return c
}

// TestServersAreAskedWhileTheirNextConfigIsBroken: they run with the copy of the one before, of which a model may go any day.
func TestServersAreAskedWhileTheirNextConfigIsBroken(t *testing.T) {
	owners := key("ConfigMap", "models")
	replaced := func(text string) func(*controllertest.Cluster, *v1alpha1.Tfserv) {
		return func(c *controllertest.Cluster, _ *v1alpha1.Tfserv) {
			c.Get(owners).Object["data"] = map[string]any{"models.conf": text}
		}
	}
	for name, breaks := range map[string]func(*controllertest.Cluster, *v1alpha1.Tfserv){
		"broken":             replaced("model_config_list {"),
		"without its key":    func(c *controllertest.Cluster, _ *v1alpha1.Tfserv) { c.Get(owners).Object["data"] = map[string]any{} },
		"under another name": func(_ *controllertest.Cluster, cr *v1alpha1.Tfserv) { cr.Spec.ConfigFileName = "other.conf" },
		"deleted":            func(c *controllertest.Cluster, _ *v1alpha1.Tfserv) { c.Remove(owners) },
		"of another store":   replaced(modelConfig("other", "s3://models/other")),
		"of another scheme":  replaced(modelConfig("other", "https://models/other")),
		"as it was":          nil,
	} {
		for _, spec := range []string{"", "  configReload: Poll\n", "  batching: {}\n", "  configReload: Poll\n  batching: {}\n"} {
			c, cr := configured(t, modelConfig("resnet", "/models/resnet")), custom(t, "metadata: {name: tfs}\nspec:\n  configMap: models\n"+spec)
			_, p := gatherAndRender(t, c, cr)
			c.Written(p, ownerOf(cr))
			rolledOut(t, c, cr, p, true)
			project(t, c, cr)
			answer := func(state string) {
				t.Helper()
				said := askedAt(t, c, cr, says(state)).(*Answer)
				if len(said.Models) != 1 || said.Models[0].Name != "resnet" {
					t.Errorf("%s %q: the servers are asked for %+v", name, spec, said.Models)
				}
				c.Answers[c.Asked[0].Name] = said
				project(t, c, cr)
			}
			answer("1 AVAILABLE")
			condition(t, cr, ConditionModelsAvailable, "True", reasonModelsAvailable)
			if breaks != nil {
				breaks(c, cr)
				if _, p = gatherAndRender(t, c, cr); len(p.Problems) != 1 || controllertest.Find(p, "Deployment", cr.Name) != nil {
					t.Fatalf("%s %q: problems %q", name, spec, p.Problems)
				}
			}
			answer("1 AVAILABLE")
			condition(t, cr, ConditionModelsAvailable, "True", reasonModelsAvailable)
			answer("1 END NOT_FOUND: the folder has gone")
			condition(t, cr, ConditionModelsAvailable, "False", reasonModelsUnavailable)
			if got := cr.Status; got.ModelsAvailable != "0/1" || !strings.Contains(got.Models[0].Error, "has gone") {
				t.Errorf("%s %q: the status is %+v", name, spec, got.Models)
			}
		}
	}
}

// TestACopyIsMLKeepersOwn: whoever can annotate the Deployment does not have the operator read another ConfigMap.
func TestACopyIsMLKeepersOwn(t *testing.T) {
	c, cr := configured(t, modelConfig("resnet", "/models/resnet")), custom(t, "metadata: {name: tfs}\nspec: {configMap: models}\n")
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, true)
	other := c.Get(key("ConfigMap", "models")).DeepCopy()
	other.SetName("secret-models")
	c.Put(other)
	c.Get(key("ConfigMap", "models")).Object["data"] = map[string]any{"models.conf": "{"}
	u := c.Get(key("Deployment", "tfs"))
	if err := unstructured.SetNestedField(u.Object, "secret-models", "metadata", "annotations", configAnnotation); err != nil {
		t.Fatal(err)
	}
	c.Own(u, ownerOf(cr))
	c.Referred = nil
	if facts, _ := gatherAndRender(t, c, cr); facts.Serving.Valid() {
		t.Errorf("a ConfigMap of somebody else is read: %v", c.Referred)
	}
	for _, k := range c.Referred {
		if k.Name == "secret-models" {
			t.Errorf("%s is read", k)
		}
	}
}

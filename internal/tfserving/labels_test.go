package tfserving

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/tfserving/modelconfig"
)

// TestALabelMovesWhenEveryServerHasItsVersion, also those that are not asked for every model: with a hundred models two of the servers are. One
// that read of the label before it has the version would refuse every config from then on.
func TestALabelMovesWhenEveryServerHasItsVersion(t *testing.T) {
	models := []wanted{{name: "m", labelled: []int64{41, 43}, moving: []int64{43}}}
	for i := range 99 {
		models = append(models, wanted{name: fmt.Sprintf("m%d", i)})
	}
	three := pods{pod("10.0.0.1", true, false), pod("10.0.0.2", true, false), pod("10.0.0.3", true, false)}
	for name, c := range map[string]struct {
		third http.HandlerFunc
		moves bool
	}{
		"it has":          {says("41 AVAILABLE", "43 AVAILABLE"), true},
		"it has not":      {says("41 AVAILABLE"), false},
		"it loads":        {says("41 AVAILABLE", "43 LOADING"), false},
		"it says nothing": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			both := says("41 AVAILABLE", "43 AVAILABLE")
			g := &gathering{
				settings: Settings{HTTP: fleet(map[string]http.HandlerFunc{"10.0.0.1": both, "10.0.0.2": both, "10.0.0.3": c.third})},
				hosts:    &hosts{}, read: controllertest.New(testNow), cr: custom(t, inline),
			}
			got := g.question("models", models)(t.Context(), three).(*Answer)
			if got.Servers != 2 || got.Loaded[LoadedVersion{"m", 43}] != c.moves || !got.Loaded[LoadedVersion{"m", 41}] || got.Settled != c.moves {
				t.Errorf("%d servers, loaded %v, settled %t", got.Servers, got.Loaded, got.Settled)
			}
		})
	}
}

// TestALabelThatIsToMoveIsAskedForSoon: with the policy latest nothing but the label says that another version is to come, and the servers may be
// asked once a day where all is as declared.
func TestALabelThatIsToMoveIsAskedForSoon(t *testing.T) {
	c := controllertest.New(testNow)
	cr := custom(t, strings.Replace(polling, "      versionPolicy: {specific: {versions: [41, 42]}}\n", "", 1)+"  modelStatusSeconds: 86400\n")
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, true)
	if got := askedAt(t, c, cr, says("41 AVAILABLE")).(*Answer); !got.Settled {
		t.Fatalf("%+v", got)
	}
	before := c.Asked[0].Name
	cr.Spec.Models[0].VersionLabels["stable"] = 42
	if got := askedAt(t, c, cr, says("41 AVAILABLE")).(*Answer); got.Settled || got.Retry() == 0 {
		t.Errorf("the label waits for a day: %+v", got)
	}
	if c.Asked[0].Name == before {
		t.Error("the label waits until the question before is asked again")
	}
}

// TestALabelOfTheLastModelIsAskedFor: not all models of a long config are, and the label would stay for ever.
func TestALabelOfTheLastModelIsAskedFor(t *testing.T) {
	config := func(version int) modelconfig.Config {
		var models []modelconfig.Declared
		for i := range 300 {
			models = append(models, modelconfig.Declared{Model: modelconfig.Model{Name: fmt.Sprintf("m%d", i), BasePath: "/m"}})
		}
		models[299].Labels = map[string]int64{"stable": int64(version)}
		out, err := modelconfig.New(models)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	asked := wantedOf(config(2), config(1), nil)
	if len(asked) != maxQuestions || asked[0].name != "m299" || !slices.Equal(asked[0].moving, []int64{2}) || asked[1].name != "m0" || asked[199].name != "m198" {
		t.Errorf("%d models are asked for, first %+v", len(asked), asked[:2])
	}
	if asked := wantedOf(config(2), config(2), nil); asked[0].name != "m0" || asked[199].name != "m199" {
		t.Errorf("asked for %+v", asked[:2])
	}
}

// TestALabelIsHeldWherePodsAreNotReady: a server whose pod is not ready, as on a node that the control plane does not reach, may have read the
// config before.
func TestALabelIsHeldWherePodsAreNotReady(t *testing.T) {
	c, cr := controllertest.New(testNow), custom(t, polling)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, false)
	cr.Spec.Models[0].VersionPolicy.Specific.Versions, cr.Spec.Models[0].VersionLabels["stable"] = []int64{43}, 43
	if facts, _ := gatherAndRender(t, c, cr); len(facts.Held) != 1 {
		t.Errorf("held %v", facts.Held)
	}
	none := int32(0)
	cr.Spec.Replicas = &none
	_, p = gatherAndRender(t, c, cr)
	rolledOut(t, c, cr, p, true)
	if facts, _ := gatherAndRender(t, c, cr); len(facts.Held) != 0 {
		t.Errorf("held %v, though there is no server", facts.Held)
	}
}

// TestAServerTellsOfEveryVersionThatItEverHad: TensorFlow Serving forgets none that has ended, so that its answer grows for months.
func TestAServerTellsOfEveryVersionThatItEverHad(t *testing.T) {
	ended := func(n int) []string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("%d END", n+1000-i))
		}
		return out
	}
	for name, c := range map[string]struct {
		rows  []string
		model wanted
	}{
		"the one that serves is far below": {append(ended(100), "7 AVAILABLE"), wanted{name: "m"}},
		"so is one that is listed":         {append(ended(100), "8 AVAILABLE", "7 END"), wanted{name: "m", listed: []int64{7}}},
		"the answer is too long":           {append([]string{"99999 AVAILABLE"}, ended(5000)...), wanted{name: "m"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &gathering{
				settings: Settings{HTTP: fleet(map[string]http.HandlerFunc{"10.0.0.1": says(c.rows...)})},
				hosts:    &hosts{}, read: controllertest.New(testNow), cr: custom(t, inline),
			}
			got := g.question("models", []wanted{c.model})(t.Context(), pods{pod("10.0.0.1", true, false)}).(*Answer)
			unknown := slices.ContainsFunc(got.Models, func(m v1alpha1.ModelStatus) bool { return m.State == stateUnknown })
			if got.Available != 1 || !got.Settled || unknown || len(got.Models) > maxModelVersions+1 {
				t.Errorf("%d available, settled %t, %d versions, one of them unknown: %t", got.Available, got.Settled, len(got.Models), unknown)
			}
		})
	}
	var models []v1alpha1.ModelStatus
	for i := range 300 {
		models = append(models, v1alpha1.ModelStatus{Name: "a", Version: fmt.Sprint(i), State: stateEnd})
	}
	failed := v1alpha1.ModelStatus{Name: "b", Version: "1", State: stateEnd, Error: "out of memory"}
	if got := trimmed(append(models, failed)); len(got) != 1 || got[0] != failed {
		t.Errorf("what has ended takes the place of what fails: %d versions", len(got))
	}
}

// TestAListOfManyVersionsIsKnown: more of them than a status has are no reason to say that a server does not know them.
func TestAListOfManyVersionsIsKnown(t *testing.T) {
	model, rows := wanted{name: "m"}, []string{}
	for i := range 60 {
		model.listed, rows = append(model.listed, int64(i)), append(rows, fmt.Sprintf("%d AVAILABLE", 59-i))
	}
	model.labelled = []int64{0}
	g := &gathering{
		settings: Settings{HTTP: fleet(map[string]http.HandlerFunc{"10.0.0.1": says(rows...)})},
		hosts:    &hosts{}, read: controllertest.New(testNow), cr: custom(t, inline),
	}
	got := g.question("models", []wanted{model})(t.Context(), pods{pod("10.0.0.1", true, false)}).(*Answer)
	if len(got.Models) != 60 || !got.Settled || !got.Loaded[LoadedVersion{"m", 0}] {
		t.Errorf("%d versions, settled %t, loaded %v", len(got.Models), got.Settled, got.Loaded)
	}
}

// TestLabelsWithoutNumber: a config may have as many as fit into a ConfigMap.
func TestLabelsWithoutNumber(t *testing.T) {
	var text strings.Builder
	text.WriteString(`model_config_list { config { name: "m" base_path: "/m" model_platform: "tensorflow"`)
	for i := range 20000 {
		fmt.Fprintf(&text, ` version_labels { key: "%d" value: %d }`, i, i)
	}
	c := controllertest.New(testNow)
	u := controllertest.Parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: many, namespace: ns}}")
	u.Object["data"] = map[string]any{"models.conf": text.String() + " } }"}
	c.Put(u)
	cr := custom(t, "metadata: {name: tfs}\nspec: {configMap: many}\n")
	_, p := gatherAndRender(t, c, cr)
	rolledOut(t, c, cr, p, true)
	c.Answers["models of generation 1, rolled out to 1 pods"] = askedAt(t, c, cr, says("20001 AVAILABLE"))
	if _, p = gatherAndRender(t, c, cr); len(p.Warnings) != maxWarnings {
		t.Errorf("%d warnings", len(p.Warnings))
	}
}

package tfserving

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
)

// TestAVersionThatIsMissingBesideAnotherIsWarnedOf: the model is available, and nothing else would tell.
func TestAVersionThatIsMissingBesideAnotherIsWarnedOf(t *testing.T) {
	const failed, unknown = "version 43 of model m ended with an error and is not served: UNKNOWN: out of memory", "which not every server knows"
	for name, c := range map[string]struct {
		policy string
		said   []string
		want   string
	}{
		"the latest has failed":                   {"", []string{"43 END out of memory", "42 AVAILABLE"}, failed},
		"it is being loaded":                      {"", []string{"43 LOADING", "42 AVAILABLE"}, ""},
		"it begins":                               {"", []string{"43 START", "42 AVAILABLE"}, ""},
		"its folder has gone":                     {"", []string{"43 END", "42 AVAILABLE"}, ""},
		"a later one serves":                      {"", []string{"44 AVAILABLE", "43 END out of memory"}, ""},
		"a later one was taken back":              {"", []string{"44 END", "43 END out of memory", "42 AVAILABLE"}, failed},
		"the latest two":                          {"latest: {numVersions: 2}", []string{"44 AVAILABLE", "43 END out of memory", "42 AVAILABLE"}, failed},
		"all":                                     {"all: {}", []string{"44 AVAILABLE", "43 END out of memory"}, failed},
		"a listed one":                            {"specific: {versions: [42, 43]}", []string{"44 END", "43 END out of memory", "42 AVAILABLE"}, failed},
		"one that is listed no more":              {"specific: {versions: [42]}", []string{"43 END out of memory", "42 AVAILABLE"}, ""},
		"a listed one that nobody knows":          {"specific: {versions: [42, 43]}", []string{"42 AVAILABLE"}, unknown},
		"nothing serves, as ModelsAvailable says": {"", []string{"43 END out of memory"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := "metadata: {name: tfs}\nspec:\n  models:\n    - {name: m, basePath: /m, versionPolicy: {" + c.policy + "}}\n"
			if c.policy == "" {
				text = "metadata: {name: tfs}\nspec:\n  models: [{name: m, basePath: /m}]\n"
			}
			cluster, cr := controllertest.New(testNow), custom(t, text)
			_, p := gatherAndRender(t, cluster, cr)
			cluster.Written(p, ownerOf(cr))
			rolledOut(t, cluster, cr, p, true)
			cluster.Answers["models of generation 1, rolled out to 1 pods"] = askedAt(t, cluster, cr, says(c.said...))
			project(t, cluster, cr)
			if got := strings.Join(cr.Status.Warnings, "\n"); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("warnings %q", cr.Status.Warnings)
			}
			// A manager that starts has not asked yet.
			before := cr.Status.DeepCopy()
			clear(cluster.Answers)
			if project(t, cluster, cr); !reflect.DeepEqual(&cr.Status, before) {
				t.Errorf("without an answer the status changes to %+v", cr.Status)
			}
			rolledOut(t, cluster, cr, p, false)
			if project(t, cluster, cr); c.want == unknown && len(cr.Status.Warnings) > 0 {
				t.Errorf("pods that are about to be replaced know their own versions: warnings %q", cr.Status.Warnings)
			}
		})
	}
}

// TestWarningsOfVersionsAreFew: there are others to tell.
func TestWarningsOfVersionsAreFew(t *testing.T) {
	text := "metadata: {name: tfs}\nspec:\n  models:\n"
	var said []v1alpha1.ModelStatus
	for i := range 50 {
		name := fmt.Sprintf("m%d", i)
		text += "    - {name: " + name + ", basePath: /m}\n"
		said = append(said, v1alpha1.ModelStatus{Name: name, Version: "1", State: stateAvailable},
			v1alpha1.ModelStatus{Name: name, Version: "2", State: stateEnd, Error: strings.Repeat("x", maxError)})
	}
	cluster, cr := controllertest.New(testNow), custom(t, text)
	_, p := gatherAndRender(t, cluster, cr)
	cluster.Written(p, ownerOf(cr))
	rolledOut(t, cluster, cr, p, true)
	cluster.Answers["models of generation 1, rolled out to 1 pods"] = &Answer{Servers: 1, Answered: 1, Asked: 50, Available: 50, Models: said}
	project(t, cluster, cr)
	got := cr.Status.Warnings
	if n := len(got); n != maxLacking+1 || got[n-1] != "42 further versions are not served: see status.models" || len(got[0]) > 512 {
		t.Errorf("%d warnings: %q", n, got)
	}
}

// TestTheMessageSaysOfHowManyServersItSpeaks.
func TestTheMessageSaysOfHowManyServersItSpeaks(t *testing.T) {
	has := says("1 AVAILABLE")
	for name, c := range map[string]struct {
		servers, silent int
		want            string
	}{
		"all":                  {20, 0, "20 servers serve 1 model."},
		"one says nothing":     {20, 1, "19 servers serve 1 model. 19 of 20 servers answered."},
		"not all are asked":    {30, 0, "20 servers serve 1 model. 20 of 30 servers were asked."},
		"nor do all that are":  {30, 1, "19 servers serve 1 model. 20 of 30 servers were asked, of which 19 answered."},
		"more than are listed": {100, 0, "20 servers serve 1 model. 20 of 250 servers were asked."},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, cr := controllertest.New(testNow), custom(t, inline)
			n := int32(min(c.servers, 99))
			if c.servers == 100 {
				n = 250
			}
			cr.Spec.Replicas = &n
			_, p := gatherAndRender(t, cluster, cr)
			cluster.Written(p, ownerOf(cr))
			rolledOut(t, cluster, cr, p, true)
			servers, list := map[string]http.HandlerFunc{}, pods{}
			for i := range c.servers {
				host := fmt.Sprintf("10.0.1.%d", 100+i)
				list = append(list, pod(host, true, false))
				if i >= c.silent {
					servers[host] = has
				}
			}
			s := testSystem()
			s.settings.HTTP, cluster.Asked = fleet(servers), nil
			if _, err := s.Gather(t.Context(), cluster, cr); err != nil {
				t.Fatal(err)
			}
			cluster.Answers[cluster.Asked[0].Name] = cluster.Asked[0].Job(t.Context(), list)
			project(t, cluster, cr)
			if got := meta.FindStatusCondition(cr.Status.Conditions, ConditionModelsAvailable).Message; got != c.want {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}

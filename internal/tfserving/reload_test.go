package tfserving

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

// TestServersThatWaitForAModelAreReplacedOnceItIsCorrected: they read no other config meanwhile. So are servers that have a model from another
// path: of that they load no version whose number they have. A new server must find the corrected config, so that this is written first.
func TestServersThatWaitForAModelAreReplacedOnceItIsCorrected(t *testing.T) {
	model := func(name, path string) v1alpha1.Model { return v1alpha1.Model{Name: name, BasePath: path} }
	waits := func(name string) v1alpha1.ModelStatus {
		return v1alpha1.ModelStatus{Name: name, State: stateUnknown, Error: unknownModel}
	}
	others := []v1alpha1.ModelStatus{{Name: "m", Version: "1", State: stateAvailable}, waits("m")}
	specific := model("m", "/modles/m")
	specific.VersionPolicy = &v1alpha1.VersionPolicy{Specific: &v1alpha1.SpecificVersions{Versions: []int64{2}}}
	silent := []v1alpha1.ModelStatus{{Name: "m", State: stateUnknown, Error: noAnswer}}
	for name, c := range map[string]struct {
		next     []v1alpha1.Model
		says     []v1alpha1.ModelStatus
		starting bool
		replaced bool
	}{
		"its base path is corrected":         {[]v1alpha1.Model{model("m", "/models/m")}, others, false, true},
		"it is taken out":                    {nil, others, false, true},
		"its versions are corrected":         {[]v1alpha1.Model{specific}, others, false, true},
		"a server does not answer":           {[]v1alpha1.Model{specific}, silent, false, false},
		"another one comes":                  {[]v1alpha1.Model{model("m", "/modles/m"), model("n", "/models/n")}, others, false, false},
		"every server has a version":         {[]v1alpha1.Model{specific}, others[:1], false, false},
		"all serve it from another path":     {[]v1alpha1.Model{model("m", "/models/m")}, others[:1], false, true},
		"its path is given to another one":   {[]v1alpha1.Model{model("n", "/modles/m")}, others[:1], false, false},
		"nobody was asked":                   {[]v1alpha1.Model{specific}, nil, false, false},
		"nobody was asked of another path":   {[]v1alpha1.Model{model("m", "/models/m")}, nil, false, true},
		"no server is ready":                 {[]v1alpha1.Model{specific}, nil, true, true},
		"no server is ready for another one": {[]v1alpha1.Model{model("m", "/modles/m"), model("n", "/models/n")}, nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			next, says, starting, replaced := c.next, c.says, c.starting, c.replaced
			c, cr := controllertest.New(testNow), custom(t, polling)
			first := cr.Spec.Models[0]
			pass := func() plan.Plan {
				t.Helper()
				_, p := gatherAndRender(t, c, cr)
				c.Written(p, ownerOf(cr))
				rolledOut(t, c, cr, p, !starting)
				return p
			}
			cr.Spec.Models = []v1alpha1.Model{first, model("m", "/modles/m")}
			pass()
			p := pass()
			before := deployed(t, p, "tfs").Spec.Template
			wrong, _, _ := unstructured.NestedString(controllertest.MustFind(t, p, "ConfigMap", "tfs-config-live").Object, "data", "models.conf")
			cr.Spec.Models, cr.Status.Models = append([]v1alpha1.Model{first}, next...), says
			p = pass()
			if !reflect.DeepEqual(deployed(t, p, "tfs").Spec.Template, before) {
				t.Error("pods start before the config is written")
			}
			if text := printed(t, controllertest.MustFind(t, p, "ConfigMap", "tfs-config-live").Object); strings.Contains(text, "/modles/m") != slices.ContainsFunc(next, func(m v1alpha1.Model) bool { return m.BasePath == "/modles/m" }) {
				t.Errorf("the servers read %s", text)
			}
			p = pass()
			after := deployed(t, p, "tfs").Spec.Template
			if reflect.DeepEqual(after, before) == replaced {
				t.Errorf("the annotations of the pods are %v after %v", after.Annotations, before.Annotations)
			}
			if warned := strings.Contains(strings.Join(p.Warnings, "\n"), "are replaced"); warned != replaced {
				t.Errorf("warnings %q", p.Warnings)
			}
			if replaced {
				// Who undoes the next mistake declares what he has declared before.
				undone := cr.Spec.Models
				cr.Spec.Models, cr.Status.Models = append(slices.Clone(undone), model("n", "/m")), []v1alpha1.ModelStatus{waits("n")}
				pass()
				cr.Spec.Models = undone
				pass()
				again := deployed(t, pass(), "tfs").Spec.Template
				if reflect.DeepEqual(again, after) {
					t.Error("the servers wait for the model of the second mistake")
				}
				after = again
			}
			// Whoever deletes the ConfigMap, or undoes what is written, restarts nobody, nor does what servers said of the config before.
			live := plan.Key{GroupKind: gvkConfigMap.GroupKind(), Namespace: "ns", Name: "tfs-config-live"}
			for _, change := range []func(){
				func() { c.Remove(live) },
				func() { c.Objects[live].Object["data"] = map[string]any{"models.conf": wrong} },
			} {
				change()
				for range 2 {
					p := pass()
					if again := deployed(t, p, "tfs").Spec.Template; !reflect.DeepEqual(again, after) {
						t.Errorf("the pods are replaced again: %v after %v", again.Annotations, after.Annotations)
					}
					if strings.Contains(strings.Join(p.Warnings, "\n"), "are replaced") {
						t.Errorf("warnings %q", p.Warnings)
					}
				}
			}
		})
	}
}

// TestAModelThatComesBackFromAnotherPathReplacesServersThatMayHaveIt: a kubelet brings the config without it to a pod within two minutes, and the
// server reads it after configPollSeconds. Until then it would find another path for versions that it has, and go on with the old ones.
func TestAModelThatComesBackFromAnotherPathReplacesServersThatMayHaveIt(t *testing.T) {
	model := func(path string) v1alpha1.Model { return v1alpha1.Model{Name: "m", BasePath: path} }
	for name, c := range map[string]struct {
		after    time.Duration
		back     string
		poll     int32
		replaced bool
	}{
		"at once":                          {time.Second, "/models/m", 10, true},
		"before the kubelet has to":        {129 * time.Second, "/models/m", 10, true},
		"after it":                         {131 * time.Second, "/models/m", 10, false},
		"before the server reads":          {time.Hour, "/models/m", 3600, true},
		"from where it was":                {time.Second, "/old/m", 10, false},
		"after another change of the rest": {time.Minute, "/models/m", 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, cr := controllertest.New(testNow), custom(t, polling)
			cr.Spec.ConfigPollSeconds = ptr.To(c.poll)
			first := cr.Spec.Models[0]
			pass := func(models ...v1alpha1.Model) plan.Plan {
				t.Helper()
				cr.Spec.Models = append([]v1alpha1.Model{first}, models...)
				var p plan.Plan
				for range 2 {
					_, p = gatherAndRender(t, cluster, cr)
					cluster.Written(p, ownerOf(cr))
					rolledOut(t, cluster, cr, p, true)
				}
				return p
			}
			before := deployed(t, pass(model("/old/m")), "tfs").Spec.Template
			pass()
			cluster.Time = testNow.Add(c.after / 2)
			if strings.HasPrefix(name, "after another") {
				pass(v1alpha1.Model{Name: "n", BasePath: "/models/n"})
			}
			if p := pass(); !reflect.DeepEqual(deployed(t, p, "tfs").Spec.Template, before) {
				t.Error("a model that is taken out replaces the servers")
			}
			cluster.Time = testNow.Add(c.after)
			p := pass(model(c.back))
			if replaced := !reflect.DeepEqual(deployed(t, p, "tfs").Spec.Template, before); replaced != c.replaced {
				t.Errorf("replaced %t", replaced)
			}
			after := deployed(t, p, "tfs").Spec.Template
			if again := deployed(t, pass(model(c.back), v1alpha1.Model{Name: "n", BasePath: "/models/n"}), "tfs").Spec.Template; !reflect.DeepEqual(again, after) {
				t.Error("the servers are replaced again")
			}
		})
	}
}

// TestAConfigWithoutAListIsRefusedWithPoll: servers that have a list of models do not go over to a config without one, and serve on what they have.
// One that starts with such a config has no model.
func TestAConfigWithoutAListIsRefusedWithPoll(t *testing.T) {
	for text, with := range map[string]map[v1alpha1.ConfigReload]string{
		"":                      {v1alpha1.ConfigPoll: "Terminal ConfigInvalid", v1alpha1.ConfigRestart: ""},
		"# none\n":              {v1alpha1.ConfigPoll: "Terminal ConfigInvalid", v1alpha1.ConfigRestart: ""},
		"model_config_list {}":  {v1alpha1.ConfigPoll: "", v1alpha1.ConfigRestart: ""},
		"model_config_list: {}": {v1alpha1.ConfigPoll: "", v1alpha1.ConfigRestart: ""},
	} {
		for reload, want := range with {
			c, cr := seed(t)
			cr.Spec.ConfigReload = reload
			c.Get(key("ConfigMap", cr.Spec.ConfigMap)).Object["data"] = map[string]any{"models.conf": text}
			_, p := gatherAndRender(t, c, cr)
			if got := controllertest.Reasons(p); got != want || want != "" && !strings.Contains(problems(p)[0], "model_config_list {}") {
				t.Errorf("%q with %s: problems %q", text, reload, problems(p))
			}
		}
	}
}

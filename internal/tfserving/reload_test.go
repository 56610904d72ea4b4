package tfserving

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

// TestServersThatWaitForAModelAreReplacedOnceItIsCorrected: they read no other config meanwhile. A new server must find the corrected one, so that
// this is written first.
func TestServersThatWaitForAModelAreReplacedOnceItIsCorrected(t *testing.T) {
	model := func(name, path string) v1alpha1.Model { return v1alpha1.Model{Name: name, BasePath: path} }
	others := []v1alpha1.ModelStatus{{Name: "m", Version: "1", State: stateAvailable}, {Name: "m", State: stateUnknown}}
	for name, c := range map[string]struct {
		next     []v1alpha1.Model
		says     []v1alpha1.ModelStatus
		starting bool
		replaced bool
	}{
		"its base path is corrected":         {[]v1alpha1.Model{model("m", "/models/m")}, others, false, true},
		"it is taken out":                    {nil, others, false, true},
		"another one comes":                  {[]v1alpha1.Model{model("m", "/modles/m"), model("n", "/models/n")}, others, false, false},
		"every server has a version":         {[]v1alpha1.Model{model("m", "/models/m")}, others[:1], false, false},
		"nobody was asked":                   {[]v1alpha1.Model{model("m", "/models/m")}, nil, false, false},
		"no server is ready":                 {[]v1alpha1.Model{model("m", "/models/m")}, nil, true, true},
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
			before := deployed(t, pass(), "tfs").Spec.Template
			cr.Spec.Models, cr.Status.Models = append([]v1alpha1.Model{first}, next...), says
			p := pass()
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
			if warned := strings.Contains(strings.Join(p.Warnings, "\n"), "are replaced"); warned != replaced && !starting {
				t.Errorf("warnings %q", p.Warnings)
			}
			if replaced {
				// Who undoes the next mistake declares what he has declared before.
				undone := cr.Spec.Models
				cr.Spec.Models, cr.Status.Models = append(slices.Clone(undone), model("n", "/m")), []v1alpha1.ModelStatus{{Name: "n", State: stateUnknown}}
				pass()
				cr.Spec.Models = undone
				pass()
				again := deployed(t, pass(), "tfs").Spec.Template
				if reflect.DeepEqual(again, after) {
					t.Error("the servers wait for the model of the second mistake")
				}
				after = again
			}
			// Whoever deletes the ConfigMap restarts nobody, nor does what servers said of the config before.
			c.Remove(plan.Key{GroupKind: gvkConfigMap.GroupKind(), Namespace: "ns", Name: "tfs-config-live"})
			for range 2 {
				if again := deployed(t, pass(), "tfs").Spec.Template; !reflect.DeepEqual(again, after) {
					t.Errorf("the pods are replaced again: %v after %v", again.Annotations, after.Annotations)
				}
			}
		})
	}
}

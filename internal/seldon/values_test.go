package seldon

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

// TestATextIsSetAtAPathAsFluxSetsIt has the examples of Flux' own tests (fluxcd/pkg/chartutil), and what is ours.
func TestATextIsSetAtAPathAsFluxSetsIt(t *testing.T) {
	under := values{"outer": values{"inner": "value"}, "list": []any{"a", "b"}}
	for name, c := range map[string]struct {
		path, text string
		literal    bool
		want       values
	}{
		"a string":                     {"outer.inner", "new", false, values{"outer": values{"inner": "new"}, "list": []any{"a", "b"}}},
		"a truth value":                {"on", "false", false, values{"on": false}},
		"a number":                     {"port", "8080", false, values{"port": int64(8080)}},
		"a number in quotes":           {"port", `"8080"`, false, values{"port": "8080"}},
		"a number in single quotes":    {"port", `'8080'`, false, values{"port": "8080"}},
		"null":                         {"outer", "null", false, values{"outer": nil, "list": []any{"a", "b"}}},
		"a dot in a key":               {`nodeSelector.example\.com/pool`, "gpu", false, values{"nodeSelector": values{"example.com/pool": "gpu"}}},
		"an entry of a list":           {"list[1]", "c", false, values{"outer": values{"inner": "value"}, "list": []any{"a", "c"}}},
		"an entry that is not there":   {"servers[0].port", "80", false, values{"servers": []any{values{"port": int64(80)}}}},
		"a list":                       {"tags", "{a,b}", false, values{"tags": []any{"a", "b"}}},
		"a comma":                      {"a", "1,b=2", false, values{"a": int64(1), "b": int64(2)}},
		"a comma, literally":           {"a", "1,b=2", true, values{"a": "1,b=2"}},
		"a truth value, literally":     {"on", "false", true, values{"on": "false"}},
		"what has a meaning literally": {`k\.l[0]`, "{\\\"x\"\n,[3]='}", true, values{"k.l": []any{"{\\\"x\"\n,[3]='}"}}},
		"quotes, literally":            {"a", `"8"`, true, values{"a": `"8"`}},
	} {
		got, err := setPath(under, c.path, c.text, c.literal)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := values{"outer": values{"inner": "value"}, "list": []any{"a", "b"}}
		for key, value := range c.want {
			want[key] = value
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(values{"outer": values{"inner": "value"}, "list": []any{"a", "b"}}, under); diff != "" {
		t.Errorf("the values below are changed:\n%s", diff)
	}
	for _, text := range []string{"a,b", strings.Repeat(",b[65535]=1", maxIndices+1)} {
		if _, err := setPath(under, "a", text, false); err == nil {
			t.Errorf("%.20s is set", text)
		}
	}
	if _, err := setPath(under, "a"+strings.Repeat("[0]", maxIndices+1), "x", true); !errors.Is(err, errIndices) {
		t.Error(err)
	}
}

// TestATextThatCannotBeSetIsNotQuoted: it may be a Secret's.
func TestATextThatCannotBeSetIsNotQuoted(t *testing.T) {
	cluster := controllertest.New(testNow)
	cluster.Put(opaque("secret", map[string]string{"key": "hush,hush"}))
	cr := &v1alpha1.SeldonOperator{}
	cr.Namespace = "ns"
	r := &request{field: "spec.core", component: component{spec: v1alpha1.Component{ValuesFrom: []v1alpha1.ValuesReference{
		{Kind: "Secret", Name: "secret", ValuesKey: "key", TargetPath: "password"},
	}}}}
	_, err := userValues(t.Context(), cluster, cr, r)
	var problem plan.Problem
	if !errors.As(err, &problem) || problem.Class != plan.Terminal || problem.Reason != reasonValuesInvalid ||
		problem.Field != "spec.core.valuesFrom[0].targetPath" || strings.Contains(err.Error(), "hush") {
		t.Fatal(err)
	}
	r.spec.ValuesFrom[0].Literal = true
	if got, err := userValues(t.Context(), cluster, cr, r); err != nil || got["password"] != "hush,hush" {
		t.Error(err)
	}
}

// TestValuesOfObjectsCountForWhatIsMissing: the credentials and the address follow from all values, wherever they are; a key that is there
// may be empty.
func TestValuesOfObjectsCountForWhatIsMissing(t *testing.T) {
	given := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{
		"values.yaml": "metadata: {pg: {enabled: true, secret: my-pg}}\nservice: {type: LoadBalancer}\n",
	}}}
	given.SetGroupVersionKind(gvkConfigMap)
	given.SetNamespace("ns")
	given.SetName("given")
	service := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"loadBalancer": map[string]any{"ingress": []any{map[string]any{"hostname": "deploy.example"}}},
	}}}
	service.SetGroupVersionKind(gvkService)
	service.SetNamespace("ns")
	service.SetName(deployService)
	cr := &v1alpha1.SeldonOperator{}
	cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
	cr.Spec.Enterprise.ValuesFrom = []v1alpha1.ValuesReference{{Kind: "ConfigMap", Name: "given"}}
	cluster := controllertest.New(testNow)
	cluster.Put(given)
	cluster.Put(service)
	s := New(Settings{Trusted: true}).(*system)
	gathered := func() Facts {
		t.Helper()
		facts, err := s.Gather(t.Context(), cluster, cr)
		if err != nil {
			t.Fatal(err)
		}
		return facts
	}
	facts := gathered()
	if p := facts.Missing[catalogue]; p.Reason != reasonCredentials || p.Value != "my-pg" {
		t.Errorf("missing is %+v", p)
	}
	if want := "http://deploy.example" + uiPath; facts.URL != want {
		t.Errorf("the address is %s, and not %s", facts.URL, want)
	}
	cluster.Put(opaque("my-pg", map[string]string{"dbname": "d", "host": "h", "user": "u", "password": "", "port": "1", "sslmode": "disable"}))
	if facts := gathered(); len(facts.Missing) > 0 {
		t.Errorf("with an empty password: %+v", facts.Missing)
	}
	cr.Spec.Enterprise.Values = &runtime.RawExtension{Raw: []byte(`{"metadata": {"pg": {"enabled": false}}, "service": {"type": "ClusterIP"}}`)}
	if facts := gathered(); !strings.HasPrefix(facts.URL, "http://"+deployService+".ns.svc.") {
		t.Errorf("the address is %s", facts.URL)
	}
}

// TestValuesThatTakeTooMuchAreRefused: the manager decodes them, so that one object could else end it for everybody.
func TestValuesThatTakeTooMuchAreRefused(t *testing.T) {
	long := strings.Repeat("hush", 100<<10)
	cluster := controllertest.New(testNow)
	cluster.Put(opaque("bomb", map[string]string{"values.yaml": "a: &a " + long + "\nb: [" + strings.Repeat("*a, ", 24) + "]"}))
	cluster.Put(opaque("lists", map[string]string{"values.yaml": "a: [" + strings.Repeat("[],", 200<<10) + "]"}))
	for i := range 12 {
		cluster.Put(opaque(fmt.Sprint("part", i), map[string]string{"values.yaml": fmt.Sprintf("a%d: %s%s", i, long, long)}))
	}
	cr := &v1alpha1.SeldonOperator{}
	cr.Namespace = "ns"
	r := &request{field: "spec.core"}
	for _, name := range []string{"bomb", "lists"} {
		r.spec.ValuesFrom = []v1alpha1.ValuesReference{{Kind: "Secret", Name: name}}
		_, err := userValues(t.Context(), cluster, cr, r)
		var problem plan.Problem
		if !errors.As(err, &problem) || problem.Class != plan.Terminal || problem.Reason != reasonValuesInvalid ||
			problem.Field != "spec.core.valuesFrom[0]" || problem.Value != name || problem.Remedy != remedyLarge ||
			!strings.Contains(problem.Message, "the key values.yaml of Secret "+name+" is too large") || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	r.spec.ValuesFrom = nil
	for i := range 12 {
		r.spec.ValuesFrom = append(r.spec.ValuesFrom, v1alpha1.ValuesReference{Kind: "Secret", Name: fmt.Sprint("part", i)})
	}
	got, err := userValues(t.Context(), cluster, cr, r)
	var problem plan.Problem
	if !errors.As(err, &problem) || problem.Class != plan.Terminal || problem.Reason != reasonValuesInvalid || problem.Field != "spec.core.valuesFrom[10]" {
		t.Errorf("together: %.300v", err)
	}
	if len(got) != 10 {
		t.Errorf("%d of the values are kept", len(got))
	}
	r.spec.ValuesFrom = r.spec.ValuesFrom[:10]
	r.spec.Values = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"b": %q}`, long+long)}
	if _, err := userValues(t.Context(), cluster, cr, r); !errors.As(err, &problem) || problem.Field != "spec.core.values" {
		t.Errorf("with those of the spec: %.300v", err)
	}
}

package seldon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/manifest/worker"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

// fakeStore is a store whose one chart can be exchanged, and be out of reach.
type fakeStore struct {
	store *source.Store
	data  []byte
	down  error
	asked int
}

func (s *fakeStore) put(t *testing.T, template string) {
	t.Helper()
	var err error
	s.data, err = manifesttest.Pack(fstest.MapFS{
		"Chart.yaml":              {Data: []byte("apiVersion: v2\nname: small\nversion: 1.0.0\n")},
		"templates/template.yaml": {Data: []byte(template)},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// putChart puts a chart with further lines in its Chart.yaml.
func (s *fakeStore) putChart(t *testing.T, metadata string) {
	t.Helper()
	var err error
	s.data, err = manifesttest.Pack(fstest.MapFS{"Chart.yaml": {Data: []byte("apiVersion: v2\nname: small\nversion: 1.0.0\n" + metadata)}})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *fakeStore) FetchChart(ctx context.Context, _ source.ChartRequest) (*source.Artifact, error) {
	s.asked++
	if s.down != nil {
		return nil, s.down
	}
	return s.store.Unpack(ctx, "chart", s.data)
}

func (s *fakeStore) Fetch(context.Context, source.Request) (*source.Artifact, error) {
	return nil, errors.New("a chart is no archive")
}

func (s *fakeStore) Unpack(ctx context.Context, name string, data []byte) (*source.Artifact, error) {
	return s.store.Unpack(ctx, name, data)
}

// newFakeStore has a chart with a template.
func newFakeStore(t *testing.T, template string) *fakeStore {
	t.Helper()
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	out := &fakeStore{store: store}
	out.put(t, template)
	return out
}

// small is a chart that asks the cluster for an API, and has an object of a version that is served no more.
const small = `
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: one, annotations: {gateways: '{{ .Capabilities.APIVersions.Has "example.com/v1" }}'}}
spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}
`

// TestAChartThatHelmRefusesIsStalled: the chart is at fault, and not the values.
func TestAChartThatHelmRefusesIsStalled(t *testing.T) {
	from := newFakeStore(t, small)
	for metadata, remedy := range map[string]string{
		"kubeVersion: <1.20\n":                            "take a version of the chart for this version of Kubernetes",
		"dependencies: [{name: other, version: 1.0.0}]\n": "run helm dependency build on the chart and package it anew, or take another version of it",
	} {
		from.putChart(t, metadata)
		r := request{
			component: component{name: core, chart: v1alpha1.Chart{Name: "small", Version: "1.0.0"}}, namespace: "ns", field: "spec.core",
			keys: made(t, nil, testNow), from: rendering.Source{Origin: origin.Origin{Chart: &source.ChartRequest{}}},
			cluster: helm.Cluster{Version: "v1.36.2", Serves: func(string) bool { return true }},
		}
		result := ran(t, New(Settings{Sources: from}).(*system), controllertest.New(testNow), r.job(&v1alpha1.SeldonOperator{}))
		p := result.Failure
		if p == nil || p.Class != plan.Terminal || p.Reason != reasonChartFailed || p.Field != "spec.core.chart" || p.Remedy != remedy {
			t.Errorf("%s: %+v", metadata, p)
		}
	}
}

func TestAChartThatHasNotChangedIsNotRenderedAgain(t *testing.T) {
	from := newFakeStore(t, small)
	s := New(Settings{Sources: from}).(*system)
	old := schema.GroupVersionKind{Group: "policy", Version: "v1beta1", Kind: "PodDisruptionBudget"}
	cluster, apis, kept := controllertest.New(testNow, old.GroupKind().WithVersion("v1")), map[string]bool{}, made(t, nil, testNow)
	ask := func(value string) *Result {
		t.Helper()
		r := request{
			component: component{name: core, chart: v1alpha1.Chart{Name: "small", Version: "1.0.0"}}, namespace: "ns",
			values: values{"key": value}, keys: kept, from: rendering.Source{Origin: origin.Origin{Chart: &source.ChartRequest{}}},
			cluster: helm.Cluster{Version: "v1.36.2", Serves: func(api string) bool { return apis[api] }},
		}
		result := ran(t, s, cluster, r.job(&v1alpha1.SeldonOperator{}))
		if result.Failure != nil {
			t.Fatal(result.Failure)
		}
		return result
	}
	last := ask("first")
	if again := ask("first"); again != last || from.asked != 2 {
		t.Errorf("the repository was asked %d times, the chart rendered again: %v", from.asked, again != last)
	}
	for _, c := range []struct {
		what   string
		change func()
	}{
		{"another API is served", func() { apis["example.com/v1"] = true }},
		{"another version of what was rendered is served", func() { cluster.APIs[old] = true }},
		{"the chart is another", func() { from.put(t, small+"# another\n") }},
	} {
		c.change()
		next := ask("first")
		if next == last {
			t.Errorf("%s: the result is that of before", c.what)
		}
		last = next
	}
	if other := ask("second"); other == last {
		t.Error("other values: the result is that of before")
	}
	// What was looked up may have changed since.
	from.put(t, small+"# {{ lookup \"v1\" \"Secret\" \"ns\" \"one\" }}\n")
	last = ask("first")
	if again := ask("first"); again == last {
		t.Error("a chart that looks something up is not rendered again")
	}
}

// TestWhatWasRenderedStaysDeclared takes the repository away in every way, gives values that the chart cannot take, and wants a
// certificate that has to be made first.
func TestWhatWasRenderedStaysDeclared(t *testing.T) {
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	from := &fakeStore{store: store}
	from.put(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ required \"a name\" .Values.name }}}\n")
	s := New(Settings{Sources: from}).(*system)
	cr := &v1alpha1.SeldonOperator{}
	cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
	c, cluster, kept := component{name: core, chart: v1alpha1.Chart{Name: "small", Version: "1.0.0"}}, controllertest.New(testNow), made(t, nil, testNow)
	ask := func(given values) Part {
		t.Helper()
		r := request{
			component: c, namespace: "ns", values: given, keys: kept, from: rendering.Source{Origin: origin.Origin{Chart: &source.ChartRequest{}}},
			cluster: helm.Cluster{Version: "v1.36.2", Serves: func(string) bool { return false }},
		}
		job := r.job(cr)
		result := ran(t, s, cluster, job)
		if s.results.Last(subject(cr, c)) != result {
			t.Fatal("the last result is lost")
		}
		return Part{component: c, Result: result, Older: result.Inputs != job.Inputs}
	}
	failure := func(part Part) *plan.Problem {
		problem, _ := part.report()
		return problem
	}
	if first := ask(values{"name": "one"}); failure(first) != nil || names(first) != "one" || first.Result.Retry() != 0 {
		t.Fatalf("%+v", first)
	}
	refused := func(reason string) error {
		return &source.Error{Class: source.Terminal, Reason: reason, Message: reason}
	}
	for _, c := range []struct {
		name   string
		values values
		down   error
		reason string
		pause  time.Duration
	}{
		{"404", values{"name": "one"}, refused(source.ReasonNotFound), source.ReasonNotFound, controller.RetryLasting},
		{"403", values{"name": "one"}, refused(source.ReasonUnauthorized), source.ReasonUnauthorized, controller.RetryLasting},
		{"no route", values{"name": "one"}, errors.New("no route"), "", controller.RetryPassing},
		{"other values, and no route", values{"name": "two"}, errors.New("no route"), source.ReasonUnreachable, controller.RetryPassing},
		{"other values, and 404", values{"name": "two"}, refused(source.ReasonNotFound), source.ReasonNotFound, controller.RetryLasting},
		{"values that do not fit", nil, nil, reasonChartFailed, controller.RetryLasting},
	} {
		from.down = c.down
		part := ask(c.values)
		if got := names(part); got != "one" {
			t.Errorf("%s: what is declared is %q", c.name, got)
		}
		if got := part.Result.Retry(); got != c.pause {
			t.Errorf("%s: asked again after %s at most", c.name, got)
		}
		problem := failure(part)
		if c.reason == "" && problem != nil || c.reason != "" && (problem == nil || problem.Reason != c.reason) {
			t.Errorf("%s: %v", c.name, problem)
		}
	}
	from.put(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\ndata: {x: {{ (genSelfSignedCert \"a\" nil nil 1).Cert | quote }}}\n")
	if part := ask(nil); len(part.Result.Content.Wanted) != 1 || names(part) != "one" {
		t.Errorf("while a certificate is made, %q is declared", names(part))
	}
	from.put(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\n")
	if back := ask(nil); failure(back) != nil || names(back) != "new" {
		t.Errorf("%+v", back)
	}
	other := cr.DeepCopy()
	other.UID = "another"
	if s.results.Last(subject(other, c)) != nil {
		t.Error("one of the same name has what the one before it had")
	}
	s.Forget(client.ObjectKeyFromObject(cr))
	if s.results.Last(subject(cr, c)) != nil {
		t.Error("what is gone is remembered")
	}
}

// ran is the result of a job that runs now.
func ran(t *testing.T, s *system, cluster *controllertest.Cluster, job rendering.Job[Content]) *Result {
	t.Helper()
	s.results.Get(cluster, job)
	result, _ := cluster.Asked[len(cluster.Asked)-1].Job(t.Context(), nil).(*Result)
	return result
}

// TestWhatIsOutdatedIsOneJob lets an API appear that a template asked for, while the chart cannot be fetched: each pass requests
// the same job, which the engine runs with pauses.
func TestWhatIsOutdatedIsOneJob(t *testing.T) {
	from := newFakeStore(t, small)
	s := New(Settings{Sources: from}).(*system)
	cr := &v1alpha1.SeldonOperator{}
	cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
	c := component{name: core, chart: v1alpha1.Chart{Name: "small", Version: "1.0.0", Repository: "https://example.test"}}
	cluster := controllertest.New(testNow)
	facts := Facts{Keys: made(t, nil, testNow)}
	facts.Keys.there, facts.Keys.stored = true, true
	pass := func() string {
		t.Helper()
		cluster.Time = cluster.Time.Add(time.Second)
		if _, _, err := s.gatherPart(t.Context(), cluster, cr, c, facts); err != nil {
			t.Fatal(err)
		}
		last := cluster.Asked[len(cluster.Asked)-1]
		cluster.Answers[last.Name] = last.Job(t.Context(), nil)
		return last.Name
	}
	first := pass()
	if again := pass(); again != first {
		t.Errorf("asked is %s, and then %s", first, again)
	}
	cluster.APIs[schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Any"}] = true
	from.down = errors.New("no route")
	other := pass()
	if other == first {
		t.Error("what a template would be told now is not asked for")
	}
	for range 3 {
		if again := pass(); again != other {
			t.Errorf("asked is %s, and then %s", other, again)
		}
	}
	from.down = nil
	if last := pass(); last != other {
		t.Errorf("asked is %s, and then %s", other, last)
	}
	if last := pass(); last != other {
		t.Errorf("what is answered is asked again: %s, not %s", last, other)
	}
}

// TestAnAPIThatAnUpgradeRemoves asks anew when what an object was converted from is no longer served; what was rendered stands
// meanwhile.
func TestAnAPIThatAnUpgradeRemoves(t *testing.T) {
	from := newFakeStore(t, small)
	s := New(Settings{Sources: from}).(*system)
	cr := &v1alpha1.SeldonOperator{}
	cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
	c := component{name: core, chart: v1alpha1.Chart{Name: "small", Version: "1.0.0", Repository: "https://example.test"}}
	old := schema.GroupVersionKind{Group: "policy", Version: "v1beta1", Kind: "PodDisruptionBudget"}
	cluster := controllertest.New(testNow, old, old.GroupKind().WithVersion("v1"))
	facts := Facts{Keys: made(t, nil, testNow)}
	facts.Keys.there, facts.Keys.stored = true, true
	version := func() string {
		t.Helper()
		part, _, err := s.gatherPart(t.Context(), cluster, cr, c, facts)
		if err != nil {
			t.Fatal(err)
		}
		if part.Result == nil {
			return ""
		}
		return part.Result.Content.Objects[0].GetAPIVersion()
	}
	answered := func() string {
		t.Helper()
		last := cluster.Asked[len(cluster.Asked)-1]
		cluster.Answers[last.Name] = last.Job(t.Context(), nil)
		return last.Name
	}
	version()
	first := answered()
	if got := version(); got != "policy/v1beta1" {
		t.Fatalf("declared is %s", got)
	}
	cluster.APIs[old] = false
	if got := version(); got != "policy/v1beta1" {
		t.Errorf("before there is a result, declared is %s", got)
	}
	if second := answered(); second == first {
		t.Error("nothing is asked anew")
	}
	if got := version(); got != "policy/v1" {
		t.Errorf("declared is %s", got)
	}
	cluster.APIs[old] = true
	version()
	if answered(); version() != "policy/v1beta1" {
		t.Errorf("declared is %s", version())
	}
}

// TestARangeIsAskedForAgain: the repository of a range is asked for a newer version, and what depends on the version follows the archive.
func TestARangeIsAskedForAgain(t *testing.T) {
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	from := &fakeStore{store: store}
	from.put(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {image: {{ .Values.image.image | quote }}}}\n")
	for version, want := range map[string]struct {
		image string
		every time.Duration
	}{
		"0.9.0": {"seldonio/seldon-deploy-server:0.9.0", controller.Once}, "1.x": {"seldonio/seldon-deploy-server:1.0.0", rangeEvery},
	} {
		s := New(Settings{Sources: from}).(*system)
		cr := &v1alpha1.SeldonOperator{}
		cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
		c := component{name: enterprise, chart: v1alpha1.Chart{Name: "small", Version: version, Repository: "https://example.test"}}
		cr.Spec.Enterprise.Chart = &c.chart
		if got := s.versionOf(cr, c); got != "" == source.IsRange(version) {
			t.Errorf("%s: before, the version is %q", version, got)
		}
		facts := Facts{Keys: made(t, nil, testNow)}
		facts.Keys.there, facts.Keys.stored = true, true
		cluster := controllertest.New(testNow)
		if _, _, err := s.gatherPart(t.Context(), cluster, cr, c, facts); err != nil {
			t.Fatal(err)
		}
		asked := cluster.Asked[len(cluster.Asked)-1]
		result, _ := asked.Job(t.Context(), nil).(*Result)
		image, _, _ := unstructured.NestedString(result.Content.Objects[0].Object, "data", "image")
		if image != want.image || asked.Every != want.every {
			t.Errorf("%s: the image is %s, asked for every %s", version, image, asked.Every)
		}
		if got := s.versionOf(cr, c); source.IsRange(version) && got != "1.0.0" {
			t.Errorf("%s: then the version is %q", version, got)
		}
	}
}

// listing is a controller.Live that lists ConfigMaps and Secrets.
type listing struct {
	controller.Live
	asked []string
}

func (l *listing) ListAs(
	_ context.Context, user string, gvk schema.GroupVersionKind, namespace string, _ int,
) ([]unstructured.Unstructured, error) {
	l.asked = append(l.asked, user+" "+gvk.Kind+" "+namespace)
	return []unstructured.Unstructured{*opaque("one", nil), *opaque("two", nil)}, nil
}

// TestALookupOfAListIsAsked: with the rights of the ServiceAccount, and Secrets in the namespace of the SeldonOperator alone.
func TestALookupOfAListIsAsked(t *testing.T) {
	live := &listing{}
	lookup := request{namespace: "ns", user: user}.lookup(live)
	found, err := lookup(t.Context(), "v1", "ConfigMap", "", "")
	if items, _ := found["items"].([]any); err != nil || len(items) != 2 || found["kind"] != "ConfigMapList" {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := lookup(t.Context(), "v1", "Secret", "ns", ""); err != nil {
		t.Error(err)
	}
	if _, err := lookup(t.Context(), "v1", "Secret", "", ""); err == nil {
		t.Error("the Secrets of all namespaces are listed")
	}
	if want := []string{user + " ConfigMap ", user + " Secret ns"}; !slices.Equal(live.asked, want) {
		t.Errorf("asked is %q", live.asked)
	}
}

func names(p Part) string {
	var out []string
	for _, o := range p.all() {
		out = append(out, o.GetName())
	}
	return strings.Join(out, " ")
}

// TestSinceWhenASourceIsUnavailable keeps the time over a restart, when nothing is known at first.
func TestSinceWhenASourceIsUnavailable(t *testing.T) {
	since := metav1.NewTime(testNow.Add(-time.Hour))
	down := &plan.Problem{Class: plan.Terminal, Reason: source.ReasonNotFound, Message: "404"}
	for name, c := range map[string]struct {
		part Part
		want string
	}{
		"nothing known":            {Part{Pending: true}, "as before"},
		"refused":                  {Part{Result: &Result{Failure: down}}, "core: nothing of it is repaired until its chart can be fetched: 404"},
		"refused, and known":       {Part{Result: &Result{Inputs: "i", Failure: down}}, "core: what was rendered before stays declared, and nothing newer is applied: 404"},
		"there":                    {Part{Result: &Result{Inputs: "i"}}, ""},
		"there, and too large":     {Part{Result: &Result{Failure: &plan.Problem{Class: plan.Terminal, Reason: rendering.ReasonResultTooLarge}}}, ""},
		"there, and not to render": {Part{Result: &Result{Failure: &plan.Problem{Class: plan.Terminal, Reason: reasonChartFailed}}}, ""},
	} {
		cr := &v1alpha1.SeldonOperator{}
		cr.Status.Conditions = []metav1.Condition{{
			Type: ConditionSourceUnavailable, Status: metav1.ConditionTrue, Reason: "NotFound", Message: "as before", LastTransitionTime: since,
		}}
		c.part.component = component{name: core}
		unavailable(cr, Facts{Parts: []Part{c.part}}, controller.ObservedState{Now: testNow})
		got := meta.FindStatusCondition(cr.Status.Conditions, ConditionSourceUnavailable)
		switch {
		case c.want == "" && got != nil, c.want != "" && (got == nil || got.Message != c.want):
			t.Errorf("%s: %v", name, got)
		case got != nil && !got.LastTransitionTime.Equal(&since):
			t.Errorf("%s: since %s", name, got.LastTransitionTime)
		}
	}
}

// TestAChartWhoseNameTheStatusCannotHold: the API server would refuse the status as a whole, for as long as the chart is declared.
func TestAChartWhoseNameTheStatusCannotHold(t *testing.T) {
	from := newFakeStore(t, small)
	for _, c := range []struct {
		name, version int
		refused       bool
	}{{253, 128, false}, {254, 128, true}, {253, 129, true}} {
		name, version := strings.Repeat("n", c.name), "1.0.0-"+strings.Repeat("v", c.version-len("1.0.0-"))
		var err error
		from.data, err = manifesttest.Pack(fstest.MapFS{
			"Chart.yaml":              {Data: []byte("apiVersion: v2\nname: " + name + "\nversion: " + version + "\n")},
			"templates/template.yaml": {Data: []byte(small)},
		})
		if err != nil {
			t.Fatal(err)
		}
		r := request{
			component: component{name: core, chart: v1alpha1.Chart{Name: name, Version: "1.x"}}, namespace: "ns", keys: made(t, nil, testNow),
			from: rendering.Source{Origin: origin.Origin{Chart: &source.ChartRequest{}}}, cluster: helm.Cluster{Serves: func(string) bool { return false }},
		}
		result := ran(t, New(Settings{Sources: from}).(*system), controllertest.New(testNow), r.job(&v1alpha1.SeldonOperator{}))
		if refused := result.Failure != nil && result.Failure.Reason == reasonChartFailed && strings.Contains(result.Failure.Message, "128"); refused != c.refused || !refused && result.Failure != nil {
			t.Errorf("%d and %d bytes: %+v", c.name, c.version, result.Failure)
		}
	}
}

// TestAChartThatRendersTooMuch is refused by the memory that its namespace may have.
func TestAChartThatRendersTooMuch(t *testing.T) {
	from := newFakeStore(t, small)
	r := request{
		component: component{name: core, chart: v1alpha1.Chart{Name: "small", Version: "1.0.0"}}, namespace: "ns", keys: made(t, nil, testNow),
		from: rendering.Source{Origin: origin.Origin{Chart: &source.ChartRequest{}}}, cluster: helm.Cluster{Serves: func(string) bool { return false }},
	}
	for bytes, want := range map[int64]string{100: rendering.ReasonResultTooLarge, 1 << 20: ""} {
		s := New(Settings{Sources: from, Results: rendering.NewMemory(bytes)}).(*system)
		got := ""
		if result := ran(t, s, controllertest.New(testNow), r.job(&v1alpha1.SeldonOperator{})); result.Failure != nil {
			got = result.Failure.Reason
		}
		if got != want {
			t.Errorf("with %d bytes: %q", bytes, got)
		}
	}
}

// TestTheFailureOfAChartQuotesNoValueOfASecret: it is in the status. The file and the line are, and the whole text where no value is secret.
func TestTheFailureOfAChartQuotesNoValueOfASecret(t *testing.T) {
	from := newFakeStore(t, "{{ fail (printf \"%s is too short\" .Values.password) }}\n")
	s := New(Settings{Sources: from}).(*system)
	cr := &v1alpha1.SeldonOperator{}
	cr.Name, cr.Namespace, cr.UID = "stack", "ns", "uid"
	cluster := controllertest.New(testNow)
	for kind, want := range map[string]string{"Secret": "fails in line 1 (why is left out", "ConfigMap": "hunter2 is too short"} {
		c := component{name: core, chart: v1alpha1.Chart{Name: "small", Version: "1.0.0"}}
		c.spec.ValuesFrom = []v1alpha1.ValuesReference{{Kind: kind, Name: "login"}}
		r := request{
			component: c, namespace: "ns", values: values{"password": "hunter2"}, keys: made(t, nil, testNow), field: "spec.core",
			from:    rendering.Source{Origin: origin.Origin{Chart: &source.ChartRequest{}}},
			cluster: helm.Cluster{Version: "v1.36.2", Serves: func(string) bool { return false }},
		}
		failed := ran(t, s, cluster, r.job(cr)).Failure
		if failed == nil || !strings.Contains(failed.Message, want) || kind == "Secret" && strings.Contains(failed.Error(), "hunter2") {
			t.Errorf("%s: %v; want %q", kind, failed, want)
		}
	}
}

// TestWhatIsToldCounts has a chart without objects that asks for many APIs and has hooks that are left out.
func TestWhatIsToldCounts(t *testing.T) {
	from := newFakeStore(t, `{{ range until 100 }}{{ $x := $.Capabilities.APIVersions.Has (printf "%d%s" . (repeat 200 "x")) }}{{ end }}
{{ range until 40 }}
---
{apiVersion: v1, kind: {{ repeat 500 "k" }}, metadata: {name: n{{ . }}, annotations: {helm.sh/hook: pre-delete}}}
{{ end }}`)
	result := renderedOver(t, from, nil, v1alpha1.ComponentStatus{}, false)
	if n := len(result.Content.Warnings.Texts); n != 40 || len(result.Content.APIs) != 100 || result.Bytes < 100*200+40*500 {
		t.Errorf("%d warnings, %d APIs, of %d bytes: %v", n, len(result.Content.APIs), result.Bytes, result.Failure)
	}
}

// TestTheRemedyOfAKilledWorker: what the kernel ends again and again needs somebody, and what passes by itself nobody.
func TestTheRemedyOfAKilledWorker(t *testing.T) {
	if got := (request{}).failure(&worker.KilledError{}); got.Remedy != worker.KilledRemedy || got.Class != plan.Waiting {
		t.Errorf("%+v", got)
	}
	if got := (request{}).failure(worker.ErrUnavailable); got.Remedy != "nothing to do" {
		t.Errorf("%+v", got)
	}
}

package kubeflow

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

// fakeStore is a store whose one archive can be exchanged, and be out of reach.
type fakeStore struct {
	t     *testing.T
	store *source.Store
	data  []byte
	down  error
	asked int
}

func newFakeStore(t *testing.T) *fakeStore {
	t.Helper()
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &fakeStore{t: t, store: store}
}

func (s *fakeStore) put(content string) {
	var err error
	s.data, err = manifesttest.Pack(fstest.MapFS{
		"first/base/kustomization.yaml": {Data: []byte("resources: [object.yaml]")},
		"first/base/object.yaml":        {Data: []byte(content)},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *fakeStore) Fetch(ctx context.Context, _ source.Request) (*source.Artifact, error) {
	s.asked++
	if s.down != nil {
		return nil, s.down
	}
	return s.store.Unpack(ctx, "archive", s.data)
}

func (s *fakeStore) FetchChart(context.Context, source.ChartRequest) (*source.Artifact, error) {
	return nil, errors.New("a KfDef has no charts")
}

func (s *fakeStore) Unpack(ctx context.Context, name string, data []byte) (*source.Artifact, error) {
	return s.store.Unpack(ctx, name, data)
}

func configMap(value string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {key: " + value + "}}"
}

func TestWhatHasNotChangedIsNotRenderedAgain(t *testing.T) {
	from := newFakeStore(t)
	from.put(configMap("one"))
	s := New(Settings{Trusted: true, Sources: from}).(*system)
	cluster := controllertest.New(testNow)
	cr := custom("first")
	ask := func() *Result {
		t.Helper()
		if _, err := s.Gather(t.Context(), cluster, cr); err != nil && cluster.Answers[cluster.Asked[len(cluster.Asked)-1].Name] != nil {
			t.Fatal(err)
		}
		last := cluster.Asked[len(cluster.Asked)-1]
		result, _ := last.Job(t.Context(), nil).(*Result)
		cluster.Answers[last.Name] = result
		return result
	}
	first := ask()
	if first.Failure != nil || len(first.Content.Applications) != 1 || len(first.Content.Applications[0].Objects) != 1 {
		t.Fatalf("%+v", first)
	}
	cr.Annotations = map[string]string{keeper.ReconcileAtAnnotation: "now"}
	if again := ask(); again != first || from.asked != 2 {
		t.Errorf("%d times fetched, another result: %v", from.asked, again != first)
	}
	// Until the new job has ended, the last result stands.
	cr.Annotations[keeper.ReconcileAtAnnotation] = "later"
	if facts, err := s.Gather(t.Context(), cluster, cr); err != nil || facts.Result != first {
		t.Errorf("%v", err)
	}
	from.put(configMap("two"))
	second := ask()
	if second == first || second.Sources[0].Digest == first.Sources[0].Digest {
		t.Error("another archive gives the same result")
	}
	s.Forget(client.ObjectKeyFromObject(cr))
	clear(cluster.Answers)
	if facts, err := s.Gather(t.Context(), cluster, cr); err == nil {
		t.Errorf("what is gone is remembered: %+v", facts.Result)
	}
}

// TestAnAPIThatAnUpgradeRemoves renders anew when what an object was converted from, or to, is no longer served as it was; what was
// rendered stands meanwhile.
func TestAnAPIThatAnUpgradeRemoves(t *testing.T) {
	old := schema.GroupVersionKind{Group: "policy", Version: "v1beta1", Kind: "PodDisruptionBudget"}
	next := old.GroupKind().WithVersion("v1")
	from := newFakeStore(t)
	from.put("{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: b}, spec: {minAvailable: 1}}")
	s := New(Settings{Trusted: true, Sources: from}).(*system)
	cluster := controllertest.New(testNow, old, next)
	cr := custom("first")
	answered := func() string {
		t.Helper()
		last := cluster.Asked[len(cluster.Asked)-1]
		cluster.Answers[last.Name] = last.Job(t.Context(), nil)
		return last.Name
	}
	version := func() string {
		t.Helper()
		facts, err := s.Gather(t.Context(), cluster, cr)
		if err != nil {
			t.Fatal(err)
		}
		if facts.Pending || len(facts.Result.Content.Applications[0].Objects) != 1 {
			t.Fatalf("%+v", facts)
		}
		return facts.Result.Content.Applications[0].Objects[0].GetAPIVersion()
	}
	if _, err := s.Gather(t.Context(), cluster, cr); err == nil {
		t.Fatal("there is a result before the job")
	}
	first := answered()
	if got := version(); got != "policy/v1beta1" || from.asked != 1 {
		t.Fatalf("rendered in %s, fetched %d times", got, from.asked)
	}
	// Nothing that was rendered depends on it.
	cluster.APIs[schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Any"}] = true
	cluster.APIs[schema.GroupVersionKind{Group: "batch", Version: "v1beta1", Kind: "CronJob"}] = true
	if version(); cluster.Asked[len(cluster.Asked)-1].Name != first {
		t.Error("an API that nothing depends on is a reason to ask anew")
	}
	cluster.APIs[old] = false
	if got := version(); got != "policy/v1beta1" {
		t.Errorf("before there is a result, declared is %s", got)
	}
	from.down = errors.New("no route")
	second := answered()
	if got := version(); got != "policy/v1beta1" || second == first {
		t.Errorf("while the repository is out of reach, declared is %s", got)
	}
	from.down = nil
	if again := answered(); again != second {
		t.Errorf("asked is %s, and then %s", second, again)
	}
	for range 3 {
		if got := version(); got != "policy/v1" || cluster.Asked[len(cluster.Asked)-1].Name != second {
			t.Errorf("declared is %s", got)
		}
	}
	// It was no upgrade: what answered was an API server that had yet to begin.
	cluster.APIs[old] = true
	version()
	if third := answered(); third == second || third == first || version() != "policy/v1beta1" {
		t.Errorf("asked is %s; declared is %s", third, version())
	}
}

// TestWhatWasRenderedStaysDeclared takes the repository away in every way, and breaks what is in it.
func TestWhatWasRenderedStaysDeclared(t *testing.T) {
	from := newFakeStore(t)
	from.put(configMap("one"))
	s := New(Settings{Trusted: true, Sources: from}).(*system)
	cluster := controllertest.New(testNow)
	cr := custom("first")
	ask := func() Facts {
		t.Helper()
		_, _ = s.Gather(t.Context(), cluster, cr)
		last := cluster.Asked[len(cluster.Asked)-1]
		cluster.Answers[last.Name] = last.Job(t.Context(), nil)
		runtime.GC() // What stands must not depend on it.
		facts, err := s.Gather(t.Context(), cluster, cr)
		if err != nil {
			t.Fatal(err)
		}
		return facts
	}
	declared := func(facts Facts) string {
		t.Helper()
		var out []string
		for _, stage := range s.Render(cr, facts).Stages {
			for _, o := range stage.Objects {
				out = append(out, o.Desired.GetKind()+" "+o.Desired.GetName())
			}
		}
		return strings.Join(out, ", ")
	}
	first := ask()
	want := declared(first)
	if want != "ConfigMap c" || first.Result.Retry() != 0 {
		t.Fatalf("declared %q, asked again after %s", want, first.Result.Retry())
	}
	for _, c := range []struct {
		name   string
		change func()
		reason string
		class  plan.Class
		pause  time.Duration
	}{
		{"404", func() {
			from.down = &source.Error{Class: source.Terminal, Reason: source.ReasonNotFound, Message: "404"}
		}, source.ReasonNotFound, plan.Terminal, controller.RetryLasting},
		{"no route", func() {
			from.down = &source.Error{Class: source.Transient, Reason: source.ReasonUnreachable, Message: "no route"}
		}, "", "", controller.RetryPassing},
		{"403", func() {
			from.down = &source.Error{Class: source.Terminal, Reason: source.ReasonUnauthorized, Message: "403"}
		}, source.ReasonUnauthorized, plan.Terminal, controller.RetryLasting},
		{"another spec, and no route", func() {
			from.down = &source.Error{Class: source.Transient, Reason: source.ReasonUnreachable, Message: "no route"}
			cr.Spec.Applications = append(custom("zeroth").Spec.Applications, cr.Spec.Applications...)
		}, source.ReasonUnreachable, plan.Waiting, controller.RetryPassing},
		{"another spec, and 404", func() {
			from.down = &source.Error{Class: source.Terminal, Reason: source.ReasonNotFound, Message: "404"}
		}, source.ReasonNotFound, plan.Terminal, controller.RetryLasting},
		{"an application that cannot be rendered", func() {
			from.down, cr.Spec.Applications = nil, cr.Spec.Applications[1:]
			from.put("no: [")
		}, reasonApplicationFailed, plan.Terminal, controller.RetryLasting},
	} {
		c.change()
		cr.Annotations = map[string]string{keeper.ReconcileAtAnnotation: c.name}
		facts := ask()
		if got := declared(facts); got != want {
			t.Errorf("%s: declared is %q", c.name, got)
		}
		if got := facts.Result.Retry(); got != c.pause {
			t.Errorf("%s: asked again after %s at most", c.name, got)
		}
		p := s.Render(cr, facts)
		switch {
		case c.reason == "" && (len(p.Problems) > 0 || !strings.Contains(strings.Join(p.Warnings, ""), "no route")):
			t.Errorf("%s: problems %v, warnings %q", c.name, p.Problems, p.Warnings)
		case c.reason != "" && (len(p.Problems) != 1 || p.Problems[0].Reason != c.reason || p.Problems[0].Class != c.class):
			t.Errorf("%s: %v", c.name, p.Problems)
		}
	}
	from.put(configMap("two"))
	if back := ask(); back.Result.Failure != nil || back.Result.Content.Applications[0].Error != "" || len(s.Render(cr, back).Problems) > 0 {
		t.Errorf("%+v", back.Result)
	}
	other := cr.DeepCopy()
	other.UID = "another"
	if _, err := s.Gather(t.Context(), cluster, other); err == nil {
		t.Error("a KfDef of the same name has what the one before it had")
	}
}

func TestMovingRepositoriesAreAskedForAtTheInterval(t *testing.T) {
	s := New(Settings{Trusted: true, Sources: refusing{errors.New("down")}})
	cluster := controllertest.New(testNow)
	cr := custom("first")
	for _, c := range []struct {
		interval *metav1.Duration
		want     time.Duration
	}{{nil, controller.Once}, {&metav1.Duration{Duration: time.Hour}, time.Hour}} {
		cr.Spec.Interval = c.interval
		_, _ = s.Gather(t.Context(), cluster, cr)
		if got := cluster.Asked[len(cluster.Asked)-1].Every; got != c.want {
			t.Errorf("asked every %s, not %s", got, c.want)
		}
	}
}

func TestWithoutASourceRepairIsSuspended(t *testing.T) {
	for name, c := range map[string]struct {
		result *Result
		want   string
	}{
		"out of reach":         {&Result{Failure: &plan.Problem{Class: plan.Waiting, Reason: "Unreachable", Message: "m"}}, "nothing is repaired until the repositories can be fetched: m"},
		"refused for good":     {&Result{Failure: &plan.Problem{Class: plan.Terminal, Reason: "NotFound", Message: "m"}}, "nothing is repaired until the repositories can be fetched: m"},
		"as it was before":     {&Result{Inputs: "i", Failure: &plan.Problem{Class: plan.Terminal, Reason: "NotFound", Message: "m"}}, "what the repositories gave before stays declared, and nothing newer is applied: m"},
		"there":                {&Result{Inputs: "i"}, ""},
		"not asked for so far": {nil, "as before"},
	} {
		cr := custom()
		since := metav1.NewTime(testNow.Add(-time.Hour))
		cr.Status.Conditions = []metav1.Condition{{
			Type: ConditionSourceUnavailable, Status: metav1.ConditionTrue, Reason: "NotFound", Message: "as before", LastTransitionTime: since,
		}}
		New(Settings{}).Project(cr, Facts{Result: c.result}, controller.ObservedState{Now: testNow})
		got := meta.FindStatusCondition(cr.Status.Conditions, ConditionSourceUnavailable)
		switch {
		case c.want == "" && got != nil, c.want != "" && (got == nil || got.Message != c.want):
			t.Errorf("%s: %v", name, got)
		case got != nil && !got.LastTransitionTime.Equal(&since):
			t.Errorf("%s: since %s", name, got.LastTransitionTime)
		}
	}
}

// TestWhatIsNamedIsGone keeps what was rendered last declared while an object that the KfDef names is absent or unreadable (invariant 16). Where
// nothing was rendered yet, nothing is declared.
func TestWhatIsNamedIsGone(t *testing.T) {
	const user = "system:serviceaccount:kubeflow:mlkeeper"
	secret, account := object("v1", "Secret", "kubeflow", "named"), object("v1", "ServiceAccount", "kubeflow", "mlkeeper")
	secret.Object["data"] = map[string]any{"KEY": "dmFsdWU="}
	for name, c := range map[string]struct {
		field string
		names func(*kubeflowv1.KfDef)
		gone  func(*controllertest.Cluster)
		want  string
	}{
		"the Secret of a repository": {
			"spec.repos[0].secretName", func(cr *kubeflowv1.KfDef) { cr.Spec.Repos[0].SecretName = "named" },
			func(c *controllertest.Cluster) { c.Remove(plan.KeyOf(secret)) }, "Waiting SecretNotFound",
		},
		"the Secret of variables": {"spec.applications[0].postBuild.substituteFrom[0]", func(cr *kubeflowv1.KfDef) {
			cr.Spec.Rendering = renderingKustomize
			cr.Spec.Applications[0].KustomizeConfig.RepoRef.Path = "first/base"
			cr.Spec.Applications[0].PostBuild = &kubeflowv1.PostBuild{SubstituteFrom: []kubeflowv1.SubstituteReference{{Kind: "Secret", Name: "named"}}}
		}, func(c *controllertest.Cluster) { c.Remove(plan.KeyOf(secret)) }, "Waiting SecretNotFound"},
		"a right": {
			"Secret", func(cr *kubeflowv1.KfDef) { cr.Spec.Repos[0].SecretName = "named" },
			func(c *controllertest.Cluster) { c.Denied = map[string]bool{user: true} }, "Blocked Forbidden",
		},
	} {
		t.Run(name, func(t *testing.T) {
			from := newFakeStore(t)
			from.put(configMap("one"))
			s := New(Settings{Sources: from}).(*system)
			cluster := controllertest.New(testNow)
			cluster.Put(account)
			cr := custom("first")
			cr.Spec.ServiceAccountName = "mlkeeper"
			c.names(cr)
			if _, err := s.Gather(t.Context(), cluster, cr); err == nil {
				t.Fatal("without the object it renders before anything was rendered")
			}
			cluster.Put(secret)
			_, _ = s.Gather(t.Context(), cluster, cr)
			run(t, cluster)
			before, err := s.Gather(t.Context(), cluster, cr)
			if err != nil {
				t.Fatal(err)
			}
			c.gone(cluster)
			now, err := s.Gather(t.Context(), cluster, cr)
			if err != nil || now.Result != before.Result || s.SamePlan(before, now) {
				t.Fatalf("what was rendered is not declared any more: %v", err)
			}
			another := now
			another.Problem.Reason = "Another"
			if s.SamePlan(now, another) {
				t.Error("another problem is the same plan")
			}
			p := s.Render(cr, now)
			controllertest.MustFind(t, p, "ConfigMap", "c")
			if controllertest.Reasons(p) != c.want || p.Problems[0].Field != c.field || !strings.HasSuffix(p.Problems[0].Message, rendering.StaysDeclared) {
				t.Errorf("problems %+v", p.Problems)
			}
			s.Project(cr, now, controller.ObservedState{Now: testNow, Problems: p.Problems})
			if meta.FindStatusCondition(cr.Status.Conditions, ConditionSourceUnavailable) != nil {
				t.Error("a repository is told to be unavailable, which nobody asked")
			}
			cluster.Put(secret)
			cluster.Denied = nil
			if again, err := s.Gather(t.Context(), cluster, cr); err != nil || !s.SamePlan(before, again) {
				t.Errorf("it does not go on: %v", err)
			}
		})
	}
}

// run runs the job that was asked for last.
func run(t *testing.T, cluster *controllertest.Cluster) {
	t.Helper()
	last := cluster.Asked[len(cluster.Asked)-1]
	cluster.Answers[last.Name] = last.Job(t.Context(), nil)
}

// TestALimitIsTriedAgain has the retry of a job render the same once more where an application took too much, since it may take less on a machine
// that is less busy, and nothing where it is what it renders that is wrong.
func TestALimitIsTriedAgain(t *testing.T) {
	doubling := "resources: [object.yaml]\nreplacements:\n" + strings.Repeat("- source: {kind: ConfigMap, fieldPath: data.key}\n"+
		"  targets: [{select: {kind: ConfigMap}, fieldPaths: [data.key], options: {delimiter: /, index: 100}}]\n", 40)
	for name, c := range map[string]struct {
		kustomization string
		limited       bool
	}{"too much memory": {doubling, true}, "a file that is not there": {"resources: [another.yaml]", false}} {
		from := newFakeStore(t)
		var err error
		from.data, err = manifesttest.Pack(fstest.MapFS{
			"first/kustomization.yaml": {Data: []byte(c.kustomization)}, "first/object.yaml": {Data: []byte(configMap("one"))},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := New(Settings{Trusted: true, Sources: from}).(*system)
		cluster, cr := controllertest.New(testNow), custom("first")
		cr.Spec.Rendering = renderingKustomize
		_, _ = s.Gather(t.Context(), cluster, cr)
		job := cluster.Asked[0].Job
		before, _ := job(t.Context(), nil).(*Result)
		if before.Content.Applications[0].Error == "" || before.Retry() != controller.RetryLasting {
			t.Fatalf("%s: %+v, retried after %s", name, before.Content, before.Retry())
		}
		after, _ := job(t.Context(), nil).(*Result)
		if again := after != before; again != c.limited {
			t.Errorf("%s: it is rendered again: %v; %s", name, again, before.Content.Applications[0].Error)
		}
	}
}

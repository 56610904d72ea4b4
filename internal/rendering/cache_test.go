package rendering_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/rendering"
	"mlkeeper.dev/internal/source"
)

var (
	removed = schema.GroupVersionKind{Group: "policy", Version: "v1beta1", Kind: "PodDisruptionBudget"}
	current = removed.GroupKind().WithVersion("v1")
)

// content is what the jobs of this test render: the file of the archive, and one object in the version that is served.
type content struct{ text, apiVersion string }

type result = rendering.Result[content]

// repository is a fetcher whose one archive can be exchanged, and be out of reach.
type repository struct {
	store   *source.Store
	text    string
	down    error
	fetched int
}

func (r *repository) Fetch(ctx context.Context, _ source.Request) (*source.Artifact, error) {
	r.fetched++
	if r.down != nil {
		return nil, r.down
	}
	data, err := manifesttest.Pack(fstest.MapFS{"file": {Data: []byte(r.text)}})
	if err != nil {
		return nil, err
	}
	return r.store.Unpack(ctx, "archive", data)
}

func (r *repository) FetchChart(ctx context.Context, _ source.ChartRequest) (*source.Artifact, error) {
	return r.Fetch(ctx, source.Request{})
}

func (r *repository) Unpack(ctx context.Context, name string, data []byte) (*source.Artifact, error) {
	return r.store.Unpack(ctx, name, data)
}

// bench runs jobs as the engine does, but when the test says so.
type bench struct {
	t       *testing.T
	from    *repository
	cluster *controllertest.Cluster
	cache   *rendering.Cache[content]
	job     rendering.Job[content]
	// rendered counts the renderings; broken has them fail.
	rendered int
	broken   *plan.Problem
	volatile bool
}

func newBench(t *testing.T) *bench {
	t.Helper()
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	b := &bench{t: t, from: &repository{store: store, text: "one"}, cluster: controllertest.New(time.Unix(0, 0), removed, current)}
	b.cache = rendering.New[content](b.from, nil)
	b.job = rendering.Job[content]{
		Subject: rendering.Subject{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "cr"}, UID: "uid", Part: "part"},
		Inputs:  "inputs", Every: controller.Once, Render: b.render,
		Sources: []rendering.Source{{Name: "archive", Origin: origin.Origin{Field: "spec.source"}}},
	}
	return b
}

func (b *bench) render(_ context.Context, run rendering.Run[content]) *plan.Problem {
	b.rendered++
	if b.broken != nil {
		return b.broken
	}
	text, err := fs.ReadFile(run.Trees[0], "file")
	if err != nil {
		b.t.Error(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minAvailable": int64(1)}}}
	object.SetGroupVersionKind(removed)
	objects, _, err := run.ConvertAll([]*unstructured.Unstructured{object})
	if err != nil {
		b.t.Error(err)
	}
	run.Result.Content, run.Result.Volatile = content{string(text), objects[0].GetAPIVersion()}, b.volatile
	return nil
}

// get requests the job, and returns its name too.
func (b *bench) get() (got *result, done bool, name string) {
	b.t.Helper()
	got, done = b.cache.Get(b.cluster, b.job)
	return got, done, b.cluster.Asked[len(b.cluster.Asked)-1].Name
}

// run requests the job, lets it end, and returns its result, which the garbage collector must not take away.
func (b *bench) run() *result {
	b.t.Helper()
	_, _, name := b.get()
	out, _ := b.cluster.Asked[len(b.cluster.Asked)-1].Job(b.t.Context(), nil).(*result)
	if out == nil {
		b.t.Fatal("a job has no result")
	}
	b.cluster.Answers[name] = out
	runtime.GC()
	runtime.GC()
	return out
}

func TestAJobRunsOnceForItsInputs(t *testing.T) {
	b := newBench(t)
	if got, done, _ := b.get(); got != nil || done {
		t.Fatalf("there is a result before the job has run: %+v", got)
	}
	first := b.run()
	got, done, name := b.get()
	if got != first || !done || first.Content != (content{"one", "policy/v1beta1"}) || first.Failure != nil || first.Retry() != 0 || first.Cause() != "" {
		t.Fatalf("%v %+v", done, first)
	}
	for what, change := range map[string]func(*rendering.Job[content]){
		"inputs":  func(j *rendering.Job[content]) { j.Inputs = "others" },
		"trigger": func(j *rendering.Job[content]) { j.Trigger = "now" },
		"part":    func(j *rendering.Job[content]) { j.Part = "other" },
	} {
		before := b.job
		change(&b.job)
		if _, done, other := b.get(); done || other == name {
			t.Errorf("another %s is the same job", what)
		}
		b.job = before
	}
	// The sources are asked again, and give the same: nothing is rendered.
	b.job.Trigger = "now"
	if again := b.run(); again != first || b.from.fetched != 2 || b.rendered != 1 {
		t.Errorf("fetched %d times, rendered %d times", b.from.fetched, b.rendered)
	}
	b.from.text = "two"
	if next := b.run(); next.Content.text != "two" || next.Sources[0] == first.Sources[0] {
		t.Errorf("of another archive: %+v", next)
	}
}

func TestWhatMayRenderSomethingElseIsRenderedAgain(t *testing.T) {
	b := newBench(t)
	b.volatile = true
	first := b.run()
	b.job.Trigger = "now"
	if again := b.run(); again == first || b.rendered != 2 {
		t.Errorf("rendered %d times", b.rendered)
	}
}

func TestAJobRunsAnewWhenTheClusterServesSomethingElse(t *testing.T) {
	b := newBench(t)
	first := b.run()
	_, _, name := b.get()
	b.cluster.APIs[schema.GroupVersionKind{Group: "batch", Version: "v1beta1", Kind: "CronJob"}] = true
	if _, done, same := b.get(); !done || same != name {
		t.Error("an API that nothing depends on has the job run anew")
	}
	b.cluster.APIs[removed] = false
	got, done, other := b.get()
	if got != first || done || other == name {
		t.Fatalf("while the job runs: %+v, %v", got, done)
	}
	b.from.down = errors.New("no route")
	for range 2 {
		if failed := b.run(); failed.Content != first.Content || failed.Failure == nil {
			t.Errorf("what stands is %+v", failed)
		}
		if _, _, again := b.get(); again != other {
			t.Errorf("the job is %q, and then %q", other, again)
		}
	}
	b.from.down = nil
	if second := b.run(); second.Content.apiVersion != "policy/v1" {
		t.Errorf("rendered is %+v", second.Content)
	}
	if _, done, again := b.get(); !done || again != other {
		t.Errorf("the job is %q, and then %q", other, again)
	}
	// It was no upgrade: what answered was an API server that had yet to begin.
	b.cluster.APIs[removed] = true
	if third := b.run(); third.Content != first.Content {
		t.Errorf("rendered is %+v", third.Content)
	}
}

func TestAJobRunsAnewWhenItsRenderingWouldLearnSomethingElse(t *testing.T) {
	b := newBench(t)
	learns := ""
	b.job.Changed = func(content) string { return learns }
	first := b.run()
	learns = "something else"
	if got, done, _ := b.get(); got != first || done {
		t.Errorf("%+v, %v", got, done)
	}
	if again := b.run(); again == first || b.rendered != 2 {
		t.Errorf("rendered %d times", b.rendered)
	}
}

func TestTheLastResultStandsWhileANewOneIsMadeAndWhenThatFails(t *testing.T) {
	b := newBench(t)
	first := b.run()
	b.job.Inputs = "others"
	if got, done, _ := b.get(); got != first || done {
		t.Fatalf("while the job runs: %+v, %v", got, done)
	}
	terminal := &source.Error{Class: source.Terminal, Reason: source.ReasonNotFound, Message: "404", Remedy: "correct it"}
	for _, c := range []struct {
		name   string
		down   error
		broken *plan.Problem
		want   plan.Problem
		pause  time.Duration
	}{
		{"not there", terminal, nil, plan.Problem{
			Class: plan.Terminal, Reason: source.ReasonNotFound, Field: "spec.source", Value: "archive", Message: "404", Remedy: "correct it",
		}, controller.RetryLasting},
		{"too slow", &source.Error{Class: source.Transient, Reason: source.ReasonUnreachable, Message: "it took too long"}, nil, plan.Problem{
			Class: plan.Waiting, Reason: source.ReasonUnreachable, Field: "spec.source", Value: "archive", Message: "it took too long",
			Remedy: "if it stays, look at the server, the network policies and the proxy; it is tried again with growing pauses",
		}, controller.RetryPassing},
		{"an error that nobody knows", fs.ErrNotExist, nil, plan.Problem{
			Class: plan.Waiting, Reason: source.ReasonUnreachable, Field: "spec.source", Value: "archive", Message: fs.ErrNotExist.Error(),
		}, controller.RetryPassing},
		{"not to be rendered", nil, &plan.Problem{Class: plan.Terminal, Reason: "R"}, plan.Problem{Class: plan.Terminal, Reason: "R"}, controller.RetryLasting},
	} {
		b.from.down, b.broken = c.down, c.broken
		failed := b.run()
		if failed.Content != first.Content || failed.Inputs != first.Inputs || failed.Failure == nil || *failed.Failure != c.want {
			t.Errorf("%s: %+v", c.name, failed)
		}
		if failed.Retry() != c.pause || failed.Cause() != c.want.Reason {
			t.Errorf("%s: run again after %s at most, caused by %s", c.name, failed.Retry(), failed.Cause())
		}
		if again := b.run(); again != failed {
			t.Errorf("%s: the same failure is another result", c.name)
		}
		if got := b.cache.Last(b.job.Subject); got != failed {
			t.Errorf("%s: the last result is %+v", c.name, got)
		}
	}
	b.broken = nil
	if next := b.run(); next.Failure != nil || next.Inputs != "others" {
		t.Errorf("%+v", next)
	}
}

// TestTheLastResultStandsAlthoughNobodyElseHoldsIt: the engine forgets the result of a job once it asks for another, and no plan may hold it.
func TestTheLastResultStandsAlthoughNobodyElseHoldsIt(t *testing.T) {
	b := newBench(t)
	want := b.run().Content
	clear(b.cluster.Answers)
	runtime.GC()
	runtime.GC()
	b.job.Inputs = "others"
	got, done, _ := b.get()
	if done || !got.Rendered() || got.Inputs != "inputs" || got.Content != want {
		t.Errorf("while the job runs: %+v, %v", got, done)
	}
}

func TestNothingSurvivesIntoANamesake(t *testing.T) {
	b := newBench(t)
	b.run()
	b.job.UID = "another"
	clear(b.cluster.Answers)
	if got, _, _ := b.get(); got != nil || b.cache.Last(b.job.Subject) != nil {
		t.Errorf("a custom resource has what its namesake had: %+v", got)
	}
	b.run()
	b.cache.Forget(types.NamespacedName{Namespace: "ns", Name: "other"})
	if b.cache.Last(b.job.Subject) == nil {
		t.Error("what is there is forgotten")
	}
	b.get()
	late := b.cluster.Asked[len(b.cluster.Asked)-1].Job
	b.cache.Forget(b.job.NamespacedName)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late(ctx, nil)
	for _, uid := range []types.UID{"uid", "another"} {
		b.job.UID = uid
		if got := b.cache.Last(b.job.Subject); got != nil {
			t.Errorf("what is gone is remembered: %+v", got)
		}
	}
}

func TestWhatIsReportedOfAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		result           result
		current          bool
		problem, warning string
	}{
		"none":        {result{Inputs: "i"}, true, "", ""},
		"it may pass": {result{Failure: &plan.Problem{Class: plan.Waiting, Message: "m"}}, false, "m", ""},
		"it is no repository's": {
			result{Inputs: "i", Failure: &plan.Problem{Class: plan.Waiting, Reason: plan.ReasonFetching, Message: "m"}},
			true, "", "what was rendered before is used: m",
		},
		"it may pass, beside the content": {
			result{Inputs: "i", Failure: &plan.Problem{Class: plan.Waiting, Message: "m", Remedy: "do"}},
			true, "", "what the repositories gave before is used, since they cannot be asked now: m; do",
		},
		"it may pass, beside older": {result{Inputs: "i", Failure: &plan.Problem{Class: plan.Waiting, Message: "m"}}, false, "m; what was rendered before stays declared", ""},
		"it lasts":                  {result{Inputs: "i", Failure: &plan.Problem{Class: plan.Terminal, Message: "m"}}, true, "m; what was rendered before stays declared", ""},
	} {
		problem, warning := c.result.Report(c.current)
		if (problem == nil) != (c.problem == "") || problem != nil && problem.Message != c.problem || warning != c.warning {
			t.Errorf("%s: %v, %q", name, problem, warning)
		}
	}
}

func TestDigestsNeedTheKey(t *testing.T) {
	one := rendering.Digest("key", "value")
	if one != rendering.Digest("key", "value") || one == rendering.Digest("key", "other") || one == rendering.Digest("other", "value") {
		t.Error("a digest does not depend on the key and the value alone")
	}
}

// TestWhatSourcesReferToIsPartOfTheResult renders anew where that has changed and the sources have not, and only there.
func TestWhatSourcesReferToIsPartOfTheResult(t *testing.T) {
	b := newBench(t)
	digest := "one"
	var problem *plan.Problem
	var artifact *source.Artifact
	b.job.Resolve = func(ctx context.Context, run *rendering.Run[content]) (failed *plan.Problem) {
		var err error
		if artifact, err = run.Fetch(ctx, source.Request{}); err != nil {
			t.Fatal(err)
		}
		run.Result.Fetched = []rendering.Revision{{Name: "https://example.org", Digest: digest}}
		return problem
	}
	first := b.run()
	if again := b.run(); again != first || b.rendered != 1 {
		t.Errorf("%d renderings of the same", b.rendered)
	}
	digest = "two"
	if now := b.run(); now == first || b.rendered != 2 || now.Fetched[0].Digest != "two" {
		t.Errorf("%d renderings", b.rendered)
	}
	if _, err := fs.ReadFile(artifact.FS(), "file"); err == nil {
		t.Error("what was fetched stays open")
	}
	problem = &plan.Problem{Reason: "Some"}
	if now := b.run(); b.rendered != 2 || now.Failure == nil || now.Content.text != "one" {
		t.Errorf("%d renderings, %+v", b.rendered, now)
	}
}

// TestWhatOneRunHasOpenIsBounded refuses sources whose files and folders are too many together, and names the one with which they are.
func TestWhatOneRunHasOpenIsBounded(t *testing.T) {
	b := newBench(t)
	store, err := source.New(source.Options{Dir: t.TempDir(), ListsOfRun: 400})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	b.from.store, b.job.Sources = store, nil
	for i, text := range []string{"one", "one", "two", "three"} {
		data, err := manifesttest.Pack(fstest.MapFS{"file": {Data: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		b.job.Sources = append(b.job.Sources, rendering.Source{Name: text, Origin: origin.Origin{Field: fmt.Sprintf("spec.source[%d]", i), Inline: data}})
	}
	failure := b.run().Failure
	if failure == nil || failure.Class != plan.Terminal || failure.Reason != source.ReasonTooLarge || failure.Field != "spec.source[3]" || failure.Remedy == "" {
		t.Fatalf("failure %+v", failure)
	}
	b.job.Sources, b.job.Trigger = b.job.Sources[:3], "corrected"
	if got := b.run(); got.Failure != nil || got.Content.text != "one" {
		t.Errorf("three of which two are the same: %+v", got)
	}
}

// TestSlowDownloadsLeaveTimeForTheRendering holds that a job has its whole timeout for what its sources refer to, and for the rendering,
// however long what came before took.
func TestSlowDownloadsLeaveTimeForTheRendering(t *testing.T) {
	b := newBench(t)
	ctx, cancel := limit.WithTimeout(t.Context(), time.Hour, nil)
	defer cancel()
	last, _ := ctx.Deadline()
	later := func(ctx context.Context, part string) {
		ends, _ := ctx.Deadline()
		if !ends.After(last) {
			t.Errorf("%s ends at %s, as what came before it", part, ends)
		}
		time.Sleep(10 * time.Millisecond)
		last = ends.Add(9 * time.Millisecond)
	}
	b.job.Resolve = func(ctx context.Context, _ *rendering.Run[content]) *plan.Problem {
		later(ctx, "the resolution")
		return nil
	}
	b.job.Render = func(ctx context.Context, run rendering.Run[content]) *plan.Problem {
		later(ctx, "the rendering")
		return b.render(ctx, run)
	}
	b.cache.Get(b.cluster, b.job)
	if out, _ := b.cluster.Asked[0].Job(ctx, nil).(*result); b.rendered != 1 || out.Failure != nil {
		t.Errorf("rendered %d times, %v", b.rendered, out.Failure)
	}
}

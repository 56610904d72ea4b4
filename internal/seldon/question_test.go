package seldon

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/manifest/helm"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/origin"
	"mlkeeper.dev/internal/source"
)

// shelf is a store whose one chart can be exchanged.
type shelf struct {
	store *source.Store
	data  []byte
	asked int
}

func (s *shelf) put(t *testing.T, template string) {
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

func (s *shelf) FetchChart(ctx context.Context, _ source.ChartRequest) (*source.Artifact, error) {
	s.asked++
	return s.store.Unpack(ctx, "chart", s.data)
}

func (s *shelf) Fetch(context.Context, source.Request) (*source.Artifact, error) {
	return nil, errors.New("a chart is no archive")
}

func (s *shelf) Unpack(ctx context.Context, name string, data []byte) (*source.Artifact, error) {
	return s.store.Unpack(ctx, name, data)
}

// small is a chart that asks the cluster for an API, and has an object of a version that is served no more.
const small = `
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: one, annotations: {gateways: '{{ .Capabilities.APIVersions.Has "example.com/v1" }}'}}
spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}
`

func TestAChartThatHasNotChangedIsNotRenderedAgain(t *testing.T) {
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	from := &shelf{store: store}
	from.put(t, small)
	s := &system{settings: Settings{Sources: from}.complete()}
	apis, kinds := map[string]bool{}, map[string]bool{"policy/v1": true}
	ask := func(inputs string) *Answer {
		t.Helper()
		q := inquiry{
			component: component{name: core, chart: v1alpha1.Chart{Name: "small", Version: "1.0.0"}}, uid: "uid", namespace: "ns",
			inputs: inputs, keys: made(t, nil, testNow), from: origin.Origin{Chart: &source.ChartRequest{}},
			cluster: helm.Cluster{Version: "v1.36.2", Serves: func(api string) bool { return apis[api] }},
			serves:  func(gvk schema.GroupVersionKind) bool { return kinds[gvk.GroupVersion().String()] },
		}
		answer, _ := s.question(q)(t.Context(), nil).(*Answer)
		if answer.Failure != nil {
			t.Fatal(answer.Failure)
		}
		return answer
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
		{"another version of what was rendered is served", func() { kinds["policy/v1beta1"] = true }},
		{"the chart is another", func() { from.put(t, small+"# another\n") }},
	} {
		c.change()
		next := ask("first")
		if next == last {
			t.Errorf("%s: the answer is that of before", c.what)
		}
		last = next
	}
	if other := ask("second"); other == last {
		t.Error("other values: the answer is that of before")
	}
	// What was looked up may have changed since.
	from.put(t, small+"# {{ lookup \"v1\" \"Secret\" \"ns\" \"one\" }}\n")
	last = ask("first")
	if again := ask("first"); again == last {
		t.Error("a chart that looks something up is not rendered again")
	}
}

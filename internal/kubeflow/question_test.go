package kubeflow

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/room"
	"mlkeeper.dev/internal/engine/room/roomtest"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/source"
)

// shelf is a store whose one archive can be exchanged, and be out of reach.
type shelf struct {
	t     *testing.T
	store *source.Store
	data  []byte
	down  error
	asked int
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &shelf{t: t, store: store}
}

func (s *shelf) put(content string) {
	var err error
	s.data, err = manifesttest.Pack(fstest.MapFS{
		"first/base/kustomization.yaml": {Data: []byte("resources: [object.yaml]")},
		"first/base/object.yaml":        {Data: []byte(content)},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *shelf) Fetch(ctx context.Context, _ source.Request) (*source.Artifact, error) {
	s.asked++
	if s.down != nil {
		return nil, s.down
	}
	return s.store.Unpack(ctx, "archive", s.data)
}

func (s *shelf) FetchChart(context.Context, source.ChartRequest) (*source.Artifact, error) {
	return nil, errors.New("a KfDef has no charts")
}

func (s *shelf) Unpack(ctx context.Context, name string, data []byte) (*source.Artifact, error) {
	return s.store.Unpack(ctx, name, data)
}

func configMap(value string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {key: " + value + "}}"
}

func TestWhatHasNotChangedIsNotRenderedAgain(t *testing.T) {
	from := newShelf(t)
	from.put(configMap("one"))
	s := &system{settings: Settings{Trusted: true, Sources: from}}
	cluster := roomtest.New(testNow)
	cr := custom("first")
	ask := func() *Answer {
		t.Helper()
		if _, err := s.Gather(t.Context(), cluster, cr); err != nil && cluster.Answers[cluster.Asked[len(cluster.Asked)-1].Name] != nil {
			t.Fatal(err)
		}
		last := cluster.Asked[len(cluster.Asked)-1]
		answer, _ := last.Question(t.Context(), nil).(*Answer)
		cluster.Answers[last.Name] = answer
		return answer
	}
	first := ask()
	if first.Failure != nil || len(first.Applications) != 1 || len(first.Applications[0].Objects) != 1 {
		t.Fatalf("%+v", first)
	}
	cr.Annotations = map[string]string{keeper.ReconcileAtAnnotation: "now"}
	if again := ask(); again != first || from.asked != 2 {
		t.Errorf("%d times asked, another answer: %v", from.asked, again != first)
	}
	// Until the new question is answered, the answer to the one before stands.
	cr.Annotations[keeper.ReconcileAtAnnotation] = "later"
	if facts, err := s.Gather(t.Context(), cluster, cr); err != nil || facts.Answer != first {
		t.Errorf("%v", err)
	}
	from.put(configMap("two"))
	second := ask()
	if second == first || second.Repos[0].Digest == first.Repos[0].Digest {
		t.Error("another archive gives the same answer")
	}
	from.down = &source.Error{Class: source.Transient, Reason: source.ReasonUnreachable, Message: "no route"}
	cr.Annotations[keeper.ReconcileAtAnnotation] = "offline"
	stale := ask()
	if stale.Failure != nil || stale.Stale != "no route" || len(stale.Applications) != 1 || !stale.unsettled() {
		t.Errorf("%+v", stale)
	}
	from.down = &source.Error{Class: source.Terminal, Reason: source.ReasonNotFound, Message: "404"}
	cr.Annotations[keeper.ReconcileAtAnnotation] = "removed"
	if gone := ask(); gone.Failure == nil || gone.Failure.Reason != source.ReasonNotFound {
		t.Errorf("%+v", gone)
	}
}

func TestMovingRepositoriesAreAskedForAtTheInterval(t *testing.T) {
	s := New(Settings{Trusted: true, Sources: refusing{errors.New("down")}})
	cluster := roomtest.New(testNow)
	cr := custom("first")
	for _, c := range []struct {
		interval *metav1.Duration
		want     time.Duration
	}{{nil, room.Once}, {&metav1.Duration{Duration: time.Hour}, time.Hour}} {
		cr.Spec.Interval = c.interval
		_, _ = s.Gather(t.Context(), cluster, cr)
		if got := cluster.Asked[len(cluster.Asked)-1].Every; got != c.want {
			t.Errorf("asked every %s, not %s", got, c.want)
		}
	}
}

func TestWithoutASourceRepairIsSuspended(t *testing.T) {
	for name, c := range map[string]struct {
		answer *Answer
		want   bool
	}{
		"out of reach":         {&Answer{Failure: &Failure{Transient: true, Reason: "Unreachable", Message: "m"}}, true},
		"refused for good":     {&Answer{Failure: &Failure{Reason: "NotFound", Message: "m"}}, false},
		"as it was before":     {&Answer{Stale: "m"}, false},
		"there":                {&Answer{}, false},
		"not asked for so far": {nil, false},
	} {
		cr := custom()
		New(Settings{}).Project(cr, Facts{Answer: c.answer}, room.Seen{Now: testNow})
		got := false
		for _, condition := range cr.Status.Conditions {
			got = got || condition.Type == ConditionSourceUnavailable && condition.Status == metav1.ConditionTrue
		}
		if got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

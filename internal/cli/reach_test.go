package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"

	"mlkeeper.dev/internal/console"
)

// TestAnAPIServerThatGoesAwayIsNoticed asks one that stops, by the clients that the commands have.
func TestAnAPIServerThatGoesAwayIsNoticed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			fmt.Fprint(w, `{"kind": "APIVersions", "versions": []}`)
		case "/apis":
			fmt.Fprint(w, `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	connection := &Connection{}
	connection.overrides.ClusterInfo.Server = server.URL
	c, err := connection.open()
	if err != nil {
		t.Fatal(err)
	}
	lost, next := c.reach.state()
	if lost != "" {
		t.Errorf("it answers: %s", lost)
	}
	// Who goes before there is an answer says nothing of the API server.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	api := c.dynamic.Resource(serviceGVR)
	if _, err := api.List(gone, metav1.ListOptions{}); err == nil {
		t.Error("a request of nobody was answered")
	}
	if _, err := api.List(t.Context(), metav1.ListOptions{}); err == nil || closed(next) {
		t.Errorf("an answer is none: %v", err)
	}
	server.Close()
	if _, err := api.List(t.Context(), metav1.ListOptions{}); err == nil || !closed(next) {
		t.Errorf("%v", err)
	}
	if lost, _ := c.reach.state(); !strings.Contains(lost, "refused") {
		t.Errorf("it does not say why: %q", lost)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestThePageSaysThatTheAPIServerIsAway looks at the overview and at one custom resource meanwhile.
func TestThePageSaysThatTheAPIServerIsAway(t *testing.T) {
	s, _ := stackSource(t, fakeController{})
	s.reach = &reach{}
	var back atomic.Bool
	s.version = func(context.Context) (*apiversion.Info, error) {
		if back.Load() {
			s.reach.note(nil)
		}
		return &apiversion.Info{}, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	overview, stack := console.NewFeed(), console.NewFeed()
	ended := make(chan error, 2)
	go func() { ended <- s.Overview(ctx, "", overview) }()
	go func() { ended <- s.Stack(ctx, theService, stack) }()
	says := func(want bool) func() bool {
		return func() bool {
			top := string(stack.Rows()["stack"])
			return top != "" && strings.Contains(top, "does not answer") == want && (overview.Rows()["note/API server"] != nil) == want
		}
	}
	await(t, says(false))
	s.reach.note(errors.New("connection refused\x1b[2J"))
	await(t, says(true))
	if row := string(overview.Rows()["note/API server"]); !strings.Contains(row, "connection refused") || strings.Contains(row, "\x1b") {
		t.Errorf("%s", row)
	}
	back.Store(true)
	await(t, says(false))
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

var profileGVK = schema.GroupVersionKind{Group: "kubeflow.org", Version: "v1", Kind: "Profile"}

// hiding is a mapper to which a kind is not served.
type hiding struct {
	meta.RESTMapper
	hidden schema.GroupKind
}

func (h hiding) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if gk == h.hidden {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	return h.RESTMapper.RESTMapping(gk, versions...)
}

// TestADefinitionMayComeWhileSomebodyLooks has an object in the inventory whose kind is served a moment later, as while a KfDef comes up.
func TestADefinitionMayComeWhileSomebodyLooks(t *testing.T) {
	u, objects := waiting()
	entries, _, _ := unstructured.NestedSlice(u.Object, "status", "inventory", "entries")
	entries = append(entries, map[string]any{
		"group": profileGVK.Group, "version": profileGVK.Version, "kind": profileGVK.Kind, "namespace": "default", "name": "p",
	})
	if err := unstructured.SetNestedSlice(u.Object, entries, "status", "inventory", "entries"); err != nil {
		t.Fatal(err)
	}
	c, dyn := fakeCluster(t, append(slices.Clone(consoleKinds), profileGVK), append(objects, child(profileGVK, u, "p", nil))...)
	all := c.served.Load()
	before := &served{hiding{all.mapper, profileGVK.GroupKind()}, all.kinds}
	c.served.Store(before)
	var asked atomic.Int32
	var comes atomic.Bool
	c.discover = func() (*served, error) {
		switch {
		case asked.Add(1) == 1:
			return nil, errors.New("the API server is busy")
		case comes.Load():
			return all, nil
		}
		return before, nil
	}
	env := environment(fakeController{}, c)
	r, err := newResolver(env)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	feed := console.NewFeed()
	ended := make(chan error, 1)
	go func() { ended <- newConsoleSource(r, env, "").Stack(ctx, theService, feed) }()
	says := func(want string) func() bool {
		return func() bool {
			return strings.Contains(string(feed.Rows()["object/Profile.kubeflow.org/default/p"]), want) && asked.Load() >= 2
		}
	}
	await(t, says("NotServed"))
	// Nothing is asked where nothing changes.
	time.Sleep(2 * learnEvery)
	quiet := asked.Load()
	time.Sleep(2 * learnEvery)
	if n := asked.Load(); n != quiet {
		t.Errorf("it is asked %d times more what is served, while nothing changes", n-quiet)
	}
	comes.Store(true)
	live := c.read(ctx, t, "tas/s")
	live.SetLabels(map[string]string{"changed": "yes"})
	mustUpdate(ctx, t, dyn, serviceGVR, live)
	await(t, says("Current"))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestTheOverviewFindsADefinitionThatCame opens the overview before and after an installation.
func TestTheOverviewFindsADefinitionThatCame(t *testing.T) {
	_, objects := waiting()
	s := consoleOf(t, objects...)
	all := s.served.Load()
	before := &served{hiding{all.mapper, serviceKind.GroupKind()}, all.kinds}
	s.served.Store(before)
	for _, now := range []*served{before, all} {
		s.discover = func() (*served, error) { return now, nil }
		rows := feeding(t, overviewOf(s, ""), func(rows map[string]string) bool { return len(rows) > 0 })
		if missing := rows["note/TrustyAIService"] != ""; missing != (now == before) {
			t.Errorf("%v", rows)
		}
	}
}

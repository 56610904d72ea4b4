package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/config/crd"
	"mlkeeper.dev/internal/console"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// TestCredentialsThatEndAskForALogin has an API server that accepts the token no longer when something is opened.
func TestCredentialsThatEndAskForALogin(t *testing.T) {
	s, dyn := stackSource(t, fakeController{})
	refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewUnauthorized("expired")
	}
	dyn.PrependReactor("list", "events", refuse)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Timeline(ctx, theService, console.NewFeed()); !errors.Is(err, console.ErrUnauthorized) {
		t.Errorf("a timeline goes on with the events that were read: %v", err)
	}
	dyn.PrependReactor("get", "*", refuse)
	for name, ask := range map[string]func(context.Context) error{
		"stack":    func(ctx context.Context) error { return s.Stack(ctx, theService, console.NewFeed()) },
		"timeline": func(ctx context.Context) error { return s.Timeline(ctx, theService, console.NewFeed()) },
		"object":   func(ctx context.Context) error { _, err := s.Object(ctx, theService); return err },
		"diff":     func(ctx context.Context) error { _, err := s.Diff(ctx, theService, false); return err },
		"action":   func(ctx context.Context) error { return s.Act(ctx, theService, actionSuspend) },
	} {
		if err := ask(ctx); !errors.Is(err, console.ErrUnauthorized) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRowsGoWithTheRight withdraws the right to read a kind while somebody looks, and gives it again.
func TestRowsGoWithTheRight(t *testing.T) {
	_, objects := waiting()
	c, dyn := fakeCluster(t, explainKinds, objects...)
	env := environment(fakeController{}, c)
	r, err := newResolver(env)
	if err != nil {
		t.Fatal(err)
	}
	var refused atomic.Bool
	refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused.Load(), nil, apierrors.NewForbidden(schema.GroupResource{Resource: "trustyaiservices"}, "", errors.New("no"))
	}
	dyn.PrependReactor("list", "trustyaiservices", refuse)
	open := make(chan *watch.FakeWatcher, 100)
	dyn.PrependWatchReactor("trustyaiservices", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if _, _, err := refuse(action); refused.Load() {
			return true, nil, err
		}
		w := watch.NewFake()
		open <- w
		return true, w, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	feed := console.NewFeed()
	ended := make(chan error, 1)
	go func() { ended <- newConsoleSource(r, env, "").Overview(ctx, "", feed) }()
	shows := func(row, note bool) func() bool {
		return func() bool {
			rows := feed.Rows()
			return (rows["TrustyAIService.trustyai.opendatahub.io/default/s"] != nil) == row && (rows["note/TrustyAIService"] != nil) == note
		}
	}
	await(t, shows(true, false))
	refused.Store(true)
	(<-open).Stop()
	await(t, shows(false, true))
	refused.Store(false)
	await(t, shows(true, false))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestOneNamespaceIsEnough has a user who may read one namespace alone, and looks at all and at that one.
func TestOneNamespaceIsEnough(t *testing.T) {
	s, dyn := stackSource(t, fakeController{})
	dyn.PrependReactor("list", "trustyaiservices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.GetNamespace() != "default", nil, apierrors.NewForbidden(schema.GroupResource{Resource: "trustyaiservices"}, "", errors.New("no"))
	})
	const row, note = "TrustyAIService.trustyai.opendatahub.io/default/s", "note/TrustyAIService"
	for _, one := range []struct {
		namespace, remedy string
		shared            bool
	}{
		{"", "or name a namespace with -n", false},
		{"", "or enter a namespace in which you have them at Read namespace", true},
		{"other", "in the namespace other.", true},
		{"default", "", true},
	} {
		s.shared = one.shared
		rows := feeding(t, overviewOf(s, one.namespace), func(rows map[string]string) bool { return rows[row]+rows[note] != "" })
		if !strings.Contains(rows[note], one.remedy) || (rows[row] != "") != (one.remedy == "") {
			t.Errorf("%+v: %v", one, rows)
		}
	}
	s.namespace = "other"
	if err := s.Overview(t.Context(), "default", console.NewFeed()); err == nil || !strings.Contains(err.Error(), "the namespace other alone") {
		t.Errorf("another namespace than that of -n is shown: %v", err)
	}
}

// TestANoteGoesWithItsCause gives the right to read a kind of which there are no objects, and that to read events, of which there are none.
func TestANoteGoesWithItsCause(t *testing.T) {
	s, dyn := stackSource(t, fakeController{})
	var refused atomic.Bool
	for _, resource := range []string{"trustyaiservices", "events"} {
		dyn.PrependReactor("list", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
			return refused.Load() && action.GetNamespace() != "", nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no"))
		})
	}
	for name, one := range map[string]struct {
		note string
		view func(context.Context, *console.Feed) error
	}{
		"overview": {"note/TrustyAIService", overviewOf(s, "empty")},
		"timeline": {"note/default", func(ctx context.Context, feed *console.Feed) error { return s.Timeline(ctx, theService, feed) }},
	} {
		t.Run(name, func(t *testing.T) {
			refused.Store(true)
			told := false
			feeding(t, one.view, func(rows map[string]string) bool {
				if rows[one.note] != "" {
					told = true
					refused.Store(false)
				}
				return told && rows[one.note] == ""
			})
		})
	}
}

// TestAWarningGoesWithItsCause gives a right that was missing while somebody looks.
func TestAWarningGoesWithItsCause(t *testing.T) {
	s, dyn := stackSource(t, fakeController{})
	var refused atomic.Bool
	refused.Store(true)
	dyn.PrependReactor("list", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused.Load(), nil, apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "", errors.New("no"))
	})
	warned := func(rows map[string]string) bool {
		warns := strings.Contains(rows["stack"], "Deployment may not be watched")
		if warns && refused.Load() {
			refused.Store(false)
		}
		return warns
	}
	told := false
	feeding(t, func(ctx context.Context, feed *console.Feed) error { return s.Stack(ctx, theService, feed) }, func(rows map[string]string) bool {
		now := warned(rows)
		told = told || now
		return told && !now && rows["object/Deployment.apps/default/d"] != ""
	})
}

// TestACustomResourceIsHeldInShort has one of a megabyte, as kubectl apply writes it, with thousands of objects.
func TestACustomResourceIsHeldInShort(t *testing.T) {
	u := withReady(liveService("s", "1", "2026-01-01T03:04:05Z"), "True", "AllComponentsReady", "fine")
	large := strings.Repeat("x", 1<<20)
	u.SetAnnotations(map[string]string{lastApplied: large, keeper.SuspendAnnotation: "true"})
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: large}})
	for path, value := range map[string]any{"url": "https://x", "modelsAvailable": "1/2", "inventory": map[string]any{"entries": []any{large}}} {
		if err := unstructured.SetNestedField(u.Object, value, "status", path); err != nil {
			t.Fatal(err)
		}
	}
	if err := unstructured.SetNestedField(u.Object, large, "spec", "data", "filename"); err != nil {
		t.Fatal(err)
	}
	s := consoleOf(t)
	want := s.row(s.controllers[0], u)
	out, err := reduceStack(u)
	if err != nil {
		t.Fatal(err)
	}
	kept := out.(*unstructured.Unstructured)
	data, err := json.Marshal(kept)
	if err != nil || len(data) > 1500 {
		t.Errorf("%v, %d bytes: %.2000s", err, len(data), data)
	}
	got, err := json.Marshal(s.row(s.controllers[0], kept))
	if err != nil {
		t.Fatal(err)
	}
	if row, err := json.Marshal(want); err != nil || string(row) != string(got) || want.URL == "" || want.Parts == "" || !want.Suspended || !want.Observed {
		t.Errorf("the row of what is kept is another one:\n%s\n%s", row, got)
	}
}

// countedFiles counts the files that are opened.
type countedFiles struct {
	fs.FS
	n atomic.Int32
}

func (r *countedFiles) Open(name string) (fs.File, error) {
	r.n.Add(1)
	return r.FS.Open(name)
}

// TestUsersShareWhatIsNobodys logs two users in: each has a connection of their own, and the definitions are held once.
func TestUsersShareWhatIsNobodys(t *testing.T) {
	c, dyn := fakeCluster(t, statusKinds)
	var user string
	var failed error
	dyn.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		review := object(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), "", "", nil)
		return true, review, errors.Join(failed, unstructured.SetNestedField(review.Object, user, "status", "userInfo", "username"))
	})
	files := &countedFiles{FS: crd.Definitions}
	env := environment(fakeController{}, c)
	env.Definitions = files
	login, err := logins(env, "")
	if err != nil {
		t.Fatal(err)
	}
	before := files.n.Load()
	var tokens []string
	for _, token := range []string{"ann", "bob"} {
		user = "user " + token
		name, source, err := login(t.Context(), token)
		if err != nil || name != user {
			t.Fatalf("%s is %q: %v", token, name, err)
		}
		theirs := source.(*consoleSource)
		if tokens = append(tokens, theirs.env.Connection.token); len(theirs.known) == 0 || !theirs.shared {
			t.Errorf("%s: %+v", token, theirs)
		}
	}
	if n := files.n.Load(); n != before || before == 0 || !slices.Equal(tokens, []string{"ann", "bob"}) {
		t.Errorf("%d files are read before and %d after two logins of %q", before, n, tokens)
	}
	user = ""
	if _, _, err := login(t.Context(), "nobody"); err == nil || errors.Is(err, console.ErrUnauthorized) {
		t.Errorf("a user without a name: %v", err)
	}
	failed = apierrors.NewUnauthorized("expired")
	if _, _, err := login(t.Context(), "old"); !errors.Is(err, console.ErrUnauthorized) {
		t.Errorf("a token that expired: %v", err)
	}
}

// answering renders what it has asked for, such as what it fetched.
type answering struct{ fakeController }

func (answering) RendersAnswers() bool { return true }

// TestAConsoleOfManyUsersFetchesNothing compares a custom resource that is made of sources, for one user and for many.
func TestAConsoleOfManyUsersFetchesNothing(t *testing.T) {
	for _, shared := range []bool{false, true} {
		rendered := false
		r := answering{fakeController{render: func(controller.Reader, *v1.TrustyAIService) (plan.Plan, error) {
			rendered = true
			return plan.Plan{}, nil
		}}}
		c, _ := fakeCluster(t, statusKinds, liveService("s", "1", "2026-01-01T03:04:05Z"))
		env := environment(r, c)
		resolver, err := newResolver(env)
		if err != nil {
			t.Fatal(err)
		}
		s := newConsoleSource(resolver, env, "")
		s.shared = shared
		got, err := s.Diff(t.Context(), theService, false)
		if rendered == shared || shared != (err != nil) {
			t.Errorf("shared %t: rendered %t, %v", shared, rendered, err)
		}
		if shared {
			if err == nil || !strings.Contains(err.Error(), "run mlkeeper diff trustyaiservice/s -n default") {
				t.Errorf("%v", err)
			}
			continue
		}
		// The page takes a list, also where there is nothing in it.
		if data, err := json.Marshal(got); err != nil || !strings.Contains(string(data), `"objects":[]`) || !strings.Contains(string(data), `"warnings":[]`) {
			t.Errorf("%v: %s", err, data)
		}
	}
}

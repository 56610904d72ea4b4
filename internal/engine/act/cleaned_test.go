package act

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/sanitize"
)

// cleaner takes the key "bad" out of the data of a ConfigMap, or fails.
type cleaner struct {
	err   error
	calls int
}

func (c *cleaner) Clean(_ context.Context, u *unstructured.Unstructured) (*unstructured.Unstructured, []string, error) {
	c.calls++
	if c.err != nil {
		return nil, nil, c.err
	}
	out := u.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "data", "bad")
	return out, []string{"data.bad was dropped"}, nil
}

func withBad(t *testing.T) plan.Stamped {
	t.Helper()
	return declared(t, func(o *plan.Object) { o.Desired = configMap("cm", map[string]any{"a": "1", "bad": "x"}) })
}

// refuses answers what an API server answers to an undeclared field: to a strict create, and to any apply.
func refuses(c *cast) func(verb, path string) *apierrors.StatusError {
	return func(verb, _ string) *apierrors.StatusError {
		body := string(c.server.bodies[len(c.server.bodies)-1])
		switch {
		case !strings.Contains(body, `"bad"`):
			return nil
		case verb == "POST":
			return apierrors.NewBadRequest(`strict decoding error: unknown field "data.bad"`)
		case verb == "APPLY":
			return apierrors.NewInternalError(errors.New(".data.bad: field not declared in schema"))
		}
		return nil
	}
}

// TestUndeclaredFieldsAreDroppedWithAWarning tests invariant 11: what the API server refuses, or would drop in silence, is named.
func TestUndeclaredFieldsAreDroppedWithAWarning(t *testing.T) {
	c := newCast(t)
	clean := &cleaner{}
	c.Cleaner = clean
	c.server.answer = refuses(c)
	want := []string{"data.bad was dropped"}
	res := c.do(t, creates(withBad(t)))
	if res.Err != nil || res.Problem != nil || !res.Wrote || !reflect.DeepEqual(res.Warnings, want) {
		t.Fatalf("%+v", res)
	}
	if got := c.verbs(); got != "POST POST" {
		t.Error(got)
	}
	res = c.do(t, applies(withBad(t), res.Observed.UID, decide.ReasonChanged))
	if res.Err != nil || res.Problem != nil || !reflect.DeepEqual(res.Warnings, want) {
		t.Fatalf("%+v", res)
	}
	if got := c.verbs(); got != "APPLY APPLY" || clean.calls != 2 {
		t.Error(got, clean.calls)
	}
	if _, found, _ := unstructured.NestedString(c.server.get(path).Object, "data", "bad"); found {
		t.Error("it was written after all")
	}
}

// TestWhatNeedsNoCleaningIsNotCleaned shows that the schema, which is large, is read only when it is needed.
func TestWhatNeedsNoCleaningIsNotCleaned(t *testing.T) {
	c := newCast(t)
	clean := &cleaner{}
	c.Cleaner = clean
	res := c.do(t, creates(declared(t, nil)))
	if res.Err != nil || clean.calls != 0 || c.verbs() != "POST" {
		t.Errorf("%+v", res)
	}
	// Two items of one name are refused by no create, but by a later apply.
	st := declared(t, func(o *plan.Object) {
		o.Desired = configMap("twice", map[string]any{"bad": []any{map[string]any{"name": "x"}, map[string]any{"name": "x"}}})
	})
	res = c.do(t, creates(st))
	if res.Err != nil || clean.calls != 1 || c.verbs() != "POST" || len(res.Warnings) != 1 {
		t.Errorf("%+v", res)
	}
}

// TestWithoutASchema shows that a kind whose schema is not published is made as it is, and that a schema that cannot be
// read is transient.
func TestWithoutASchema(t *testing.T) {
	c := newCast(t)
	c.Cleaner = &cleaner{err: sanitize.ErrNoSchema}
	strict := true
	c.server.answer = func(verb, _ string) *apierrors.StatusError {
		if verb == "POST" && strict {
			strict = false
			return apierrors.NewBadRequest("strict decoding error: unknown field")
		}
		return nil
	}
	if res := c.do(t, creates(withBad(t))); res.Err != nil || !res.Wrote || len(res.Warnings) > 0 {
		t.Errorf("%+v", res)
	}
	c = newCast(t)
	broken := errors.New("no answer")
	c.Cleaner = &cleaner{err: broken}
	c.server.answer = refuses(c)
	if res := c.do(t, creates(withBad(t))); !errors.Is(res.Err, broken) || res.Problem != nil || res.Wrote {
		t.Errorf("%+v", res)
	}
	uid := c.server.put(path, "mlkeeper", declared(t, nil).Desired).GetUID()
	if res := c.do(t, applies(withBad(t), uid, decide.ReasonChanged)); !errors.Is(res.Err, broken) || res.Problem != nil || res.Wrote {
		t.Errorf("%+v", res)
	}
}

// TestWhatIsPrunedIsTold: of a custom resource the API server prunes what it takes without an error. Other kinds may answer in another form than
// they were sent in, such as the stringData of a Secret.
func TestWhatIsPrunedIsTold(t *testing.T) {
	disco := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{{
		GroupVersion: "g.io/v1", APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing", Namespaced: true}},
	}}}}
	definition := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": "g.io", "scope": "Namespaced", "names": map[string]any{"kind": "Thing", "plural": "things"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
	}, "status": map[string]any{"acceptedNames": map[string]any{"kind": "Thing", "plural": "things"}, "conditions": []any{map[string]any{"type": "Established", "status": "True"}}}}}
	definition.SetGroupVersionKind(crdGVK)
	definition.SetName("things.g.io")
	definition.SetGeneration(2)
	served := catalog.New(disco, fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}: "CustomResourceDefinitionList",
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}:             "APIServiceList",
	}, definition), logr.Discard())
	if err := served.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	actor := &Actor{Catalog: served}
	sent := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"port": map[string]any{"target": "http"}}}}
	answer := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"port": map[string]any{}}}}
	for kind, want := range map[string]int{"Thing": 1, "Other": 0} {
		res := Result{Action: decide.Action{Key: plan.Key{GroupKind: schema.GroupKind{Group: "g.io", Kind: kind}}}}
		if actor.tellPruned(&res, sent, answer); len(res.Warnings) != want {
			t.Errorf("%s: %q", kind, res.Warnings)
		}
	}
}

package act

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

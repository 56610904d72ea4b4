package adoption

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/plan"
)

const previous = "previous.example.com/cleanup"

var (
	claims = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	stack  = plan.Stack{
		Controller: "servers", GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Server"}, Namespace: "ns", Name: "x", UID: "u",
	}
	self = plan.Owner{APIVersion: "example.com/v1", Kind: "Server", Name: "x", UID: "u"}
)

// fakeReleaser records what is released, and fails at one object.
type fakeReleaser struct {
	released []string
	failAt   string
}

var errRefused = errors.New("refused")

func (f *fakeReleaser) release(name string) error {
	if name == f.failAt {
		return errRefused
	}
	f.released = append(f.released, name)
	return nil
}

func (f *fakeReleaser) Release(_ context.Context, o plan.Stamped, owners []plan.Owner) error {
	if len(owners) != 1 || owners[0] != self {
		return errors.New("it is released from another owner")
	}
	return f.release(o.Key.Name)
}

func (f *fakeReleaser) ReleaseOwned(_ context.Context, gvk schema.GroupVersionKind, _ plan.Stack, _ plan.Owner) error {
	return f.release(gvk.Kind)
}

func claim(name string, retain bool) plan.Object {
	o := plan.Typed(claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	o.Retain = retain
	return o
}

// TestOnlyTheFinalizersOfThePreviousOperatorAreRemoved: the cache has those alone, and the others stay.
func TestOnlyTheFinalizersOfThePreviousOperatorAreRemoved(t *testing.T) {
	var patched string
	var live metav1.Object
	var unread error
	a := Adopter{
		Finalizers: []string{previous},
		Patch: func(_ context.Context, _ metav1.Object, patch []byte) error {
			patched = string(patch)
			return nil
		},
		Live: func(context.Context, metav1.Object) (metav1.Object, error) { return live, unread },
	}
	cr := &metav1.ObjectMeta{Name: "x", UID: "u", ResourceVersion: "7", Finalizers: []string{"user.example.com/keep"}}
	if a.Pending(cr) {
		t.Error("a finalizer of another is pending")
	}
	cr.Finalizers = []string{previous}
	if !a.Pending(cr) {
		t.Error("the finalizer of the previous operator is not pending")
	}
	if err := a.RemoveFinalizers(t.Context(), cr); err != nil || patched != "" {
		t.Errorf("one that is gone is written: %s, %v", patched, err)
	}
	unread = errRefused
	if err := a.RemoveFinalizers(t.Context(), cr); !errors.Is(err, errRefused) || patched != "" {
		t.Errorf("one that cannot be read is written: %s, %v", patched, err)
	}
	// The live one is newer. The version of the cache has the API server refuse the write, which follows the next event.
	live, unread = &metav1.ObjectMeta{Name: "x", UID: "u", ResourceVersion: "8", Finalizers: []string{"user.example.com/keep", previous}}, nil
	if err := a.RemoveFinalizers(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"annotations":{"keeper.mlkeeper.dev/previous-operator":"true"},"finalizers":["user.example.com/keep"],"resourceVersion":"7","uid":"u"}}`
	if patched != want {
		t.Errorf("patched %s\nwant    %s", patched, want)
	}
	if !slices.Contains(cr.Finalizers, previous) {
		t.Error("the custom resource that was read is changed")
	}
}

func TestRetainedObjectsAreReleased(t *testing.T) {
	p := plan.Plan{Stages: []plan.Stage{
		{Objects: []plan.Object{claim("data", true), claim("cache", false)}}, {Objects: []plan.Object{claim("models", true)}},
	}}
	releaser := &fakeReleaser{}
	a := Adopter{Retained: []schema.GroupVersionKind{claims}, Releaser: releaser}
	if err := a.ReleasePlan(t.Context(), digest.Key{}, p, stack, self); err != nil || !reflect.DeepEqual(releaser.released, []string{"data", "models"}) {
		t.Errorf("released %v, error %v", releaser.released, err)
	}
	if err := a.ReleaseKinds(t.Context(), stack, self); err != nil || releaser.released[len(releaser.released)-1] != claims.Kind {
		t.Errorf("released %v, error %v", releaser.released, err)
	}
	for _, failAt := range []string{"data", "models", claims.Kind} {
		releaser.failAt = failAt
		if err := errors.Join(a.ReleasePlan(t.Context(), digest.Key{}, p, stack, self), a.ReleaseKinds(t.Context(), stack, self)); !errors.Is(err, errRefused) {
			t.Errorf("a failure at %s is lost: %v", failAt, err)
		}
	}
}

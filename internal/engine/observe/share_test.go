package observe

import (
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

func child(owner string, uid types.UID) *Object {
	return FromMetadata(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Labels:          map[string]string{keeper.ControllerLabel: "r", keeper.StackLabel: "s"},
		Annotations:     map[string]string{keeper.OwnerAnnotation: owner, keeper.AppliedHashAnnotation: string(uid)},
		OwnerReferences: []metav1.OwnerReference{{Kind: "K", Name: "n", UID: "owner"}},
	}})
}

func TestChildrenOfOneStackShareTheirMarks(t *testing.T) {
	a, b := child("K.g/ns/n", "1"), child("K.g/ns/n", "2")
	a.Labels["probe"] = "x"
	defer delete(a.Labels, "probe")
	if b.Labels["probe"] != "x" || &a.OwnerReferences[0] != &b.OwnerReferences[0] {
		t.Error("they hold what they have in common twice")
	}
	if a.AppliedHash() != "1" || b.AppliedHash() != "2" {
		t.Errorf("digests %q and %q", a.AppliedHash(), b.AppliedHash())
	}
}

// TestMarksGoWithTheirObjects: what is kept of marks ends with the last object that has them.
func TestMarksGoWithTheirObjects(t *testing.T) {
	objects := []*Object{child("K.g/ns/going", "1"), child("K.g/ns/going", "2"), child("K.g/ns/staying", "1")}
	going, staying := objects[0].marks.digest(), objects[2].marks.digest()
	kept := func(key digest) bool {
		known.mu.Lock()
		defer known.mu.Unlock()
		_, ok := known.by[key]
		return ok
	}
	objects[0] = nil
	runtime.GC()
	if !kept(going) {
		t.Error("marks of an object that is there are forgotten")
	}
	objects[1] = nil
	for i := 0; kept(going); i++ {
		if i == 1000 {
			t.Fatal("marks of no object are kept")
		}
		runtime.GC()
		time.Sleep(time.Millisecond) // Cleanups run in a goroutine of their own.
	}
	if !kept(staying) {
		t.Error("marks of another object are forgotten")
	}
	runtime.KeepAlive(objects)
}

func TestMarksThatDifferAreNotShared(t *testing.T) {
	// An annotation may hold anything, also what the marks of another object look like when they are printed.
	for _, owner := range []string{"K.g/ns/other", `K.g/ns/n"] ["x`, `K.g/ns/n"} map[]`} {
		if got := child(owner, "1").Annotations[keeper.OwnerAnnotation]; got != owner {
			t.Errorf("%q became %q", owner, got)
		}
	}
	a, b := marks{annotations: map[string]string{"a": `b" "c":"d`}}, marks{annotations: map[string]string{"a": "b", "c": "d"}}
	if a.digest() == b.digest() {
		t.Error("two marks have one digest")
	}
}

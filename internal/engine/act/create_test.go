package act

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

func TestCreateOnAFreeName(t *testing.T) {
	c := newCast(t)
	st := declared(t, nil)
	res := c.do(t, creates(st))
	if res.Err != nil || res.Problem != nil || !res.Wrote {
		t.Fatalf("%+v", res)
	}
	if got := c.verbs(); got != "POST" {
		t.Error(got)
	}
	live := c.server.get(path)
	if live == nil || res.Observed == nil || res.Observed.UID != live.GetUID() || !res.Observed.Created ||
		!res.Observed.OwnedBy(stack, self) || res.Observed.AppliedHash() != st.Digest {
		t.Fatalf("%+v", res.Observed)
	}
	if !reflect.DeepEqual(entries(live), []string{"mlkeeper Update"}) {
		t.Error(entries(live))
	}
	if len(c.told) != 1 || c.told[0] != res.Observed {
		t.Error("the engine was not told of its own write")
	}
	if !reflect.DeepEqual(c.counts, []string{"Create cm Missing"}) {
		t.Error(c.counts)
	}
}

// TestCreateOnATakenName tests invariant 1: one GET decides whose the object is, and nothing is merged into another's.
func TestCreateOnATakenName(t *testing.T) {
	yes := true
	ref := func(uid types.UID, controller *bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "g.io/v1", Kind: "Thing", Name: "x", UID: uid, Controller: controller}}
	}
	ours := func(t *testing.T, u *unstructured.Unstructured) {
		t.Helper()
		st := declared(t, nil)
		u.SetLabels(st.Desired.GetLabels())
		u.SetAnnotations(st.Desired.GetAnnotations())
	}
	for _, c := range []struct {
		name   string
		there  func(*testing.T, *unstructured.Unstructured)
		object func(*plan.Object)
		change []func(*Request)
		known  bool
		// written says that MLKeeper has written the object before.
		written bool
		want    string // The verbs.
		taken   bool
		adopts  bool
	}{
		{
			name:  "ours by the UID of the owner",
			there: func(_ *testing.T, u *unstructured.Unstructured) { u.SetOwnerReferences(ref("cr-uid", &yes)) },
			want:  "POST GET APPLY", taken: true,
		},
		{
			name:  "ours by a reference that does not control",
			there: func(_ *testing.T, u *unstructured.Unstructured) { u.SetOwnerReferences(ref("cr-uid", nil)) },
			want:  "POST GET APPLY", taken: true,
		},
		{
			name:  "ours by its marks, and kept",
			there: ours, object: func(o *plan.Object) { o.Retain = true }, want: "POST GET APPLY", taken: true,
		},
		{name: "ours by its recorded UID", known: true, written: true, want: "POST GET JSONPATCH APPLY", taken: true},
		{name: "of somebody, though recorded", known: true, want: "POST GET"},
		{name: "nobody's", want: "POST GET"},
		{name: "nobody's, and adoption is asked for", change: []func(*Request){adopting}, want: "POST GET APPLY", taken: true, adopts: true},
		{
			name: "nobody's, marked by the previous operator",
			there: func(_ *testing.T, u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{"before": "cr.ns"})
			},
			change: []func(*Request){previouslyOwned}, want: "POST GET APPLY", taken: true,
		},
		{
			name: "nobody's, marked as that of another custom resource",
			there: func(_ *testing.T, u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{"before": "other.ns"})
			},
			change: []func(*Request){previouslyOwned}, want: "POST GET",
		},
		{
			name: "another's, although the previous operator had marked it",
			there: func(_ *testing.T, u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{"before": "cr.ns"})
				u.SetOwnerReferences(ref("other", &yes))
			},
			change: []func(*Request){previouslyOwned}, want: "POST GET",
		},
		{
			name:   "another's by its controller, whatever is asked for and recorded",
			there:  func(_ *testing.T, u *unstructured.Unstructured) { u.SetOwnerReferences(ref("other", &yes)) },
			change: []func(*Request){adopting}, known: true, want: "POST GET",
		},
		{
			name:   "another's by a reference that does not control",
			there:  func(_ *testing.T, u *unstructured.Unstructured) { u.SetOwnerReferences(ref("other", nil)) },
			change: []func(*Request){adopting}, want: "POST GET",
		},
		{
			name: "an earlier custom resource's of our name",
			there: func(t *testing.T, u *unstructured.Unstructured) {
				t.Helper()
				ours(t, u)
				u.SetOwnerReferences(ref("cr-uid-before", &yes))
			},
			change: []func(*Request){adopting}, want: "POST GET",
		},
		{
			name: "another custom resource's, and kept",
			there: func(t *testing.T, u *unstructured.Unstructured) {
				t.Helper()
				ours(t, u)
				u.SetAnnotations(map[string]string{keeper.OwnerAnnotation: "Thing.g.io/ns/other"})
			},
			change: []func(*Request){adopting}, want: "POST GET",
		},
		{
			name: "ours by our record, and another custom resource's since",
			there: func(t *testing.T, u *unstructured.Unstructured) {
				t.Helper()
				ours(t, u)
				u.SetOwnerReferences(nil)
				u.SetAnnotations(map[string]string{keeper.OwnerAnnotation: "Thing.g.io/ns/other"})
			},
			known: true, want: "POST GET",
		},
		{
			name: "another controller's, of a custom resource of our name",
			there: func(t *testing.T, u *unstructured.Unstructured) {
				t.Helper()
				ours(t, u)
				u.SetLabels(map[string]string{keeper.ControllerLabel: "seldon"})
			},
			change: []func(*Request){adopting}, want: "POST GET",
		},
		{
			name:   "ours, and to be created only",
			there:  func(_ *testing.T, u *unstructured.Unstructured) { u.SetOwnerReferences(ref("cr-uid", &yes)) },
			object: func(o *plan.Object) { o.IfNotPresent = true }, want: "POST GET",
		},
		{
			name:   "declared in part",
			there:  func(_ *testing.T, u *unstructured.Unstructured) { u.SetOwnerReferences(ref("cr-uid", &yes)) },
			object: func(o *plan.Object) { o.Partial = true }, want: "GET APPLY", taken: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cast := newCast(t)
			u := configMap("cm", map[string]any{"b": "2"})
			if c.there != nil {
				c.there(t, u)
			}
			before := cast.server.put(path, "kubectl", u)
			if c.written {
				before.SetAnnotations(map[string]string{"of": "ours"})
				before = cast.server.put(path, "mlkeeper", before)
			}
			st := declared(t, c.object)
			action := creates(st)
			if c.known {
				action.KnownUID = before.GetUID()
			}
			res := cast.do(t, action, c.change...)
			if got := cast.verbs(); got != c.want {
				t.Errorf("asked %s", got)
			}
			after := cast.server.get(path)
			if after.GetUID() != before.GetUID() {
				t.Error("the object was replaced")
			}
			if !c.taken {
				if !reflect.DeepEqual(before, after) {
					t.Errorf("changed from %v to %v", before, after)
				}
				kept := st.IfNotPresent
				if kept != (res.Problem == nil) || res.Err != nil || res.Wrote || len(cast.counts) > 0 || kept != (len(cast.told) == 1) {
					t.Errorf("%+v", res)
				}
				if !kept && (res.Problem.Reason != ReasonConflict || res.Problem.Class != plan.Blocked) {
					t.Errorf("%+v", res.Problem)
				}
				return
			}
			if res.Problem != nil || res.Err != nil || !res.Wrote || res.Observed == nil {
				t.Fatalf("%+v", res)
			}
			data, _, _ := unstructured.NestedStringMap(after.Object, "data")
			if !reflect.DeepEqual(data, map[string]string{"a": "1", "b": "2"}) {
				t.Errorf("%v: what others declared must stay", data)
			}
			if got := after.GetAnnotations()[keeper.AdoptedAnnotation] != ""; got != c.adopts || res.Action.Adopted != c.adopts {
				t.Errorf("adopted: %v", got)
			}
			if c.adopts && len(after.GetOwnerReferences()) > 0 {
				t.Error("what we did not make has an owner reference: the garbage collector would delete it")
			}
			if !res.Observed.OwnedBy(stack, self) {
				t.Errorf("%+v is not ours", res.Observed)
			}
		})
	}
}

// TestAdoptedAsItWasRead loses a race: between the read that says that nobody has the object and the apply, another
// custom resource adopts it.
func TestAdoptedAsItWasRead(t *testing.T) {
	c := newCast(t)
	c.server.put(path, "kubectl", configMap("cm", nil))
	var theirs *unstructured.Unstructured
	c.server.before = func(verb, _ string) {
		if verb == "APPLY" && theirs == nil {
			u := c.server.objects[path].DeepCopy()
			u.SetAnnotations(map[string]string{keeper.OwnerAnnotation: "Thing.g.io/ns/other"})
			theirs = c.server.putLocked(path, "mlkeeper", u)
		}
	}
	res := c.do(t, creates(declared(t, nil)), adopting)
	if !apierrors.IsConflict(res.Err) || res.Wrote || !reflect.DeepEqual(theirs, c.server.get(path)) {
		t.Errorf("%+v", res)
	}
}

func TestTheNameIsFreeAgainByTheTimeOfTheRead(t *testing.T) {
	c := newCast(t)
	c.server.put(path, "kubectl", configMap("cm", nil))
	c.server.before = func(verb, _ string) {
		if verb == http.MethodGet {
			delete(c.server.objects, path)
		}
	}
	res := c.do(t, creates(declared(t, nil)))
	if !apierrors.IsNotFound(res.Err) || res.Problem != nil || res.Wrote {
		t.Errorf("%+v", res)
	}
}

func TestWhatIsGoingIsNotAdopted(t *testing.T) {
	c := newCast(t)
	u := declared(t, nil).Desired.DeepCopy()
	u.SetFinalizers([]string{"x.io/hold"})
	now := metav1.Unix(1, 0)
	u.SetDeletionTimestamp(&now)
	c.server.put(path, "kubectl", u)
	res := c.do(t, creates(declared(t, nil)))
	if res.Err == nil || !strings.Contains(res.Err.Error(), "waiting for it to be gone") || res.Wrote || c.verbs() != "POST GET" {
		t.Errorf("%+v", res)
	}
}

// previouslyOwned is a request about objects that the previous operator marked.
func previouslyOwned(r *Request) { r.PreviousOwner = plan.Mark{Annotation: "before", Value: "cr.ns"} }

package act

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// TestTheFirstApplyAfterAPostMigrates tests invariant 1: without it a field that a later plan drops would stay for ever.
func TestTheFirstApplyAfterAPostMigrates(t *testing.T) {
	c := newCast(t)
	first := declared(t, func(o *plan.Object) {
		o.Desired = configMap("cm", map[string]any{"a": "1", "dropped": "x"})
	})
	made := c.do(t, creates(first)).Observed
	c.server.asked()
	second := declared(t, nil)
	action := applies(second, made.UID, decide.ReasonChanged)
	action.Migrate = made.Created
	res := c.do(t, action)
	if res.Err != nil || res.Problem != nil || res.Observed.Created {
		t.Fatalf("%+v", res)
	}
	if got := c.verbs(); got != "GET JSONPATCH APPLY" {
		t.Error(got)
	}
	live := c.server.get(path)
	if data, _, _ := unstructured.NestedStringMap(live.Object, "data"); !reflect.DeepEqual(data, map[string]string{"a": "1"}) {
		t.Error(data)
	}
	if got := entries(live); !reflect.DeepEqual(got, []string{"mlkeeper Apply"}) {
		t.Error(got)
	}
	// The next apply has nothing to migrate, and reads nothing.
	if res := c.do(t, applies(second, made.UID, decide.ReasonUnverified)); res.Err != nil {
		t.Fatal(res.Err)
	}
	if got := c.verbs(); got != "APPLY" {
		t.Error(got)
	}
}

// TestAMigrationThatLostARaceIsTriedAgain shows that a change between the read and the migration ends in a retry.
func TestAMigrationThatLostARaceIsTriedAgain(t *testing.T) {
	c := newCast(t)
	st := declared(t, nil)
	made := c.do(t, creates(st)).Observed
	raced := false
	c.server.before = func(verb, _ string) {
		if verb == "JSONPATCH" && !raced {
			raced = true
			u := c.server.objects[path].DeepCopy()
			u.SetLabels(map[string]string{"theirs": "x"})
			c.server.putLocked(path, "kubectl", u)
		}
	}
	action := applies(st, made.UID, decide.ReasonChanged)
	action.Migrate = true
	if res := c.do(t, action); !apierrors.IsConflict(res.Err) || res.Wrote {
		t.Fatalf("%+v", res)
	}
	if res := c.do(t, action); res.Err != nil || !res.Wrote {
		t.Fatalf("%+v", res)
	}
}

// TestFieldsOfThePreviousOperatorGo tests invariant 8: what it declared becomes ours, and what we do not declare goes.
func TestFieldsOfThePreviousOperatorGo(t *testing.T) {
	for _, previous := range []bool{true, false} {
		c := newCast(t)
		yes := true
		u := configMap("cm", map[string]any{"a": "0", "theirs": "x"})
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "g.io/v1", Kind: "Thing", Name: "cr", UID: "cr-uid", Controller: &yes}})
		c.server.put(path, "old-operator", u)
		res := c.do(t, creates(declared(t, nil)), func(r *Request) {
			if previous {
				r.PreviousManagers = []string{"old-operator"}
			}
		})
		if res.Err != nil || !res.Action.MigratePrevious {
			t.Fatalf("%+v", res)
		}
		data, _, _ := unstructured.NestedStringMap(c.server.get(path).Object, "data")
		want := map[string]string{"a": "1"}
		if !previous {
			want["theirs"] = "x"
		}
		if !reflect.DeepEqual(data, want) {
			t.Errorf("previous managers %v: %v", previous, data)
		}
	}
}

// TestFieldsOfANamesakeOfThePreviousOperatorStay has another program under one of the names of the previous operator, which has not
// made the custom resource the owner of anything.
func TestFieldsOfANamesakeOfThePreviousOperatorStay(t *testing.T) {
	c := newCast(t)
	yes := true
	u := configMap("cm", map[string]any{"a": "0", "theirs": "x"})
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "g.io/v1", Kind: "Thing", Name: "cr", UID: "cr-uid", Controller: &yes}})
	u = c.server.put(path, "old-operator", u)
	_ = unstructured.SetNestedField(u.Object, "y", "data", "namesake")
	c.server.put(path, "manager", u)
	res := c.do(t, creates(declared(t, nil)), func(r *Request) { r.PreviousManagers = []string{"manager", "old-operator"} })
	if res.Err != nil || !res.Action.MigratePrevious {
		t.Fatalf("%+v", res)
	}
	data, _, _ := unstructured.NestedStringMap(c.server.get(path).Object, "data")
	if want := map[string]string{"a": "1", "namesake": "y"}; !reflect.DeepEqual(data, want) {
		t.Error(data)
	}
}

// TestAnAdoptedObjectStaysAdopted shows that what was adopted never gets an owner reference later.
func TestAnAdoptedObjectStaysAdopted(t *testing.T) {
	c := newCast(t)
	c.server.put(path, "kubectl", configMap("cm", nil))
	res := c.do(t, creates(declared(t, nil)), adopting)
	if res.Err != nil || !res.Observed.Adopted() {
		t.Fatalf("%+v", res)
	}
	// A crash may lose that we adopted it; the annotation tells, and the owner reference still must not come.
	res = c.do(t, creates(declared(t, nil)))
	if res.Err != nil || !res.Observed.Adopted() || len(c.server.get(path).GetOwnerReferences()) > 0 {
		t.Fatalf("%+v", res)
	}
}

func TestDriftIsTakenBackAndCounted(t *testing.T) {
	c := newCast(t)
	st := declared(t, nil)
	made := c.do(t, creates(st)).Observed
	action := applies(st, made.UID, decide.ReasonChanged)
	action.Migrate = true
	c.do(t, action)
	disturb := func() {
		u := c.server.get(path)
		_ = unstructured.SetNestedField(u.Object, "theirs", "data", "a")
		c.server.put(path, "meddler", u)
	}
	for i := range 3 {
		disturb()
		// A repair that fails does not count as one.
		c.server.answer = func(verb, _ string) *apierrors.StatusError {
			if verb == "APPLY" {
				return apierrors.NewInternalError(errors.New("etcd"))
			}
			return nil
		}
		if res := c.do(t, applies(st, made.UID, decide.ReasonDrift)); res.Err == nil {
			t.Fatalf("%+v", res)
		}
		c.server.answer = nil
		if got := c.Tracker.Ceded(st.Key, made.UID); len(got) > 0 {
			t.Fatalf("ceded after %d repairs: %v", i, got)
		}
		if res := c.do(t, applies(st, made.UID, decide.ReasonDrift)); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	if got := c.Tracker.Ceded(st.Key, made.UID); len(got) != 1 || got[0].Manager != "meddler" {
		t.Fatalf("%v", got)
	}
	// From now on it is left to the other (invariant 11), and the record of the write says so.
	disturb()
	res := c.do(t, applies(st, made.UID, decide.ReasonDrift))
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	if got := CededOf(res.Warnings); len(got) != 1 || got[0].Text != "data.a" || got[0].Manager != "meddler" {
		t.Errorf("ceded by %q are %v", res.Warnings, got)
	}
	if got, _, _ := unstructured.NestedString(c.server.get(path).Object, "data", "a"); got != "theirs" {
		t.Error(got)
	}
}

// kept is a retained object that is there with owner references.
func kept(t *testing.T, c *cast, refs ...metav1.OwnerReference) (plan.Stamped, *unstructured.Unstructured) {
	t.Helper()
	st := declared(t, func(o *plan.Object) { o.Retain = true })
	u := st.Desired.DeepCopy()
	u.SetLabels(nil)
	u.SetAnnotations(nil)
	u.SetOwnerReferences(refs)
	return st, c.server.put(path, "old-operator", u)
}

// TestRelease tests invariants 2, 5 and 8: what must be retained after a custom resource carries no reference to it.
func TestRelease(t *testing.T) {
	yes := true
	mine := metav1.OwnerReference{APIVersion: "g.io/v1", Kind: "Thing", Name: "cr", UID: "cr-uid", Controller: &yes}
	other := metav1.OwnerReference{APIVersion: "x.io/v1", Kind: "Other", Name: "o", UID: "other"}
	for _, c := range []struct {
		name string
		refs []metav1.OwnerReference
		want string
		left int
	}{
		{"ours", []metav1.OwnerReference{mine}, "GET MERGE", 0},
		{"ours and another's", []metav1.OwnerReference{other, mine}, "GET MERGE", 1},
		{"another's", []metav1.OwnerReference{other}, "GET", 1},
		{"none", nil, "GET", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cast := newCast(t)
			st, before := kept(t, cast, c.refs...)
			if err := cast.Release(context.Background(), st, []plan.Owner{self}); err != nil {
				t.Fatal(err)
			}
			if got := cast.verbs(); got != c.want {
				t.Error(got)
			}
			after := cast.server.get(path)
			if len(after.GetOwnerReferences()) != c.left || after.GetUID() != before.GetUID() {
				t.Errorf("%v", after.GetOwnerReferences())
			}
			if slices.ContainsFunc(after.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == self.UID }) {
				t.Error("it would go with the custom resource")
			}
			// The marks come with the same write, so that what is released is known again.
			marked := after.GetAnnotations()[keeper.OwnerAnnotation] == stack.ID() && after.GetLabels()[keeper.ControllerLabel] == stack.Controller
			if marked != (c.want == "GET MERGE") {
				t.Errorf("marked: %v", marked)
			}
		})
	}
}

func TestReleaseOfWhatIsGoneReplacedOrRefused(t *testing.T) {
	yes := true
	mine := metav1.OwnerReference{APIVersion: "g.io/v1", Kind: "Thing", Name: "cr", UID: "cr-uid", Controller: &yes}
	c := newCast(t)
	st := declared(t, func(o *plan.Object) { o.Retain = true })
	if err := c.Release(context.Background(), st, []plan.Owner{self}); err != nil {
		t.Errorf("gone: %v", err)
	}
	st, _ = kept(t, c, mine)
	c.server.before = func(verb, _ string) {
		if verb == "MERGE" {
			u := c.server.objects[path].DeepCopy()
			delete(c.server.objects, path)
			u.SetUID("")
			c.server.putLocked(path, "kubectl", u)
		}
	}
	if err := c.Release(context.Background(), st, []plan.Owner{self}); !apierrors.IsConflict(err) {
		t.Errorf("replaced: %v", err)
	}
	if len(c.server.get(path).GetOwnerReferences()) != 1 {
		t.Error("a replacement was changed")
	}
	c.server.before = nil
	for _, verb := range []string{http.MethodGet, "MERGE"} {
		c.server.answer = func(v, _ string) *apierrors.StatusError {
			if v == verb {
				return apierrors.NewForbidden(resource, "cm", errors.New("no"))
			}
			return nil
		}
		if err := c.Release(context.Background(), st, []plan.Owner{self}); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// TestReleaseInAServedVersion: what is to be retained is released in whatever version there is, and of a kind that is not served there is nothing.
func TestReleaseInAServedVersion(t *testing.T) {
	yes := true
	mine := metav1.OwnerReference{APIVersion: "g.io/v1", Kind: "Thing", Name: "cr", UID: "cr-uid", Controller: &yes}
	c := newCast(t)
	st, _ := kept(t, c, mine)
	st.Desired = st.Desired.DeepCopy()
	st.Desired.SetAPIVersion("v1alpha1")
	if err := c.Release(context.Background(), st, []plan.Owner{self}); err != nil || len(c.server.get(path).GetOwnerReferences()) > 0 {
		t.Errorf("%v, owners %v", err, c.server.get(path).GetOwnerReferences())
	}
	c.verbs()
	st.Desired.SetAPIVersion("absent.example.test/v1")
	st.Key = plan.KeyOf(st.Desired)
	if err := c.Release(context.Background(), st, []plan.Owner{self}); err != nil {
		t.Errorf("a kind that is not served: %v", err)
	}
	if asked := c.verbs(); asked != "" {
		t.Errorf("a kind that is not served is asked for: %s", asked)
	}
}

// TestApplyReleasesAndTurnsReferences shows that an apply takes off references to our owners that are not declared, and
// renews a declared one that blocks the deletion of its owner (invariant 2).
func TestApplyReleasesAndTurnsReferences(t *testing.T) {
	yes := true
	for _, c := range []struct {
		name   string
		ref    metav1.OwnerReference
		owners []plan.Owner
		retain bool
		want   []string
	}{
		{
			"kept",
			metav1.OwnerReference{APIVersion: "g.io/v1", Kind: "Thing", Name: "cr", UID: "cr-uid", Controller: &yes},
			[]plan.Owner{self},
			true, nil,
		},
		{
			"blocks the deletion of its owner",
			metav1.OwnerReference{APIVersion: "g.io/v1", Kind: "Thing", Name: "cr", UID: "cr-uid", Controller: &yes, BlockOwnerDeletion: &yes},
			[]plan.Owner{self},
			false,
			[]string{"cr-uid"},
		},
		{
			"owned by an Inventory before",
			metav1.OwnerReference{APIVersion: "keeper.mlkeeper.dev/v1alpha1", Kind: "Inventory", Name: "i", UID: "inventory", Controller: &yes},
			[]plan.Owner{self, {UID: "inventory"}},
			false,
			[]string{"cr-uid"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cast := newCast(t)
			st := declared(t, func(o *plan.Object) { o.Retain = c.retain })
			u := st.Desired.DeepCopy()
			u.SetOwnerReferences([]metav1.OwnerReference{c.ref})
			uid := cast.server.put(path, "old-operator", u).GetUID()
			res := cast.do(t, applies(st, uid, decide.ReasonDrift), func(r *Request) { r.Owners = c.owners })
			if res.Err != nil || res.Problem != nil {
				t.Fatalf("%+v", res)
			}
			var got []string
			for _, ref := range cast.server.get(path).GetOwnerReferences() {
				got = append(got, string(ref.UID))
				if ref.BlockOwnerDeletion != nil {
					t.Error("the deletion of the owner is blocked")
				}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Error(got)
			}
		})
	}
}

package act

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/plan"
)

// TestLostAnswerOfAPost is a crash, or a cut connection, between a write and its answer: the retry finds the object and
// knows it for ours.
func TestLostAnswerOfAPost(t *testing.T) {
	c := newCast(t)
	lost := false
	c.server.lose = func(verb, _ string) bool { lost = !lost && verb == http.MethodPost; return lost }
	st := declared(t, nil)
	res := c.do(t, creates(st))
	if res.Err == nil || res.Problem != nil || res.Wrote || len(c.told) > 0 {
		t.Fatalf("%+v", res)
	}
	made := c.server.get(path)
	if made == nil {
		t.Fatal("the post was not performed")
	}
	c.server.asked()
	c.server.lose = nil
	res = c.do(t, creates(st))
	if res.Err != nil || !res.Wrote || res.Observed.UID != made.GetUID() || res.Observed.Created {
		t.Fatalf("%+v", res)
	}
	if got := c.verbs(); got != "POST GET JSONPATCH APPLY" {
		t.Error(got)
	}
	if got := entries(c.server.get(path)); !reflect.DeepEqual(got, []string{"mlkeeper Apply"}) {
		t.Errorf("%v: what a later plan drops would stay for ever", got)
	}
}

func TestLostAnswerOfAnApplyAndOfADelete(t *testing.T) {
	c := newCast(t)
	st := declared(t, nil)
	uid := c.do(t, creates(st)).Observed.UID
	lose := func(verb string) {
		lost := false
		c.server.lose = func(v, _ string) bool { lost = !lost && v == verb; return lost }
	}
	next := declared(t, func(o *plan.Object) { o.Desired = configMap("cm", map[string]any{"a": "2"}) })
	lose("APPLY")
	if res := c.do(t, applies(next, uid, decide.ReasonChanged)); res.Err == nil || res.Wrote {
		t.Fatalf("%+v", res)
	}
	if res := c.do(t, applies(next, uid, decide.ReasonChanged)); res.Err != nil || res.Observed.AppliedHash() != next.Digest {
		t.Fatalf("%+v", res)
	}
	lose(http.MethodDelete)
	if res := c.do(t, deletes(next, uid)); res.Err == nil || res.Wrote {
		t.Fatalf("%+v", res)
	}
	if res := c.do(t, deletes(next, uid)); res.Err != nil || res.Wrote || c.server.get(path) != nil {
		t.Fatalf("there is nothing left to delete: %+v", res)
	}
}

// TestApplyTouchesNoReplacement tests invariant 1: applies carry the UID, and so neither make an object again nor touch another.
func TestApplyTouchesNoReplacement(t *testing.T) {
	for _, reason := range []string{decide.ReasonChanged, decide.ReasonDrift} {
		t.Run("gone, "+reason, func(t *testing.T) {
			c := newCast(t)
			res := c.do(t, applies(declared(t, nil), "uid-before", reason))
			if res.Err == nil || res.Problem != nil || res.Wrote || c.server.get(path) != nil {
				t.Errorf("%+v", res)
			}
		})
		t.Run("replaced, "+reason, func(t *testing.T) {
			c := newCast(t)
			before := c.server.put(path, "kubectl", declared(t, nil).Desired)
			res := c.do(t, applies(declared(t, nil), "uid-before", reason))
			if res.Err == nil || res.Problem != nil || res.Wrote || len(c.told) > 0 || !reflect.DeepEqual(before, c.server.get(path)) {
				t.Errorf("%+v", res)
			}
		})
	}
	t.Run("replaced between the read and the apply", func(t *testing.T) {
		c := newCast(t)
		uid := c.server.put(path, "kubectl", declared(t, nil).Desired).GetUID()
		var other *unstructured.Unstructured
		c.server.before = func(verb, _ string) {
			if verb == "APPLY" && other == nil {
				delete(c.server.objects, path)
				other = c.server.putLocked(path, "kubectl", configMap("cm", map[string]any{"b": "2"}))
			}
		}
		res := c.do(t, applies(declared(t, nil), uid, decide.ReasonDrift))
		if !apierrors.IsConflict(res.Err) || res.Wrote || !reflect.DeepEqual(other, c.server.get(path)) {
			t.Errorf("%+v", res)
		}
	})
}

// TestRefusedWrites shows what becomes of each answer, and that nothing counts as written.
func TestRefusedWrites(t *testing.T) {
	for _, a := range answers {
		status := apierrors.APIStatus(nil)
		if !errors.As(a.err, &status) || apierrors.IsAlreadyExists(a.err) {
			continue
		}
		for _, verb := range []string{http.MethodPost, "APPLY", http.MethodDelete} {
			t.Run(a.name+" to "+verb, func(t *testing.T) {
				c := newCast(t)
				st := declared(t, func(o *plan.Object) { o.OnImmutable = plan.ImmutableStall })
				action := creates(st)
				if verb != http.MethodPost {
					uid := c.server.put(path, "mlkeeper", st.Desired).GetUID()
					action = applies(st, uid, decide.ReasonChanged)
					if verb == http.MethodDelete {
						action = deletes(st, uid)
						action.ResourceVersion = c.server.get(path).GetResourceVersion()
					}
				}
				before := c.server.get(path)
				c.server.answer = func(v, _ string) *apierrors.StatusError {
					if v != verb {
						return nil
					}
					return &apierrors.StatusError{ErrStatus: answerable(status.Status())}
				}
				res := c.do(t, action)
				if res.Wrote || res.Observed != nil || len(c.told) > 0 || len(c.counts) > 0 || !reflect.DeepEqual(before, c.server.get(path)) {
					t.Errorf("%+v", res)
				}
				if verb == http.MethodDelete && (apierrors.IsNotFound(a.err) || apierrors.IsConflict(a.err)) {
					if res.Err != nil || res.Problem != nil || res.Stale != apierrors.IsConflict(a.err) {
						t.Errorf("gone or another's by now: %+v", res)
					}
					if len(c.causes) > 0 {
						t.Errorf("nothing failed, and counted are %v", c.causes)
					}
					return
				}
				if want := cmp.Or(a.reason, string(apierrors.ReasonForError(a.err)), "Other"); len(c.causes) != 1 || c.causes[0] != want {
					t.Errorf("the causes are %v, want %s", c.causes, want)
				}
				if a.reason == "" {
					if res.Err == nil || res.Problem != nil || apierrors.ReasonForError(res.Err) != apierrors.ReasonForError(a.err) {
						t.Errorf("%+v", res)
					}
					return
				}
				if res.Err != nil || res.Problem == nil || res.Problem.Reason != a.reason || res.Problem.Class != a.class {
					t.Errorf("%+v", res)
				}
			})
		}
	}
}

// answerable is a status without the pause after which a client is to try again, for which the test would wait.
func answerable(s metav1.Status) metav1.Status {
	if s.Details != nil {
		details := *s.Details
		details.RetryAfterSeconds = 0
		s.Details = &details
	}
	return s
}

func TestImmutableFieldsAreRecreatedWhereThatCostsNothing(t *testing.T) {
	for _, on := range []plan.Immutable{plan.ImmutableByKind, plan.ImmutableStall} {
		c := newCast(t)
		st := declared(t, func(o *plan.Object) { o.OnImmutable = on })
		uid := c.server.put(path, "mlkeeper", st.Desired).GetUID()
		c.server.answer = func(v, _ string) *apierrors.StatusError {
			if v != "APPLY" {
				return nil
			}
			return forbiddenChange("field is immutable when `immutable` is set")
		}
		res := c.do(t, applies(st, uid, decide.ReasonChanged))
		if on == plan.ImmutableStall {
			if res.Problem == nil || res.Problem.Reason != ReasonImmutable || c.server.get(path) == nil {
				t.Errorf("%+v", res)
			}
			continue
		}
		if res.Err != nil || res.Problem != nil || !res.Wrote || res.Observed != nil || c.server.get(path) != nil {
			t.Errorf("%+v", res)
		}
		if res.Action.Reason != "Immutable" || len(c.counts) != 1 || !slices.Equal(c.deleted, []types.UID{uid}) {
			t.Errorf("%s, %v, deleted %v", res.Action.Reason, c.counts, c.deleted)
		}
	}
}

// TestAnAdoptedObjectIsNotRecreated: it holds what its owner put into it. One that could not be adopted is tried again, since no watch tells
// when it is deleted, and as the same write as before, so that the pauses grow.
func TestAnAdoptedObjectIsNotRecreated(t *testing.T) {
	immutable := func(v, _ string) *apierrors.StatusError {
		if v == "APPLY" {
			return forbiddenChange("field is immutable when `immutable` is set")
		}
		return nil
	}
	for name, class := range map[string]plan.Class{"adopted before": plan.Terminal, "to be adopted": plan.Blocked} {
		c := newCast(t)
		st := declared(t, nil)
		c.server.put(path, "kubectl", configMap("cm", map[string]any{"theirs": "x"}))
		action := creates(st)
		if class == plan.Terminal {
			if res := c.do(t, action, adopting); res.Err != nil || !res.Observed.Adopted() {
				t.Fatalf("%+v", res)
			}
			action = applies(st, c.server.get(path).GetUID(), decide.ReasonChanged)
			action.Adopted = true
		}
		before := c.server.get(path)
		c.server.answer = immutable
		res := c.do(t, action, adopting)
		if res.Problem == nil || res.Problem.Reason != ReasonImmutable || res.Problem.Class != class || res.Action.UID != action.UID {
			t.Errorf("%s: %+v, problem %v", name, res.Action, res.Problem)
		}
		if res.Wrote || len(c.deleted) > 0 || !reflect.DeepEqual(before, c.server.get(path)) {
			t.Errorf("%s: it was written: %+v", name, c.server.get(path))
		}
	}
}

// TestWhatChangesBeforeItIsRecreatedStays: another client may have put something into it that nobody has seen.
func TestWhatChangesBeforeItIsRecreatedStays(t *testing.T) {
	c := newCast(t)
	st := declared(t, nil)
	uid := c.server.put(path, "mlkeeper", st.Desired).GetUID()
	c.server.answer = func(v, _ string) *apierrors.StatusError {
		if v == "APPLY" {
			return invalid("field is immutable")
		}
		return nil
	}
	c.server.before = func(verb, _ string) {
		if verb == http.MethodDelete {
			changed := c.server.objects[path].DeepCopy()
			changed.Object["data"] = map[string]any{"theirs": "x"}
			c.server.putLocked(path, "kubectl", changed)
		}
	}
	if res := c.do(t, applies(st, uid, decide.ReasonChanged)); !res.Stale || res.Wrote || c.server.get(path) == nil || len(c.deleted) > 0 {
		t.Errorf("%+v", res)
	}
}

// TestABindingToAnotherRoleIsReplacedWithoutAWrite: the API server lets nobody write it who may not bind the role in it, which the
// previous operator brought and may have taken along.
func TestABindingToAnotherRoleIsReplacedWithoutAWrite(t *testing.T) {
	const path = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings/b"
	for role, want := range map[string]string{"theirs": "POST GET GET POST DELETE", "ours": "POST GET MERGE JSONPATCH APPLY"} {
		c := newCast(t)
		binding := func(role string) *unstructured.Unstructured {
			u := &unstructured.Unstructured{Object: map[string]any{
				"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
			}}
			u.SetGroupVersionKind(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"})
			u.SetNamespace("ns")
			u.SetName("b")
			return u
		}
		live := binding(role)
		live.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: self.APIVersion, Kind: self.Kind, Name: self.Name, UID: self.UID, BlockOwnerDeletion: ptr.To(true),
		}})
		c.server.put(path, "manager", live)
		if res := c.do(t, creates(stamp(t, plan.Object{Desired: binding("ours")}))); res.Err != nil || res.Problem != nil || !res.Wrote {
			t.Errorf("%s: %+v", role, res)
		}
		if got := c.verbs(); got != want {
			t.Errorf("%s: %s", role, got)
		}
	}
}

// TestABindingIsToTheSameRoleWhereverItsGroupIsDeclared: charts leave the group out, and the API server fills it in. A binding that
// is replaced at each repair takes the rights away for a moment, each time.
func TestABindingIsToTheSameRoleWhereverItsGroupIsDeclared(t *testing.T) {
	binding := func(kind, group, roleKind, role string) *unstructured.Unstructured {
		ref := map[string]any{"kind": roleKind, "name": role}
		if group != "" {
			ref["apiGroup"] = group
		}
		u := &unstructured.Unstructured{Object: map[string]any{"roleRef": ref}}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: kind})
		return u
	}
	const group = "rbac.authorization.k8s.io"
	for _, kind := range []string{"RoleBinding", "ClusterRoleBinding"} {
		live := binding(kind, group, "ClusterRole", "reader")
		for _, c := range []struct {
			group, kind, name string
			another           bool
		}{
			{group, "ClusterRole", "reader", false},
			{"", "ClusterRole", "reader", false},
			{"", "ClusterRole", "writer", true},
			{group, "Role", "reader", true},
			{"other.example.com", "ClusterRole", "reader", true},
		} {
			if got := bindsAnother(live, binding(kind, c.group, c.kind, c.name)); got != c.another {
				t.Errorf("%s to %+v: another is %t", kind, c, got)
			}
		}
	}
	live, desired := binding("Something", group, "Role", "a"), binding("Something", group, "Role", "b")
	if bindsAnother(live, desired) {
		t.Error("what is no binding binds another role")
	}
}

func TestAnObjectWhoseReplacementWouldBeRefusedStays(t *testing.T) {
	c := newCast(t)
	st := declared(t, nil)
	uid := c.server.put(path, "mlkeeper", st.Desired).GetUID()
	before := c.server.get(path)
	c.server.answer = func(v, _ string) *apierrors.StatusError {
		switch v {
		case "APPLY":
			return invalid("field is immutable")
		case http.MethodPost:
			return invalid("must be less")
		}
		return nil
	}
	res := c.do(t, applies(st, uid, decide.ReasonChanged))
	if res.Problem == nil || res.Problem.Reason != ReasonInvalid || !strings.Contains(res.Problem.Message, "it stays as it is") {
		t.Errorf("%+v", res)
	}
	if res.Wrote || res.Action.Verb != decide.Apply || !reflect.DeepEqual(before, c.server.get(path)) {
		t.Errorf("it was written: %+v", res)
	}
	if got := c.verbs(); got != "APPLY GET POST" {
		t.Error(got)
	}
}

// TestWhatTheLiveServiceHoldsIsNotTried: addresses and ports that are free once it is gone.
func TestWhatTheLiveServiceHoldsIsNotTried(t *testing.T) {
	service := func(ip string, check int64, ports ...int64) *unstructured.Unstructured {
		var list []any
		for _, p := range ports {
			list = append(list, map[string]any{"nodePort": p})
		}
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"clusterIP": ip, "clusterIPs": []any{ip}, "healthCheckNodePort": check, "ports": list,
		}}}
	}
	trial := service("10.0.0.1", 30000, 30001, 30002)
	shareAllocated(trial, service("10.0.0.1", 30000, 30002))
	want := map[string]any{"ports": []any{map[string]any{"nodePort": int64(30001)}, map[string]any{}}}
	if !reflect.DeepEqual(trial.Object["spec"], want) {
		t.Errorf("%v", trial.Object)
	}
	trial = service("None", 30003, 30001)
	shareAllocated(trial, service("10.0.0.1", 30000, 30002))
	if !reflect.DeepEqual(trial, service("None", 30003, 30001)) {
		t.Errorf("%v", trial.Object)
	}
	shareAllocated(&unstructured.Unstructured{Object: map[string]any{"spec": "x"}}, service("None", 1))
}

// TestDelete tests invariant 4: by UID and as it was judged, in the background, and never of what took the name meanwhile.
func TestDelete(t *testing.T) {
	st := declared(t, nil)
	for _, c := range []struct {
		name         string
		there        bool
		uid, version string
		wrote, stale bool
	}{
		{name: "there", there: true, wrote: true},
		{name: "gone", uid: "uid-before", version: "1"},
		{name: "replaced", there: true, uid: "uid-before", stale: true},
		{name: "changed since", there: true, version: "1", stale: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cast := newCast(t)
			action := deletes(st, types.UID(c.uid))
			action.ResourceVersion = c.version
			cast.server.put("/api/v1/namespaces/ns/configmaps/other", "kubectl", configMap("other", nil))
			if c.there {
				live := cast.server.put(path, "kubectl", configMap("cm", nil))
				if c.uid == "" {
					action.UID = live.GetUID()
				}
				if c.version == "" {
					action.ResourceVersion = live.GetResourceVersion()
				}
			}
			res := cast.do(t, action)
			if res.Err != nil || res.Problem != nil || res.Wrote != c.wrote || res.Stale != c.stale || res.Observed != nil {
				t.Errorf("%+v", res)
			}
			if got := cast.server.get(path) != nil; got != (c.there && !c.wrote) {
				t.Errorf("there: %v", got)
			}
			if known := slices.Equal(cast.deleted, []types.UID{action.UID}); known == c.stale {
				t.Errorf("the deletions that are remembered are %v", cast.deleted)
			}
			var opts metav1.DeleteOptions
			if err := json.Unmarshal(cast.server.bodies[0], &opts); err != nil {
				t.Fatal(err)
			}
			if opts.Preconditions == nil || opts.Preconditions.UID == nil || *opts.Preconditions.UID != action.UID ||
				opts.PropagationPolicy == nil || *opts.PropagationPolicy != metav1.DeletePropagationBackground {
				t.Errorf("%+v", opts)
			}
		})
	}
}

// TestDeleteInAServedVersion: an upgrade of the cluster has removed the version in which the object was written.
func TestDeleteInAServedVersion(t *testing.T) {
	c := newCast(t)
	st := declared(t, nil)
	action := deletes(st, c.server.put(path, "mlkeeper", st.Desired).GetUID())
	action.Version = "v1alpha1"
	if res := c.do(t, action); res.Err != nil || res.Problem != nil || !res.Wrote || c.server.get(path) != nil {
		t.Errorf("%+v", res)
	}
}

// TestAVersionThatIsNotServedAnyMoreDeletesNothing: the API server knows before the catalog, and its answer names no object.
func TestAVersionThatIsNotServedAnyMoreDeletesNothing(t *testing.T) {
	for verb, seen := range map[string]bool{http.MethodDelete: true, http.MethodGet: false} {
		c := newCast(t)
		st := declared(t, nil)
		action := deletes(st, c.server.put(path, "mlkeeper", st.Desired).GetUID())
		if seen {
			action.ResourceVersion = c.server.get(path).GetResourceVersion()
		}
		c.server.answer = func(v, _ string) *apierrors.StatusError {
			if v != verb {
				return nil
			}
			return apierrors.NewGenericServerResponse(http.StatusNotFound, v, schema.GroupResource{}, "", "404 page not found", 0, true)
		}
		if res := c.do(t, action); res.Err == nil || res.Wrote || len(c.deleted) > 0 {
			t.Errorf("%s: it counts as deleted: %+v", verb, res)
		}
	}
}

// TestDeleteOfWhatNoWatchShows asks first whose it is by now.
func TestDeleteOfWhatNoWatchShows(t *testing.T) {
	st := declared(t, nil)
	yes := true
	for name, c := range map[string]struct {
		change  func(*unstructured.Unstructured)
		stays   bool
		manager string
	}{
		"as we made it":                  {change: func(*unstructured.Unstructured) {}},
		"written over by somebody":       {manager: "kubectl", change: func(*unstructured.Unstructured) {}},
		"without labels and owner":       {change: func(u *unstructured.Unstructured) { u.SetLabels(nil); u.SetOwnerReferences(nil) }},
		"a copy of what we made, marked": {manager: "kubectl", stays: true, change: func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) }},
		"of somebody": {manager: "kubectl", stays: true, change: func(u *unstructured.Unstructured) {
			u.SetLabels(nil)
			u.SetAnnotations(nil)
			u.SetOwnerReferences(nil)
		}},
		"without marks": {stays: true, change: func(u *unstructured.Unstructured) {
			u.SetLabels(nil)
			u.SetAnnotations(nil)
			u.SetOwnerReferences(nil)
		}},
		"with the marks of another": {stays: true, change: func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{keeper.OwnerAnnotation: "Thing.g.io/ns/another"})
			u.SetOwnerReferences(nil)
		}},
		"with another owner": {stays: true, change: func(u *unstructured.Unstructured) {
			u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p", Controller: &yes}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cast := newCast(t)
			u := st.Desired.DeepCopy()
			c.change(u)
			uid := cast.server.put(path, cmp.Or(c.manager, "mlkeeper"), u).GetUID()
			res := cast.do(t, deletes(st, uid))
			if res.Err != nil || res.Problem != nil || res.Wrote == c.stays || res.Stale {
				t.Errorf("%+v", res)
			}
			if got := cast.server.get(path) != nil; got != c.stays {
				t.Errorf("there: %v", got)
			}
		})
	}
}

// TestWhatStaysIsReadWhereNoWatchShowsIt: the object itself may say that it stays, and nothing goes while the plan is refused.
func TestWhatStaysIsReadWhereNoWatchShowsIt(t *testing.T) {
	st := declared(t, nil)
	annotated := func(key, value string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			annotations := u.GetAnnotations()
			annotations[key] = value
			u.SetAnnotations(annotations)
		}
	}
	for name, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		req    Request
		stays  bool
	}{
		"as we made it":                         {annotated("theirs", "x"), Request{}, false},
		"while the plan is refused":             {annotated("theirs", "x"), Request{Refused: true}, true},
		"with the annotation against pruning":   {annotated(keeper.PruneAnnotation, keeper.PruneDisabled), Request{}, true},
		"adopted":                               {annotated(keeper.AdoptedAnnotation, "true"), Request{}, true},
		"run while a problem stands":            {annotated(keeper.RunAnnotation, "x"), Request{KeepRuns: true}, true},
		"run while all is well":                 {annotated(keeper.RunAnnotation, "x"), Request{}, false},
		"without a run while a problem stands":  {annotated("theirs", "x"), Request{KeepRuns: true}, false},
		"with another value of that annotation": {annotated(keeper.PruneAnnotation, "enabled"), Request{}, false},
		"of nobody, while the plan is refused":  {func(u *unstructured.Unstructured) { u.SetAnnotations(nil); u.SetOwnerReferences(nil) }, Request{Refused: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cast := newCast(t)
			u := st.Desired.DeepCopy()
			c.change(u)
			uid := cast.server.put(path, "mlkeeper", u).GetUID()
			res := cast.do(t, deletes(st, uid), func(req *Request) { req.Refused, req.KeepRuns = c.req.Refused, c.req.KeepRuns })
			kept := c.stays && u.GetAnnotations() != nil
			if res.Err != nil || res.Problem != nil || res.Wrote == c.stays || res.Kept != kept {
				t.Errorf("%+v", res)
			}
			if got := cast.server.get(path) != nil; got != c.stays {
				t.Errorf("there: %v", got)
			}
		})
	}
}

package plan

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/digest"
)

var (
	stack = Stack{
		Controller: "trustyai", GVK: schema.GroupVersionKind{Group: "g.io", Version: "v1", Kind: "Thing"},
		Namespace: "ns", Name: "cr", UID: "cr-uid",
	}
	owner = Owner{APIVersion: "g.io/v1", Kind: "Thing", Name: "cr", UID: "cr-uid"}
)

func configMap() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "c", "namespace": "ns"},
		"data":     map[string]any{"a": "1", "b": "2"},
	}}
}

func stamp(t testing.TB, o Object) Stamped {
	t.Helper()
	s, err := Stamp(digest.Key{}, o, stack, owner, 2)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStampMarks(t *testing.T) {
	u := configMap()
	u.SetLabels(map[string]string{"app": "x", keeper.ControllerLabel: "seldon"})
	u.SetAnnotations(map[string]string{"note": "y", keeper.OwnerAnnotation: "somebody", keeper.AppliedHashAnnotation: "old"})
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p"}})
	u.SetCreationTimestamp(metav1.Now())
	u.Object["status"] = map[string]any{"phase": "Bound"}
	before := u.DeepCopy()
	s := stamp(t, Object{Desired: u, Optional: true})
	if !reflect.DeepEqual(before, u) {
		t.Error("the input was changed")
	}
	d := s.Desired
	if want := map[string]string{
		"app": "x", keeper.ControllerLabel: "trustyai", keeper.StackLabel: stack.Hash(),
	}; !reflect.DeepEqual(d.GetLabels(), want) {
		t.Errorf("labels %v", d.GetLabels())
	}
	if want := map[string]string{
		"note": "y", keeper.OwnerAnnotation: "Thing.g.io/ns/cr", keeper.AppliedHashAnnotation: s.Digest,
	}; !reflect.DeepEqual(d.GetAnnotations(), want) {
		t.Errorf("annotations %v", d.GetAnnotations())
	}
	if _, found := d.Object["status"]; found {
		t.Error("status was not taken off")
	}
	if _, found, _ := unstructured.NestedFieldNoCopy(d.Object, "metadata", "creationTimestamp"); found {
		t.Error("creationTimestamp was not taken off")
	}
	if s.Stage != 2 || !s.Optional || s.Key.String() != "ConfigMap ns/c" {
		t.Errorf("%+v", s)
	}
	refs, _, _ := unstructured.NestedSlice(d.Object, "metadata", "ownerReferences")
	want := []any{map[string]any{
		"apiVersion": "g.io/v1", "kind": "Thing", "name": "cr", "uid": "cr-uid", "controller": true,
	}}
	if !reflect.DeepEqual(refs, want) {
		t.Errorf("owner references %v; blockOwnerDeletion must never be among them", refs)
	}
}

// TestStampRefusesWhatIsNoText: what it adds must not be all that is left of the labels and annotations.
func TestStampRefusesWhatIsNoText(t *testing.T) {
	for _, field := range []string{"labels", "annotations"} {
		u := configMap()
		if err := unstructured.SetNestedMap(u.Object, map[string]any{"a": "b", "x": int64(1)}, "metadata", field); err != nil {
			t.Fatal(err)
		}
		_, err := Stamp(digest.Key{}, Object{Desired: u}, stack, owner, 0)
		if err == nil || !strings.Contains(err.Error(), "metadata."+field+".x is a number") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// annotated is an object with the annotation against pruning.
func annotated(value string) *unstructured.Unstructured {
	u := configMap()
	u.SetAnnotations(map[string]string{keeper.PruneAnnotation: value})
	return u
}

func TestStampGivesNoOwnerToRetainedObjects(t *testing.T) {
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "n"},
	}}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "n"},
	}}
	other := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "x.io/v1", "kind": "Namespace", "metadata": map[string]any{"name": "n", "namespace": "ns"},
	}}
	for _, c := range []struct {
		name  string
		o     Object
		owned bool
	}{
		{"retained", Object{Desired: configMap(), Retain: true}, false},
		{"orphaned", Object{Desired: configMap(), Orphan: true}, false},
		{"kept by its annotation", Object{Desired: annotated(keeper.PruneDisabled)}, false},
		{"with another value of it", Object{Desired: annotated("enabled")}, true},
		{"namespace", Object{Desired: namespace}, false},
		{"CRD", Object{Desired: crd}, false},
		{"another group's kind of that name", Object{Desired: other}, true},
		{"anything else", Object{Desired: configMap()}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			refs := stamp(t, c.o).Desired.GetOwnerReferences()
			if len(refs) > 0 != c.owned {
				t.Errorf("owner references %v", refs)
			}
		})
	}
}

func TestStampDigest(t *testing.T) {
	base := stamp(t, Object{Desired: configMap()})
	rebuilt := &unstructured.Unstructured{}
	raw, _ := json.Marshal(configMap().Object)
	if err := rebuilt.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	withStatus := configMap()
	withStatus.Object["status"] = map[string]any{"x": "y"}
	for name, same := range map[string]Object{
		"again":           {Desired: configMap()},
		"read from JSON":  {Desired: rebuilt},
		"with a status":   {Desired: withStatus},
		"stamped already": {Desired: base.Desired},
		"optional":        {Desired: configMap(), Optional: true},
	} {
		if got := stamp(t, same); got.Digest != base.Digest {
			t.Errorf("%s: another digest", name)
		}
	}
	changed := configMap()
	changed.Object["data"] = map[string]any{"a": "1", "b": "3"}
	for name, other := range map[string]Object{
		"changed":  {Desired: changed},
		"retained": {Desired: configMap(), Retain: true},
	} {
		if got := stamp(t, other); got.Digest == base.Digest {
			t.Errorf("%s: the same digest", name)
		}
	}
	elsewhere := owner
	elsewhere.UID = "another"
	if got, _ := Stamp(digest.Key{}, Object{Desired: configMap()}, stack, elsewhere, 2); got.Digest == base.Digest {
		t.Error("another owner has the same digest")
	}
}

// Inventories have the digest of a Secret, too, which more people may read than Secrets.
func TestTheDigestOfASecretIsKeyed(t *testing.T) {
	digestOf := func(key digest.Key, kind, value string) string {
		t.Helper()
		u := configMap()
		u.SetKind(kind)
		u.Object["data"] = map[string]any{"password": value}
		s, err := Stamp(key, Object{Desired: u}, stack, owner, 0)
		if err != nil {
			t.Fatal(err)
		}
		return s.Digest
	}
	one, two := digest.Key{1}, digest.Key{2}
	if digestOf(one, "Secret", "Z3Vlc3M=") == digestOf(two, "Secret", "Z3Vlc3M=") {
		t.Error("whoever knows the content of a Secret can compute its digest without the key")
	}
	if digestOf(one, "Secret", "Z3Vlc3M=") == digestOf(one, "Secret", "b3RoZXI=") {
		t.Error("two contents have the same digest")
	}
	if digestOf(one, "ConfigMap", "a") != digestOf(two, "ConfigMap", "a") {
		t.Error("the digest of an object that is no Secret depends on the key: a lost key would have all of them written again")
	}
}

func TestStampIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOfN(rapid.String(), rapid.Custom(func(t *rapid.T) any {
			return rapid.OneOf(
				rapid.Map(rapid.String(), func(s string) any { return s }),
				rapid.Map(rapid.Int64(), func(i int64) any { return i }),
				rapid.Map(rapid.Bool(), func(b bool) any { return b }),
			).Draw(t, "value")
		}), 0, 8).Draw(t, "data")
		// One map is filled in a random order, and so has another layout.
		shuffled := map[string]any{}
		for _, k := range rapid.Permutation(slices.Sorted(maps.Keys(value))).Draw(t, "order") {
			shuffled[k] = value[k]
		}
		a, b := configMap(), configMap()
		a.Object["data"], b.Object["data"] = value, shuffled
		x, err := Stamp(digest.Key{}, Object{Desired: a}, stack, owner, 0)
		if err != nil {
			t.Fatal(err)
		}
		y, err := Stamp(digest.Key{}, Object{Desired: b}, stack, owner, 0)
		if err != nil || x.Digest != y.Digest || !reflect.DeepEqual(x.Desired, y.Desired) {
			t.Fatalf("%v: %v and %v", err, x, y)
		}
	})
}

func TestStackHashFitsALabel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Stack{Namespace: rapid.String().Draw(t, "ns"), Name: rapid.String().Draw(t, "name")}
		if errs := validation.IsDNS1035Label("a" + s.Hash()); len(errs) > 0 || len(validation.IsValidLabelValue(s.Hash())) > 0 {
			t.Fatal(errs)
		}
	})
	other := stack
	other.UID = "another"
	if other.Hash() != stack.Hash() {
		t.Error("the hash depends on the UID, so a retained object would not be found again")
	}
	other.Name = "another"
	if other.Hash() == stack.Hash() {
		t.Error("two names have one hash")
	}
}

func TestKey(t *testing.T) {
	k := KeyOf(configMap())
	if k.String() != "ConfigMap ns/c" || k != (Object{Desired: configMap()}).Key() {
		t.Error(k)
	}
	k.Namespace = ""
	if k.String() != "ConfigMap c" {
		t.Error(k)
	}
	beta := configMap()
	beta.SetAPIVersion("v1beta1")
	if KeyOf(beta) != KeyOf(configMap()) {
		t.Error("the version is part of the identity")
	}
}

func TestProblemError(t *testing.T) {
	for _, c := range []struct {
		p    Problem
		want string
	}{
		{Problem{Message: "m"}, "m"},
		{Problem{Message: "m", Remedy: "r"}, "m; r"},
		{Problem{Field: "spec.a", Message: "m"}, "spec.a: m"},
		{Problem{Field: "spec.a", Value: "v", Message: "m", Remedy: "r"}, "spec.a (v): m; r"},
		{Problem{Value: "v", Message: "m"}, "m"},
		{Problem{Class: Blocked, Reason: "Why", Message: "m"}, "m"},
	} {
		var err error = c.p
		if got := err.Error(); got != c.want || strings.Contains(got, "%!") {
			t.Errorf("%+v: %q", c.p, got)
		}
	}
}

// TestWhatAnEarlierOneControlsIsNotMarked: custom resources of the same name have the same marks.
func TestWhatAnEarlierOneControlsIsNotMarked(t *testing.T) {
	earlier := stack
	earlier.UID = "other-uid"
	inventories := keeper.GroupVersion.String()
	for name, c := range map[string]struct {
		controller *metav1.OwnerReference
		want       bool
	}{
		"nobody":                 {nil, true},
		"its own Inventory":      {&metav1.OwnerReference{APIVersion: inventories, Kind: "Inventory", Name: stack.InventoryPrefix() + ".stage.1"}, true},
		"an earlier Inventory":   {&metav1.OwnerReference{APIVersion: inventories, Kind: "Inventory", Name: earlier.InventoryPrefix() + ".stage"}, false},
		"itself":                 {&metav1.OwnerReference{APIVersion: "g.io/v1", Kind: "Thing", Name: "cr", UID: "cr-uid"}, true},
		"an earlier one":         {&metav1.OwnerReference{APIVersion: "g.io/v1beta1", Kind: "Thing", Name: "cr", UID: "other-uid"}, false},
		"another program's kind": {&metav1.OwnerReference{APIVersion: "cert-manager.io/v1", Kind: "Certificate", Name: "c", UID: "c"}, false},
	} {
		u := configMap()
		u.SetLabels(map[string]string{keeper.StackLabel: stack.Hash()})
		if c.controller != nil {
			controls := true
			c.controller.Controller = &controls
			u.SetOwnerReferences([]metav1.OwnerReference{*c.controller})
		}
		if got := stack.Marked(u); got != c.want {
			t.Errorf("controlled by %s: %t", name, got)
		}
	}
}

// TestAProblemAllowsPruningAlone: one that does not is in the way, whatever the others do.
func TestAProblemAllowsPruningAlone(t *testing.T) {
	allows, not := Problem{AllowsPruning: true}, Problem{}
	for want, cases := range map[bool][][]Problem{true: {nil, {allows}, {allows, allows}}, false: {{not}, {allows, not}, {not, allows}}} {
		for _, problems := range cases {
			if got := MayPrune(problems); got != want {
				t.Errorf("%+v: %t", problems, got)
			}
		}
	}
}

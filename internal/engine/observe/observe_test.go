package observe

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

var (
	stack = plan.Stack{
		Controller: "trustyai", GVK: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "K"},
		Namespace: "ns", Name: "cr", UID: "cr-uid",
	}
	owner = plan.Owner{APIVersion: "g/v1", Kind: "K", Name: "cr", UID: "cr-uid"}
)

func entry(op metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	e := metav1.ManagedFieldsEntry{
		Manager: FieldManager, Operation: op, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{},
	}
	e.FieldsV1.SetRawString(fields)
	return e
}

func applied(fields string) metav1.ManagedFieldsEntry {
	return entry(metav1.ManagedFieldsOperationApply, fields)
}

func hash(t testing.TB, digest string, entries ...metav1.ManagedFieldsEntry) string {
	t.Helper()
	h, _ := HashOwned(entries, digest)
	return h
}

func TestHashOwnedCountsOnlyWhatMLKeeperOwns(t *testing.T) {
	own := applied(`{"f:data":{"f:a":{}}}`)
	base := hash(t, "d", own)
	if base == "" {
		t.Fatal("no hash")
	}
	foreign, status, empty := own, own, own
	foreign.Manager = "kubectl"
	status.Subresource = "status"
	empty.FieldsV1 = nil
	later := own
	later.Time = &metav1.Time{}
	for name, same := range map[string][]metav1.ManagedFieldsEntry{
		"another manager's entry": {foreign, own},
		"a subresource's entry":   {own, status},
		"an entry without fields": {own, empty},
		"the time of the entry":   {later},
	} {
		if got := hash(t, "d", same...); got != base {
			t.Errorf("%s changes the hash", name)
		}
	}
	version := own
	version.APIVersion = "v2"
	for name, other := range map[string]string{
		"the digest":            hash(t, "e", own),
		"the version":           hash(t, "d", version),
		"the operation":         hash(t, "d", entry(metav1.ManagedFieldsOperationUpdate, `{"f:data":{"f:a":{}}}`)),
		"a field more":          hash(t, "d", applied(`{"f:data":{"f:a":{},"f:b":{}}}`)),
		"a field less":          hash(t, "d", applied(`{"f:data":{}}`)),
		"the container as well": hash(t, "d", applied(`{"f:data":{".":{},"f:a":{}}}`)),
		"an entry more":         hash(t, "d", own, own),
	} {
		if other == base {
			t.Errorf("%s does not change the hash", name)
		}
	}
	if got := hash(t, "d", foreign, status, empty); got != "" {
		t.Errorf("hash %q of what is not owned", got)
	}
}

func TestHashOwnedTellsThePostFromTheApply(t *testing.T) {
	apply, post := applied(`{"f:a":{}}`), entry(metav1.ManagedFieldsOperationUpdate, `{"f:a":{}}`)
	foreign := post
	foreign.Manager = "kubectl"
	for _, c := range []struct {
		entries []metav1.ManagedFieldsEntry
		want    bool
	}{
		{nil, false},
		{[]metav1.ManagedFieldsEntry{apply}, false},
		{[]metav1.ManagedFieldsEntry{post}, true},
		{[]metav1.ManagedFieldsEntry{apply, post}, true},
		{[]metav1.ManagedFieldsEntry{apply, foreign}, false},
	} {
		if _, created := HashOwned(c.entries, ""); created != c.want {
			t.Errorf("%v: created = %v", c.entries, created)
		}
	}
}

// TestHashOwnedOfPorts is what an API server answers for the ports of a Service, through protobuf and through JSON.
func TestHashOwnedOfPorts(t *testing.T) {
	a := hash(t, "", applied(`{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}},`+
		`"k:{\"port\":443,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`))
	b := hash(t, "", applied(`{"f:spec":{"f:ports":{"k:{\"protocol\":\"TCP\",\"port\":443}":{"f:port":{},".":{}},`+
		`"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`))
	if a != b {
		t.Error("the order of ports matters")
	}
}

// fields draws a tree of fieldsV1.
func fields(t *rapid.T, depth int) map[string]any {
	key := rapid.OneOf(
		rapid.StringMatching(`f:[a-z.\/]{1,6}`), rapid.StringMatching(`v:(0|[1-9][0-9]{0,3})`), rapid.StringMatching(`v:"[a-z]{1,4}"`),
		rapid.StringMatching(`k:\{"port":[1-9][0-9]{0,3},"protocol":"(TCP|UDP)"\}`), rapid.StringMatching(`i:(0|[1-9][0-9]{0,2})`),
	)
	out := map[string]any{}
	for _, k := range rapid.SliceOfNDistinct(key, 0, 5, rapid.ID[string]).Draw(t, "keys") {
		child := map[string]any{}
		if depth > 0 {
			child = fields(t, depth-1)
		}
		out[k] = child
	}
	if len(out) > 0 && rapid.Bool().Draw(t, "itself") {
		out["."] = map[string]any{}
	}
	return out
}

// spell writes a tree as JSON with the keys in a random order.
func spell(t *rapid.T, tree map[string]any) string {
	var parts []string
	for _, k := range rapid.Permutation(slices.Sorted(maps.Keys(tree))).Draw(t, "order") {
		raw, _ := json.Marshal(k)
		parts = append(parts, string(raw)+":"+spell(t, tree[k].(map[string]any)))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestHashOwnedDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := fields(t, 3), fields(t, 2)
		one := []metav1.ManagedFieldsEntry{applied(spell(t, a)), entry("Update", spell(t, b))}
		two := []metav1.ManagedFieldsEntry{entry("Update", spell(t, b)), applied(spell(t, a))}
		x, _ := HashOwned(one, "d")
		if y, _ := HashOwned(two, "d"); x != y {
			t.Fatalf("%s\n%s", one[0].FieldsV1.GetRawString(), two[1].FieldsV1.GetRawString())
		}
	})
}

func TestHashOwnedSeesEveryFieldAddedOrLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := fields(t, 2)
		before, _ := HashOwned([]metav1.ManagedFieldsEntry{applied(spell(t, tree))}, "")
		tree["f:ADDED"] = fields(t, 1)
		if after, _ := HashOwned([]metav1.ManagedFieldsEntry{applied(spell(t, tree))}, ""); before == after {
			t.Fatal("a field more is not seen")
		}
	})
}

func FuzzHashOwned(f *testing.F) {
	for _, s := range []string{
		`{"f:data":{".":{},"f:a":{}}}`, `{"f:p":{"k:{\"port\":80}":{"f:port":{}},"v:1":{},"i:0":{}}}`, `{}`, ``, `null`, `[]`,
		`{"x":{}}`, `{"f:a":1}`, `{"z:a":{}}`, `{"f:a":{},"f:a":{"f:b":{}}}`, `{"k:{":{}}`, `{"f:a":{"f:b":{".":1}}}`,
	} {
		f.Add(s, "d")
	}
	f.Fuzz(func(t *testing.T, fields, digest string) {
		one := hash(t, digest, applied(fields))
		if one == "" || one != hash(t, digest, applied(fields)) {
			t.Fatal("the hash is empty or not stable")
		}
	})
}

func TestNewerVersion(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"2", "1", true},
		{"1", "2", false},
		{"1", "1", false},
		{"10", "9", true},
		{"9", "10", false},
		{"340282366920938463463374607431768211456", "340282366920938463463374607431768211455", true},
		{"", "1", false},
		{"1", "", false},
		{"", "", false},
		{"x", "1", false},
		{"2", "x", false},
		{"-2", "1", false},
		{"2 ", "1", false},
		{"٣", "1", false},
	} {
		if got := NewerVersion(c.a, c.b); got != c.want {
			t.Errorf("NewerVersion(%q, %q) = %v", c.a, c.b, got)
		}
	}
}

func TestNewerVersionOrdersNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.StringMatching(`0|[1-9][0-9]{0,40}`)
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, _ := new(big.Int).SetString(a, 10)
		y, _ := new(big.Int).SetString(b, 10)
		if NewerVersion(a, b) != (x.Cmp(y) > 0) {
			t.Fatal("not the order of numbers")
		}
	})
}

func TestOwnedByAndRefers(t *testing.T) {
	yes := true
	ref := func(uid types.UID, controller bool) metav1.OwnerReference {
		r := metav1.OwnerReference{APIVersion: "g/v1", Kind: "K", Name: "cr", UID: uid}
		if controller {
			r.Controller = &yes
		}
		return r
	}
	marks := func(controller, id string) (map[string]string, map[string]string) {
		return map[string]string{keeper.ControllerLabel: controller}, map[string]string{keeper.OwnerAnnotation: id}
	}
	for _, c := range []struct {
		name           string
		refs           []metav1.OwnerReference
		controller, id string
		owned, refer   bool
	}{
		{"ours by controller", []metav1.OwnerReference{ref("cr-uid", true)}, "trustyai", stack.ID(), true, true},
		{"ours by controller without marks", []metav1.OwnerReference{ref("cr-uid", true)}, "", "", true, true},
		{"another controller with our marks", []metav1.OwnerReference{ref("other", true)}, "trustyai", stack.ID(), false, false},
		{"an earlier custom resource of the same name", []metav1.OwnerReference{ref("old", true)}, "trustyai", stack.ID(), false, false},
		{"retained", nil, "trustyai", stack.ID(), true, false},
		{"a plain reference does not own", []metav1.OwnerReference{ref("cr-uid", false)}, "", "", false, true},
		{"a plain reference of another", []metav1.OwnerReference{ref("other", false)}, "trustyai", stack.ID(), true, false},
		{"the marks of another custom resource", nil, "trustyai", "K.g/ns/other", false, false},
		{"the label of another controller", nil, "seldon", stack.ID(), false, false},
		{"no marks at all", nil, "", "", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &Object{}
			o.OwnerReferences = c.refs
			o.Labels, o.Annotations = marks(c.controller, c.id)
			if got := o.OwnedBy(stack, owner); got != c.owned {
				t.Errorf("OwnedBy = %v", got)
			}
			if got := o.Refers(owner); got != c.refer {
				t.Errorf("Refers = %v", got)
			}
			if len(c.refs) > 0 && c.refs[0].Controller != nil && o.OwnedBy(stack) {
				t.Error("owned by nobody")
			}
		})
	}
}

// large is a Deployment as an API server answers it, with much that the engine has no use for.
func large() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": "d", "namespace": "ns", "uid": "u1", "resourceVersion": "7", "generation": int64(3),
			"labels": map[string]any{
				keeper.ControllerLabel: "trustyai", keeper.StackLabel: stack.Hash(), "app": strings.Repeat("x", 60),
			},
			"annotations": map[string]any{
				keeper.OwnerAnnotation: stack.ID(), keeper.AppliedHashAnnotation: "dg", "kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("y", 4000),
				keeper.AnnotationPrefix + "port": "8080",
			},
		},
		"spec": map[string]any{
			"replicas": int64(1),
			"template": map[string]any{"spec": map[string]any{"containers": []any{
				map[string]any{"name": "c", "image": "i", "env": []any{map[string]any{"name": "E", "value": strings.Repeat("z", 8000)}}},
			}}},
		},
		"status": map[string]any{
			"observedGeneration": int64(3), "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1),
			"availableReplicas": int64(1),
		},
	}}
	var others []metav1.ManagedFieldsEntry
	for i := range 20 {
		e := applied(`{"f:spec":{"f:x` + strings.Repeat("v", 500) + `":{}}}`)
		e.Manager = fmt.Sprint("m", i)
		others = append(others, e)
	}
	u.SetManagedFields(append(others, applied(`{"f:spec":{"f:replicas":{}}}`)))
	return u
}

func TestFromKeepsLittle(t *testing.T) {
	u := large()
	before := u.DeepCopy()
	o := From(u, true)
	if !slices.Equal(slices.Sorted(maps.Keys(o.Annotations)), []string{keeper.OwnerAnnotation}) ||
		!slices.Equal(slices.Sorted(maps.Keys(o.Labels)), []string{keeper.ControllerLabel, keeper.StackLabel}) {
		t.Errorf("labels %v, annotations %v", o.Labels, o.Annotations)
	}
	if o.ManagedFields != nil || o.OwnedFieldsHash == "" || o.Created || o.AppliedHash() != "dg" || o.Adopted() || o.Terminating() {
		t.Errorf("%+v", o)
	}
	if o.Key.String() != "Deployment ns/d" || o.APIVersion != "apps/v1" || o.UID != "u1" || o.ResourceVersion != "7" ||
		o.Generation != 3 || o.Health.Status != health.Current {
		t.Errorf("%+v", o)
	}
	raw, err := json.Marshal(o)
	if err != nil || len(raw) > 2500 {
		t.Errorf("%d bytes are kept, %v:\n%s", len(raw), err, raw)
	}
	if got, _, _ := unstructured.NestedString(o.Stripped().Object, "metadata", "annotations", keeper.AnnotationPrefix+"port"); got != "8080" {
		t.Error("a controller's own annotation is lost")
	}
	if len(o.Stripped().GetManagedFields()) != 0 || o.Stripped().GetAnnotations()[keeper.OwnerAnnotation] != "" {
		t.Errorf("stripped metadata %v", o.Stripped().Object["metadata"])
	}
	if a, b := fmt.Sprint(before.Object), fmt.Sprint(u.Object); a != b {
		t.Error("the object that was read was changed")
	}
}

func TestFromMetadataIsFromWithoutTheRest(t *testing.T) {
	u := large()
	now := metav1.Now()
	for _, terminating := range []bool{false, true} {
		if terminating {
			u.SetDeletionTimestamp(&now)
		}
		m := &metav1.PartialObjectMetadata{}
		m.Name, m.Namespace, m.UID, m.ResourceVersion = u.GetName(), u.GetNamespace(), u.GetUID(), u.GetResourceVersion()
		m.Generation, m.Labels, m.Annotations = u.GetGeneration(), u.GetLabels(), u.GetAnnotations()
		m.DeletionTimestamp, m.ManagedFields = u.GetDeletionTimestamp(), u.GetManagedFields()
		a, _ := json.Marshal(FromMetadata(u.GroupVersionKind(), m))
		b, _ := json.Marshal(From(u, false))
		if string(a) != string(b) {
			t.Fatalf("%s\n%s", a, b)
		}
		want := health.Current
		if terminating {
			want = health.Terminating
		}
		if got := From(u, false); got.Health.Status != want || got.Stripped() != nil || got.Terminating() != terminating {
			t.Fatalf("%+v", got)
		}
	}
}

func BenchmarkFrom(b *testing.B) {
	u := large()
	b.ReportAllocs()
	for b.Loop() {
		From(u, true)
	}
}

// TestAJobIsCompletedAlsoWhileItIsDeleted: its TTL deletes it in the foreground, so that its last state is that of an object which is
// being deleted.
func TestAJobIsCompletedAlsoWhileItIsDeleted(t *testing.T) {
	now := metav1.Now()
	gvk := schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	job := func(condition batchv1.JobConditionType, deleted *metav1.Time) *batchv1.Job {
		out := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "ns", DeletionTimestamp: deleted}}
		out.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue}}
		return out
	}
	for _, deleted := range []*metav1.Time{nil, &now} {
		if o := FromTyped(gvk, job(batchv1.JobComplete, deleted)); !o.Completed || o.Terminating() != (deleted != nil) {
			t.Errorf("%+v", o)
		}
		for _, other := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobSuspended, batchv1.JobSuccessCriteriaMet} {
			if FromTyped(gvk, job(other, deleted)).Completed {
				t.Errorf("a Job that is %s has completed", other)
			}
		}
	}
}

func TestTheOwnerOfAnObject(t *testing.T) {
	yes := true
	controlledBy := func(kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: "one", Controller: &yes}}
	}
	custom := map[string]string{keeper.OwnerAnnotation: "KfDef.kfdef.apps.kubeflow.org/ns/kf"}
	for _, c := range []struct {
		name string
		meta metav1.ObjectMeta
		want string
	}{
		{"nobody", metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: "uses it"}}}, "nobody"},
		{"a controller", metav1.ObjectMeta{OwnerReferences: controlledBy("Deployment")}, "Deployment one"},
		{"a controller, beside copied marks", metav1.ObjectMeta{OwnerReferences: controlledBy("Deployment"), Annotations: custom}, "Deployment one"},
		{"an Inventory", metav1.ObjectMeta{OwnerReferences: controlledBy("Inventory"), Annotations: custom}, custom[keeper.OwnerAnnotation]},
		{"an Inventory without marks", metav1.ObjectMeta{OwnerReferences: controlledBy("Inventory")}, "Inventory one"},
		{"a custom resource that retains it", metav1.ObjectMeta{Annotations: custom}, custom[keeper.OwnerAnnotation]},
	} {
		if got := OwnerOf(&c.meta); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestWhatDecisionsNeedIsKept: the annotation against pruning and the run of a hook, of kinds that are watched by metadata alone too.
func TestWhatDecisionsNeedIsKept(t *testing.T) {
	for key, value := range map[string]string{keeper.PruneAnnotation: keeper.PruneDisabled, keeper.RunAnnotation: "two"} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		u.SetAnnotations(map[string]string{key: value, "other": "text"})
		if got := From(u, false).Annotations; len(got) != 1 || got[key] != value {
			t.Errorf("of %s: %v", key, got)
		}
	}
}

package fieldownership

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// TestAPreviousManagerHasSetTheOwner: the field manager of every operator that Kubebuilder scaffolds is called manager, so one that has
// only added a label to an object of the previous operator is not that operator.
func TestAPreviousManagerHasSetTheOwner(t *testing.T) {
	const owner = `{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"cr\"}":{}}},"f:data":{"f:a":{}}}`
	const otherOwner = `{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"another\"}":{".":{},"f:name":{}}}}}`
	const label = `{"f:metadata":{"f:labels":{"f:theirs":{}}}}`
	const marks = `{"f:metadata":{"f:annotations":{"f:keeper.mlkeeper.dev/owner":{}},"f:ownerReferences":{}}}`
	type fields map[string]string
	owned := map[string]string{keeper.OwnerAnnotation: "Thing.g.io/ns/cr"}
	for name, c := range map[string]struct {
		fields fields
		marks  map[string]string
		want   []string
	}{
		"it set the owner":                  {fields{"manager": owner}, nil, []string{"manager"}},
		"it set a field of the reference":   {fields{"manager": `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"cr\"}":{"f:name":{}}}}}`}, nil, []string{"manager"}},
		"the schema is not known":           {fields{"manager": `{"f:metadata":{"f:ownerReferences":{}}}`}, nil, []string{"manager"}},
		"it set a label":                    {fields{"manager": label}, nil, nil},
		"it set another owner":              {fields{"manager": otherOwner}, nil, nil},
		"another manager set the owner":     {fields{"manager": label, "old-operator": owner}, nil, []string{"old-operator"}},
		"a stranger set the owner":          {fields{"manager": label, "stranger": owner}, nil, nil},
		"the mark of the previous operator": {fields{"manager": label}, map[string]string{"old/mark": "cr"}, []string{"manager", "old-operator"}},
		"declared in part": {
			fields{"manager": label, "mlkeeper": `{"f:spec":{}}`},
			map[string]string{keeper.PartialAnnotation: "true"},
			[]string{"manager", "old-operator"},
		},
		"released":                         {fields{"manager": label, "mlkeeper": marks}, owned, []string{"manager", "old-operator"}},
		"declared":                         {fields{"manager": label, "mlkeeper": `{"f:data":{"f:a":{}},"f:metadata":{"f:labels":{}}}`}, owned, nil},
		"somebody else's mark of an owner": {fields{"manager": label}, owned, nil},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetAnnotations(c.marks)
		var entries []metav1.ManagedFieldsEntry
		for manager, set := range c.fields {
			entries = append(entries, metav1.ManagedFieldsEntry{
				Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(set),
			})
		}
		u.SetManagedFields(entries)
		got := PreviousManagers(u, []string{"manager", "old-operator"}, []plan.Owner{{UID: "cr"}}, plan.Mark{Annotation: "old/mark", Value: "cr"}, "mlkeeper")
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

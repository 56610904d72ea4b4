package faults

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// listed compares the inventory of a custom resource that is Ready, in its status or in its Inventories, with what is there: each object
// that is listed exists, and each one that the custom resource or the Inventory controls is listed there. What is on no list would stay
// when the custom resource has gone, or be made a second time.
func (r *run) listed(complain func(format string, args ...any)) {
	now := r.history.all("")
	there := map[types.UID]bool{}
	for _, u := range now {
		there[u.GetUID()] = true
	}
	lists := map[types.UID]map[types.UID]bool{}
	for key, cr := range r.history.all(r.kind.Resource) {
		if isReady(cr) != nil {
			continue
		}
		holders := map[string]*unstructured.Unstructured{key: cr}
		for name, inventory := range r.history.all(inventories) {
			if uid, _, _ := unstructured.NestedString(inventory.Object, "spec", "owner", "uid"); uid == string(cr.GetUID()) {
				holders[name] = inventory
			}
		}
		for holder, u := range holders {
			list := map[types.UID]bool{}
			for _, child := range entriesOf(u) {
				uid, _ := child["uid"].(string)
				if list[types.UID(uid)] = true; uid != "" && !there[types.UID(uid)] {
					complain("%s is Ready, and %s lists the %v %v, which is not there", key, holder, child["kind"], child["name"])
				}
			}
			lists[u.GetUID()] = list
		}
	}
	for key, u := range now {
		ref := metav1.GetControllerOfNoCopy(u)
		if ref == nil || u.GetLabels()[keeper.ControllerLabel] == "" || u.GetDeletionTimestamp() != nil {
			continue
		}
		if list, ready := lists[ref.UID]; ready && !list[u.GetUID()] {
			complain("%s is controlled by the %s %s, which does not list it", key, ref.Kind, ref.Name)
		}
	}
}

// entriesOf are the entries of an Inventory, or of the inventory in the status of a custom resource, as they were written last.
func entriesOf(u *unstructured.Unstructured) []map[string]any {
	fields := []string{"status", "inventory", "entries"}
	if u.GetKind() == "Inventory" {
		fields = []string{"status", "entries"}
	}
	list, _, _ := unstructured.NestedSlice(u.Object, fields...)
	var out []map[string]any
	for _, item := range list {
		if entry, ok := item.(map[string]any); ok {
			out = append(out, entry)
		}
	}
	return out
}

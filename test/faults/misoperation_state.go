package faults

import (
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// assigned matches the fields that the API server fills in with values of its own choice.
var assigned = regexp.MustCompile(`^spec\.(clusterIPs?(\[\d+\])?|ports\[\d+\]\.nodePort|healthCheckNodePort)$`)

// emptySecurity is a security context, or its capabilities, without fields, which means the same as none: server-side apply leaves
// one or the other.
var emptySecurity = regexp.MustCompile(`\.securityContext(\.capabilities)?$`)

// state is the snapshot of a run without what depends on the way to a spec by its nature. That assigned and generated fields are
// there is compared, and so is that each child belongs to the custom resource: to the custom resource itself or, once it has needed
// Inventories, to one of them.
func (r *run) state() snapshot {
	objects := r.history.all("")
	owners := map[string]bool{}
	for _, cr := range r.history.all(r.kind.Resource) {
		owners[string(cr.GetUID())] = true
		for key, u := range objects {
			if uid, _, _ := unstructured.NestedString(u.Object, "spec", "owner", "uid"); strings.HasPrefix(key, inventories) && uid == string(cr.GetUID()) {
				owners[string(u.GetUID())] = true
			}
		}
	}
	for key, u := range objects {
		objects[key] = settledForm(u, owners)
		if strings.HasPrefix(key, inventories) {
			delete(objects, key)
		}
	}
	return settledFields(take(objects, r.world.Namespace, func(resource string) bool { return resource == r.kind.Resource }))
}

// settledFields has one form for the fields of a snapshot that the API server or MLKeeper chooses, and leaves out those that depend on the way to
// a spec.
func settledFields(out snapshot) snapshot {
	for object, fields := range out {
		generated := strings.HasPrefix(object, "secrets/") && fields["metadata.labels."+escape(keeper.ControllerLabel)] != ""
		for path, value := range fields {
			switch {
			case strings.HasSuffix(path, "bservedGeneration"), strings.HasPrefix(path, "status.lastUpdateTime"),
				strings.HasPrefix(path, "status.inventory"), revisionOf.MatchString(path), value == "{}" && emptySecurity.MatchString(path):
				delete(fields, path)
			case strings.HasPrefix(object, "services/") && assigned.MatchString(path):
				fields[path] = "(assigned)"
			case generated && strings.HasPrefix(path, "data."):
				fields[path] = "(generated)"
			}
		}
	}
	return out
}

// revisionOf are the revisions of a component, which count how often it was changed, with the history of them and what is kept of the last good one.
var revisionOf = regexp.MustCompile(`^status\.components\[\d+\]\.(.*(r|R)evision|history.*|kept.*)$`)

// settledForm is an object with its owner, where that is the custom resource or one of its Inventories, in one form.
func settledForm(u *unstructured.Unstructured, owners map[string]bool) *unstructured.Unstructured {
	ref := metav1.GetControllerOfNoCopy(u)
	if ref == nil || !owners[string(ref.UID)] {
		return u
	}
	u = u.DeepCopy()
	refs := slices.DeleteFunc(u.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == ref.UID })
	u.SetOwnerReferences(append(refs, metav1.OwnerReference{Kind: "the custom resource"}))
	return u
}

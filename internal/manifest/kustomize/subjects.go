package kustomize

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// placeSubjects gives a ServiceAccount that a binding names without a namespace that of the ServiceAccount which the application has, as
// kustomize v3.2.0 did (getNameAndNsStruct in its namereference.go): the first of that name, and for a RoleBinding the one in its own
// namespace. Today's kustomize does so only where a kustomization has a namespace, and the API server refuses a binding without one.
func placeSubjects(objects []*unstructured.Unstructured) {
	accounts := map[string][]string{}
	for _, o := range objects {
		if o.GetKind() == rbacv1.ServiceAccountKind && o.GetAPIVersion() == "v1" && o.GetNamespace() != "" {
			accounts[o.GetName()] = append(accounts[o.GetName()], o.GetNamespace())
		}
	}
	for _, o := range objects {
		kind := o.GetKind()
		if o.GroupVersionKind().Group != rbacv1.GroupName || kind != "RoleBinding" && kind != "ClusterRoleBinding" {
			continue
		}
		subjects, _ := o.Object["subjects"].([]any)
		for _, s := range subjects {
			subject, _ := s.(map[string]any)
			if _, placed := subject["namespace"]; placed || subject["kind"] != rbacv1.ServiceAccountKind {
				continue
			}
			name, _ := subject["name"].(string)
			for _, namespace := range accounts[name] {
				if kind == "ClusterRoleBinding" || namespace == o.GetNamespace() {
					subject["namespace"] = namespace
					break
				}
			}
		}
	}
}

package kustomize

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// installOrder is the order of kinds in which kfctl applied the objects of an application.
var installOrder = []string{
	"Namespace", "ResourceQuota", "LimitRange", "PodSecurityPolicy", "Secret", "ConfigMap", "StorageClass",
	"PersistentVolume", "PersistentVolumeClaim", "ServiceAccount", "CustomResourceDefinition", "ClusterRole",
	"ClusterRoleBinding", "Role", "RoleBinding", "Service", "DaemonSet", "Pod", "ReplicationController", "ReplicaSet",
	"Deployment", "StatefulSet", "Job", "CronJob", "Ingress", "MutatingWebhookConfiguration",
	"ValidatingWebhookConfiguration", "APIService",
}

// sortByKind puts objects into installOrder, other kinds behind it by their name. Within a kind they stay in the legacy
// order of kustomize; kfctl left that to chance, since its sort was not stable.
func sortByKind(objects []*unstructured.Unstructured) {
	rank := func(kind string) int {
		if i := slices.Index(installOrder, kind); i >= 0 {
			return i
		}
		return len(installOrder)
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		first, second := rank(a.GetKind()), rank(b.GetKind())
		if first == second && first == len(installOrder) {
			return cmp.Compare(a.GetKind(), b.GetKind())
		}
		return cmp.Compare(first, second)
	})
}

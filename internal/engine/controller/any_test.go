package controller

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestWhoTakesFinalizersOffMayDoSo: the role of a controller with a previous operator grants it to patch the custom resources.
func TestWhoTakesFinalizersOffMayDoSo(t *testing.T) {
	def := Definition[*corev1.ConfigMap]{
		Controller: "one", GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps",
		Rules: []Rule{{Resources: []string{"nodes"}, Verbs: []string{"get"}}},
	}
	grants := func() bool {
		return slices.ContainsFunc(Erase[*corev1.ConfigMap, any](def, nil).Rules(), func(r Rule) bool {
			return slices.Equal(r.Resources, []string{"configmaps"}) && slices.Equal(r.Verbs, []string{"patch"})
		})
	}
	if grants() {
		t.Error("a controller that takes none off may patch the custom resources")
	}
	def.StripFinalizers = []string{"original.example/finalizer"}
	if !grants() {
		t.Error("a controller that takes finalizers off may not")
	}
}

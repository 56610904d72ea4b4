package kustomize

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNamespacesGetPrefixes renders kustomizations with a prefix above a Namespace, in the mode stacks. What they become is what
// kustomize v3.2.0, which kfctl had within it, makes of the same files; of the first, the manifests of Kubeflow 1.3 for notebooks,
// today's kustomize does not find the Namespace that the overlay removes.
func TestNamespacesGetPrefixes(t *testing.T) {
	const (
		base = "-- app/base/kustomization.yaml --\nnamespace: notebook-controller-system\nnamePrefix: notebook-controller-\n" +
			"bases: [../manager]\n-- app/manager/kustomization.yaml --\nresources: [manager.yaml]\n-- app/manager/manager.yaml --\n" +
			"{apiVersion: v1, kind: Namespace, metadata: {name: system}}\n---\n" +
			"{apiVersion: v1, kind: Service, metadata: {name: service, namespace: system}}\n"
		remove = "-- app/patch.yaml --\n{$patch: delete, apiVersion: v1, kind: Namespace, metadata: {name: notebook-controller-system}}\n"
		two    = "-- app/two.yaml --\n{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n---\n" +
			"{apiVersion: v1, kind: Namespace, metadata: {name: p-a}}\n"
	)
	cases := map[string]struct {
		files string
		want  []string
	}{
		"removed by an overlay": {
			"-- app/kustomization.yaml --\nresources: [base]\nnamespace: kubeflow\npatchesStrategicMerge: [patch.yaml]\n" + base + remove,
			[]string{"Service kubeflow/notebook-controller-service"},
		},
		"kept": {
			"-- app/kustomization.yaml --\nresources: [base]\n" + base,
			[]string{"Namespace /notebook-controller-system", "Service notebook-controller-system/notebook-controller-service"},
		},
		"at two levels": {
			"-- app/kustomization.yaml --\nresources: [base]\nnamePrefix: x-\nnameSuffix: -y\n" + base,
			[]string{"Namespace /x-notebook-controller-system-y", "Service notebook-controller-system/x-notebook-controller-service-y"},
		},
		"the name of another": {
			"-- app/kustomization.yaml --\nresources: [two.yaml]\nnamePrefix: p-\n" + two,
			[]string{"Namespace /p-a", "Namespace /p-p-a"},
		},
		"of a list": {
			"-- app/kustomization.yaml --\nresources: [list.yaml]\nnameSuffix: -s\n-- app/list.yaml --\n" +
				"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Namespace, metadata: {name: a}}]}\n",
			[]string{"Namespace /a-s"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := input(c.files, nil)
			in.Applications = append(in.Applications, Application{Name: stacksApplication})
			got := renderAll(t, in)[0]
			if diff := cmp.Diff(c.want, names(got)); diff != "" || got.Err != nil {
				t.Errorf("%v\n%s", got.Err, diff)
			}
		})
	}
}

// TestManyNamespacesBelowAPrefix refuses what would cost a look at every object for each of many Namespaces.
func TestManyNamespacesBelowAPrefix(t *testing.T) {
	var text strings.Builder
	for i := range maxNamespaces + 1 {
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: Namespace, metadata: {name: n%d}}\n", i)
	}
	in := input("-- app/kustomization.yaml --\nresources: [all.yaml]\nnamePrefix: p-\n-- app/all.yaml --\n"+text.String(), nil)
	if got := rendered(t, in); got.Err == nil || !strings.Contains(got.Err.Error(), "more than 64 Namespaces") {
		t.Errorf("%v, %d objects", got.Err, len(got.Objects))
	}
}

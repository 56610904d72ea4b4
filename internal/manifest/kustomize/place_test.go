package kustomize

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// certManager has the shape of common/cert-manager/base of Kubeflow 1.11: one file of upstream with Roles in two namespaces, whose
// Deployment elects its leader in kube-system, and a patch of its Namespace; no namespace transformer, and a comment that says
// why there must be none.
const certManager = `-- app/kustomization.yaml --
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [upstream/cert-manager.yaml]
patches: [{path: namespace-patch.yaml}]
-- app/namespace-patch.yaml --
{apiVersion: v1, kind: Namespace, metadata: {name: cert-manager, labels: {enforce: restricted}}}
-- app/upstream/cert-manager.yaml --
{apiVersion: v1, kind: Namespace, metadata: {name: cert-manager}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: cert-manager, namespace: cert-manager}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: 'cert-manager:leaderelection', namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: 'cert-manager:leaderelection', namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: 'cert-manager:leaderelection'}
subjects: [{kind: ServiceAccount, name: cert-manager, namespace: cert-manager}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: cert-manager-tokenrequest, namespace: cert-manager}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: cert-manager, namespace: cert-manager}}
`

// TestWhichApplicationsAreGivenANamespace holds who keeps what its files name, and that every namespace that is replaced is told.
func TestWhichApplicationsAreGivenANamespace(t *testing.T) {
	const account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: theirs}}\n"
	flat := func(more string) string {
		return "-- app/kustomization.yaml --\nresources: [a.yaml]\n" + more + "\n-- app/a.yaml --\n" + account
	}
	merged := func(more string) string {
		return "-- app/base/kustomization.yaml --\nresources: [a.yaml]\n" + more + "\n-- app/base/a.yaml --\n" + account
	}
	kept := []string{"ServiceAccount theirs/a"}
	moved := []string{"ServiceAccount kfns/a"}
	const told = "put into namespace kfns, as kfctl did, although the files name another: ServiceAccount a of theirs"
	cases := map[string]struct {
		files   string
		change  func(*Application)
		want    []string
		warning string
	}{
		"cert-manager of Kubeflow 1.11": {files: certManager, want: []string{
			"Namespace /cert-manager", "ServiceAccount cert-manager/cert-manager", "Role cert-manager/cert-manager-tokenrequest",
			"Role kube-system/cert-manager:leaderelection", "RoleBinding kube-system/cert-manager:leaderelection",
			"Deployment cert-manager/cert-manager",
		}},
		"flat, as kfctl knew it":         {files: flat(""), want: moved, warning: told},
		"flat, in another case":          {files: flat("nameprefix: x-"), want: []string{"ServiceAccount kfns/x-a"}, warning: told},
		"flat with a namespace":          {files: flat("namespace: own"), want: []string{"ServiceAccount own/a"}},
		"flat with labels":               {files: flat("labels: [{pairs: {a: b}}]"), want: kept},
		"flat with replacements":         {files: flat("replacements: [{source: {kind: ServiceAccount, name: a}, targets: [{select: {kind: ServiceAccount}, fieldPaths: [metadata.name]}]}]"), want: kept},
		"flat with buildMetadata":        {files: flat("buildMetadata: [originAnnotations]"), want: kept},
		"flat with sortOptions":          {files: flat("sortOptions: {order: fifo}"), want: kept},
		"flat with nothing in labels":    {files: flat("labels: "), want: moved, warning: told},
		"flat with a component":          {files: flat("components: [c]\n-- app/c/kustomization.yaml --\nkind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\ncommonLabels: {a: b}"), want: kept},
		"merged, as kfctl knew it":       {files: merged(""), want: moved, warning: told},
		"merged from a base with labels": {files: merged("labels: [{pairs: {a: b}}]"), want: kept},
		"merged, and asked for": {
			files: merged("labels: [{pairs: {a: b}}]"), change: parameters("namespace=kfns"), want: moved, warning: told,
		},
		"merged from a base with a namespace": {
			files: merged("namespace: own"), want: moved, warning: "name another: ServiceAccount a of own, the objects of app/base/kustomization.yaml of own",
		},
		"in the KfDef's own namespace": {files: strings.ReplaceAll(merged(""), "theirs", "kfns"), want: moved},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := rendered(t, input(c.files, c.change))
			if diff := cmp.Diff(c.want, names(r)); diff != "" || r.Err != nil {
				t.Errorf("%v\n%s", r.Err, diff)
			}
			if got := strings.Join(r.Warnings.Texts, "; "); c.warning == "" && got != "" || !strings.Contains(got, c.warning) {
				t.Errorf("warnings %q, want %q", got, c.warning)
			}
		})
	}
	many := strings.Builder{}
	for i := range 30 {
		fmt.Fprintf(&many, "---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: b%d, namespace: theirs}}\n", i)
	}
	if r := rendered(t, input(flat("")+many.String(), nil)); len(r.Warnings.Texts) != 1 || !strings.Contains(r.Warnings.Texts[0], "and 21 more") {
		t.Errorf("warnings %q", r.Warnings.Texts)
	}
}

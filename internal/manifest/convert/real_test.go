package convert

import (
	"io/fs"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mlkeeper.dev/internal/manifest/kustomize"
	"mlkeeper.dev/internal/manifest/manifesttest"
)

// TestRealKfDefs converts every object of the two real KfDefs. Nothing of a removed API is left, as many objects of each
// are converted as the reference counts (kubeflow-kfdef.md, section 3.1), and the API server's own validation takes every
// definition.
func TestRealKfDefs(t *testing.T) {
	kubeflow, kubeflowRepo := manifesttest.Kubeflow(t)
	hub, hubRepo := manifesttest.OpenDataHub(t)
	cases := map[string]struct {
		kfdef manifesttest.KfDef
		repo  fs.FS
		want  map[string]int
	}{
		"kubeflow 1.2.0": {kubeflow, kubeflowRepo, map[string]int{
			"CustomResourceDefinition": 66, "rbac": 40, "webhooks": 13, "PodDisruptionBudget": 7, "HorizontalPodAutoscaler": 6, "APIService": 1,
		}},
		"open data hub 1.1.0": {hub, hubRepo, map[string]int{"CustomResourceDefinition": 7, "rbac": 1}},
	}
	rename := map[string]string{
		"Role": "rbac", "ClusterRole": "rbac", "RoleBinding": "rbac", "ClusterRoleBinding": "rbac",
		"MutatingWebhookConfiguration": "webhooks", "ValidatingWebhookConfiguration": "webhooks",
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for _, r := range rendered(t, c.kfdef, c.repo) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				for _, u := range r.Objects {
					out, warnings, err := today.Convert(u)
					if err != nil || out == nil {
						t.Fatalf("%s: %v, %v, %q", r.Name, out, err, warnings)
					}
					if slices.Contains(removed, out.GetAPIVersion()) {
						t.Errorf("%s: %s %s is left of %s", r.Name, out.GetKind(), out.GetName(), out.GetAPIVersion())
					}
					if out.GetKind() == "CustomResourceDefinition" {
						acceptedByServer(t, out)
					}
					if out == u {
						continue
					}
					kind := out.GetKind()
					if group := rename[kind]; group != "" {
						kind = group
					}
					got[kind]++
					for _, w := range warnings {
						t.Logf("%s: %s", r.Name, w)
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func rendered(t *testing.T, k manifesttest.KfDef, repo fs.FS) []kustomize.Rendered {
	in := kustomize.Input{Name: k.Metadata.Name, Namespace: k.Metadata.Namespace, Repos: map[string]fs.FS{}}
	for _, r := range k.Spec.Repos {
		in.Repos[r.Name] = repo
	}
	for _, a := range k.Spec.Applications {
		c := a.KustomizeConfig
		app := kustomize.Application{
			Name: a.Name, Repo: c.RepoRef.Name, Path: c.RepoRef.Path, Overlays: c.Overlays, HasConfig: true, HasRepoRef: true,
		}
		for _, p := range c.Parameters {
			app.Parameters = append(app.Parameters, kustomize.Parameter(p))
		}
		in.Applications = append(in.Applications, app)
	}
	out, err := kustomize.Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

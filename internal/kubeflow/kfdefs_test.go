//go:build realkubeflow

package kubeflow

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/manifest/convert"
	"mlkeeper.dev/internal/rendering"
)

// TestKfctlRenderedAsMany renders the KfDefs of Kubeflow 1.3 from a checkout of kubeflow/manifests of v1.3.0 or v1.3.1, and compares how
// many objects they have with what kustomize v3.2.0, which kfctl 1.2 had within it, makes of their applications. In v1.3.1 folders that
// the files name are gone: kfctl ended at the first of them, and here the status names each.
func TestKfctlRenderedAsMany(t *testing.T) {
	root := os.Getenv("MANIFESTS")
	// The objects of v1.3.0, and of v1.3.1 the objects and the applications whose folder, or one that it refers to, is gone.
	for file, want := range map[string][3]int{
		"kfctl_aws.v1.3.0.yaml": {554, 368, 7}, "kfctl_ibm.v1.3.0.yaml": {621, 385, 5}, "kfctl_ibm_multi_user.v1.3.0.yaml": {611, 375, 5},
		"kfctl_openshift_v1.3.0.yaml": {543, 304, 3},
	} {
		t.Run(file, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(root, "distributions", "kfdef", file))
			if err != nil {
				t.Fatal(err)
			}
			cr := &kubeflowv1.KfDef{}
			if err := yaml.Unmarshal(raw, cr); err != nil {
				t.Fatal(err)
			}
			cr.Name, cr.Namespace, cr.UID = "kubeflow", "kubeflow", "uid"
			objects, missing := want[0], 0
			if _, err := os.Stat(filepath.Join(root, "common/cert-manager/cert-manager-crds")); err != nil {
				objects, missing = want[1], want[2]
			}
			content := renderFolder(t, cr, os.DirFS(root))
			if content.Rendering != renderingKfctl {
				t.Errorf("the rendering is %s, since %s", content.Rendering, content.Why)
			}
			for _, a := range content.Applications {
				objects -= len(a.Objects)
				if a.Error == "" {
					continue
				}
				missing--
				if !strings.Contains(a.Error, "has no folder") && !strings.Contains(a.Error, "is not in the repository") {
					t.Errorf("%s: %s", a.Name, a.Error)
				}
			}
			if objects != 0 || missing != 0 {
				t.Errorf("%d objects are missing, and %d applications more would not have failed", objects, missing)
			}
		})
	}
}

// renderFolder renders a KfDef, all of whose repositories are one folder, for a cluster that serves everything.
func renderFolder(t *testing.T, cr *kubeflowv1.KfDef, folder fs.FS) Content {
	t.Helper()
	run := rendering.Run[Content]{
		Converter: convert.Converter{Served: func(schema.GroupVersionKind) bool { return true }}, Result: &Result{Inputs: "inputs"},
	}
	for i, r := range cr.Spec.Repos {
		run.Trees = append(run.Trees, folder)
		run.Result.Sources = append(run.Result.Sources, rendering.Revision{Name: r.Name, Digest: fmt.Sprint(i)})
	}
	renderRun(t, cr, nil, run)
	return run.Result.Content
}

package scenario

import (
	"encoding/base64"
	"fmt"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/manifest/manifesttest"
)

// smallKfDefs are n KfDefs of 40 objects each, in namespaces of their own and with their archives in ConfigMaps; with bad,
// also one whose archive never comes and one with a path that is not there.
func smallKfDefs(n int, bad bool) ([]*unstructured.Unstructured, error) {
	files := fstest.MapFS{
		"web/base/deployment.yaml": {Data: []byte(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`)},
	}
	resources := "deployment.yaml"
	for i := range 39 {
		name := fmt.Sprintf("settings-%02d.yaml", i)
		files["web/base/"+name] = &fstest.MapFile{Data: fmt.Appendf(nil, "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings-%02d}, data: {a: b}}\n", i)}
		resources += ", " + name
	}
	files["web/base/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [" + resources + "]\n")}
	archive, err := manifesttest.Pack(files)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	add := func(ns, uri, path string) {
		out = append(out, namespace(ns), archived(ns, archive), kfDefOf(ns, "small", uri, path))
	}
	for i := range n {
		add(fmt.Sprintf("small-%d", i), archiveURI, "web")
	}
	if bad {
		add("no-archive", "https://example.test/x.tar.gz", "web")
		add("no-path", archiveURI, "nowhere")
	}
	return out, nil
}

// archived is a ConfigMap with an archive for KfDefs of its namespace.
func archived(ns string, archive []byte) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "manifests", "namespace": ns},
		"binaryData": map[string]any{"manifests.tar.gz": base64.StdEncoding.EncodeToString(archive)},
	}}
}

// archiveURI is where a KfDef finds it.
const archiveURI = "configmap:manifests/manifests.tar.gz"

// kfDefOf is a KfDef with one application.
func kfDefOf(ns, name, uri, path string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kfdef.apps.kubeflow.org/v1", "kind": "KfDef", "metadata": map[string]any{"name": name, "namespace": ns},
		"spec": map[string]any{
			"repos": []any{map[string]any{"name": "manifests", "uri": uri}},
			"applications": []any{map[string]any{"name": "web", "kustomizeConfig": map[string]any{
				"repoRef": map[string]any{"name": "manifests", "path": path},
			}}},
		},
	}}
}

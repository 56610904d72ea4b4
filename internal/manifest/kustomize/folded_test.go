package kustomize

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestFoldedTextsStayAsTheyAre renders what Kubeflow 0.7 to 1.3 have: a folded text with lines of a deeper indentation, in a Job of Istio
// 1.1 and in the ConfigMap config-observability of Knative. The expectation is what sigs.k8s.io/yaml reads, as kustomize v3.2.0 did. In
// a file with a field that is hidden from kustomize, the text is written once more.
func TestFoldedTextsStayAsTheyAre(t *testing.T) {
	const text = `>
    kubectl get secrets | while read -r entry; do
      ns=$(echo $entry);
      kubectl delete -n $ns;
    done

    second

      third
`
	read := struct{ Text string }{}
	if err := yaml.Unmarshal([]byte("text: "+text), &read); err != nil {
		t.Fatal(err)
	}
	const policy = "---\napiVersion: policy/v1beta1\nkind: PodSecurityPolicy\nmetadata: {name: hidden}\nspec: {volumes: [secret]}\n"
	for _, beside := range []string{"", policy} {
		for _, folder := range []string{"base/", ""} {
			files := fmt.Sprintf("-- app/%[1]skustomization.yaml --\nresources: [m.yaml]\n-- app/%[1]sm.yaml --\n"+
				"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  text: %[2]s%[3]s", folder, text, beside)
			in := input(files, nil)
			in.Rendering = Kfctl
			r := rendered(t, in)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			got, _, _ := unstructured.NestedString(find(t, r, "ConfigMap", "m").Object, "data", "text")
			if got != read.Text {
				t.Errorf("in the folder %q, beside %q, the text is %q, not %q", folder, beside, got, read.Text)
			}
		}
	}
}

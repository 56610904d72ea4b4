package sanitize_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/internal/engine/sanitize"
	"mlkeeper.dev/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

const refusedDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: refused
spec:
  undeclared: true
  selector: {matchLabels: {app: refused}}
  template:
    metadata: {labels: {app: refused}}
    spec:
      containers:
      - name: x
        image: example.com/x
        nonsense: {a: b}
        env:
        - {name: A, value: one}
        - {name: A, value: two}
        ports:
        - {containerPort: 80, name: http}
        - {containerPort: 80, protocol: TCP}
`

const refusedDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.sanitize.mlkeeper.dev
spec:
  group: sanitize.mlkeeper.dev
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              any: {type: object, x-kubernetes-preserve-unknown-fields: true}
              tags: {type: array, items: {type: string}, x-kubernetes-list-type: set}
`

const refusedWidget = `
apiVersion: sanitize.mlkeeper.dev/v1
kind: Widget
metadata:
  name: refused
spec:
  size: 1
  color: red
  any: {color: red}
  tags: [a, b, a]
`

// TestInvariant11ServerSideApplyAcceptsWhatIsCleaned meets the real API server: it refuses both objects as they are, and
// takes both once cleaned.
func TestInvariant11ServerSideApplyAcceptsWhatIsCleaned(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	c.Apply(t, refusedDefinition)
	c.Eventually(t, 30e9, func() error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("sanitize.mlkeeper.dev/v1")
		list.SetKind("WidgetList")
		return c.Client.List(t.Context(), list)
	})
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	cleaner := sanitize.NewCleaner(disco.OpenAPIV3())
	for _, want := range []struct{ text, warnings string }{
		{refusedDeployment, `spec.template.spec.containers[name="x"].env[name="A"] ` +
			`spec.template.spec.containers[name="x"].nonsense ` +
			`spec.template.spec.containers[name="x"].ports[containerPort=80,protocol="TCP"] spec.undeclared`},
		{refusedWidget, `spec.color spec.tags[="a"]`},
	} {
		objects, err := cluster.Parse(want.text)
		if err != nil {
			t.Fatal(err)
		}
		u := objects[0]
		u.SetNamespace(ns)
		if err := apply(t, c, u); !sanitize.Refused(err) {
			t.Fatalf("%s as it is: %v", u.GetKind(), err)
		}
		var clean *unstructured.Unstructured
		var warnings []string
		// The API server publishes the schema of a new definition a moment after it serves the kind.
		c.Eventually(t, 30e9, func() (err error) {
			clean, warnings, err = cleaner.Clean(t.Context(), u)
			return err
		})
		if got := paths(warnings); got != want.warnings {
			t.Errorf("%s: warnings about\n%s\nwant\n%s", u.GetKind(), got, want.warnings)
		}
		if err := apply(t, c, clean); err != nil {
			t.Errorf("%s once cleaned: %v", u.GetKind(), err)
		}
	}
}

func apply(t *testing.T, c *cluster.Cluster, u *unstructured.Unstructured) error {
	t.Helper()
	return c.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u.DeepCopy()),
		client.FieldOwner("mlkeeper"), client.ForceOwnership)
}

func paths(warnings []string) string {
	var out []string
	for _, w := range warnings {
		path, _, _ := strings.Cut(w, ": ")
		out = append(out, path)
	}
	return strings.Join(out, " ")
}

package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/config"
	"mlkeeper.dev/config/crd"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
)

var update = flag.Bool("update", false, "write the golden files")

var (
	serviceKind = v1.GroupVersion.WithKind("TrustyAIService")
	secretGVK   = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	deployGVK   = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	configGVK   = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	routeGVK    = schema.GroupVersionKind{Group: "route.openshift.io", Version: "v1", Kind: "Route"}
	now         = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// fakeController renders TrustyAIServices in a simple way.
type fakeController struct {
	wires  []wiring.Wire
	rules  []controller.Rule
	render func(read controller.Reader, cr *v1.TrustyAIService) (plan.Plan, error)
}

func (fakeController) Name() string                 { return "trustyai" }
func (fakeController) GVK() schema.GroupVersionKind { return serviceKind }
func (fakeController) Resource() string             { return "trustyaiservices" }
func (fakeController) Children() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{secretGVK, deployGVK, configGVK, routeGVK}
}
func (fakeController) RendersAnswers() bool { return false }
func (fakeController) DefaultName() string  { return "" }
func (fakeController) Previous() controller.Previous {
	return controller.Previous{Finalizers: []string{"previous.example.com/finalizer"}, Managers: []string{"manager"}, TakesBack: true}
}
func (r fakeController) Wires() []wiring.Wire     { return r.wires }
func (r fakeController) Rules() []controller.Rule { return r.rules }

func (r fakeController) Render(_ context.Context, read func(client.Object) controller.Reader, u *unstructured.Unstructured) (plan.Plan, error) {
	cr := &v1.TrustyAIService{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cr); err != nil {
		return plan.Plan{}, err
	}
	if r.render == nil {
		return simplePlan(read(cr), cr)
	}
	return r.render(read(cr), cr)
}

func object(gvk schema.GroupVersionKind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	for k, v := range content {
		u.Object[k] = v
	}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func simplePlan(_ controller.Reader, cr *v1.TrustyAIService) (plan.Plan, error) {
	return plan.Plan{
		Stages: []plan.Stage{
			{Name: "first", Objects: []plan.Object{{Retain: true, Desired: object(secretGVK, cr.Namespace, cr.Name, map[string]any{
				"data": map[string]any{"password": "aHVudGVyMg=="}, "stringData": map[string]any{"token": "hunter2"}, "type": "Opaque",
			})}}},
			{Name: "second", Objects: []plan.Object{
				{Desired: object(deployGVK, cr.Namespace, cr.Name, map[string]any{"spec": map[string]any{"replicas": int64(ptr.Deref(cr.Spec.Replicas, 1))}})},
				{Optional: true, Desired: object(routeGVK, cr.Namespace, cr.Name, nil)},
			}},
		},
		Warnings: []string{fmt.Sprintf("replicas: %d", ptr.Deref(cr.Spec.Replicas, 0))},
	}, nil
}

func environment(r controller.Any, c *cluster) Environment {
	return Environment{
		Connection: &Connection{fake: c}, Controllers: func() []controller.Any { return []controller.Any{r} }, Definitions: crd.Definitions,
		Manifests: config.Manifests, Now: func() time.Time { return now },
	}
}

// run executes a command with standard input and returns what it printed.
func run(t *testing.T, cmd *cobra.Command, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetIn(strings.NewReader(stdin))
	// A nil slice would stand for those of the test binary.
	cmd.SetArgs(append([]string{}, args...))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs, run with -update to write it (-want +got):\n%s", path, diff)
	}
}

// fakeCluster is a cluster that serves some kinds and holds some objects.
func fakeCluster(t *testing.T, kinds []schema.GroupVersionKind, objects ...*unstructured.Unstructured) (*cluster, *dynamicfake.FakeDynamicClient) {
	t.Helper()
	var versions []schema.GroupVersion
	for _, gvk := range kinds {
		versions = append(versions, gvk.GroupVersion())
	}
	mapper := meta.NewDefaultRESTMapper(versions)
	lists := map[schema.GroupVersionResource]string{}
	var resources []*metav1.APIResourceList
	for _, gvk := range kinds {
		scope := meta.RESTScopeNamespace
		if gvk == inventoryKind || gvk == bindingGVK {
			scope = meta.RESTScopeRoot
		}
		mapper.Add(gvk, scope)
		gvr, _ := meta.UnsafeGuessKindToResource(gvk)
		lists[gvr] = gvk.Kind + "List"
		resource := metav1.APIResource{Name: gvr.Resource, Kind: gvk.Kind, SingularName: strings.ToLower(gvk.Kind)}
		if gvk == serviceKind {
			resource.ShortNames = []string{"tas"}
		}
		resources = append(resources, &metav1.APIResourceList{
			GroupVersion: gvk.GroupVersion().String(), APIResources: []metav1.APIResource{resource},
		})
	}
	scheme := runtime.NewScheme()
	metaScheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(metaScheme); err != nil {
		t.Fatal(err)
	}
	var whole, partial []runtime.Object
	for _, u := range objects {
		whole = append(whole, u)
		if u.GroupVersionKind().GroupKind() != podKind.GroupKind() {
			m := &metav1.PartialObjectMetadata{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{
				"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "metadata": u.Object["metadata"],
			}, m); err != nil {
				t.Fatal(err)
			}
			partial = append(partial, m)
		}
	}
	dyn := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme, lists, whole...)
	c := &cluster{dynamic: dyn, metadata: metadatafake.NewSimpleMetadataClient(metaScheme, partial...)}
	c.served.Store(&served{mapper, kindsOf(resources)})
	return c, dyn
}

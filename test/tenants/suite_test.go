package tenants

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	seldonv1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	tfservingv1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/kserve"
	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/seldon"
	"mlkeeper.dev/internal/source"
	"mlkeeper.dev/internal/tfserving"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

func TestMain(m *testing.M) { cluster.Main(m, fixture.CRDs(), cluster.WithCRDs("keda")) }

// patience is how long the tests wait for what takes seconds.
const patience = 2 * time.Minute

// account is the ServiceAccount of KfDefs and SeldonOperators.
const account = "mlkeeper"

var (
	configMapGVK = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secretGVK    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	serviceGVK   = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	bindingGVK   = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}
	inferenceGVK = schema.GroupVersionKind{Group: "serving.kserve.io", Version: "v1beta1", Kind: "InferenceService"}
	tfservGVK    = tfservingv1alpha1.GroupVersion.WithKind("Tfserv")
	kfDefGVK     = kubeflowv1.GroupVersion.WithKind("KfDef")
	seldonGVK    = seldonv1alpha1.GroupVersion.WithKind("SeldonOperator")
	elementGVK   = keeper.GroupVersion.WithKind("CompositionElement")
)

// start runs the operator with all controllers, with the rights and under the policies that it is shipped with.
func start(t *testing.T, c *cluster.Cluster, log logr.Logger) *harness.Operator {
	t.Helper()
	c.InstallCRDs(t)
	store, err := source.New(source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	charts := map[string]seldonv1alpha1.Chart{}
	for _, component := range []string{"core", "enterprise"} {
		charts[component] = seldonv1alpha1.Chart{Repository: "configmap:charts/" + component + ".tgz", Name: component, Version: "1.0.0"}
	}
	ctx, cancel := context.WithCancel(context.Background())
	operator, done, err := harness.Run(ctx, c, harness.Options{Engine: engine.Options{Log: log}},
		fixture.Controller(), fixture.TfservController(tfserving.DefaultImage, fixture.Serving(fixture.TutorialVersion)),
		harness.Controller(kubeflow.Definition(), kubeflow.New(kubeflow.Settings{
			DefaultServiceAccount: account, OperatorNamespace: cluster.OperatorNamespace, Sources: store,
		})),
		harness.Controller(seldon.Definition(), seldon.New(seldon.Settings{
			DefaultServiceAccount: account, OperatorNamespace: cluster.OperatorNamespace, Sources: store, Charts: charts,
		})),
		harness.Controller(kserve.Definition(), kserve.New()))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the operator ended: %v", err)
		}
	})
	cluster.Eventually(t, patience, operator.Engine.Ready)
	return operator
}

// installPolicies applies config/admission as it is shipped.
func installPolicies(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, c.Kubectl(t, "kustomize", filepath.Join(root, "config", "admission")))
}

// sample is one custom resource with what it refers to, in a namespace NS.
type sample struct {
	gvk            schema.GroupVersionKind
	name, manifest string
	// child is one of its objects, which is recreated when it is deleted.
	child   schema.GroupVersionKind
	childOf string
}

// samples are those whose objects are all in the namespace; a TrustyAIService is fixture.Create's.
var samples = []sample{
	{gvk: tfservGVK, name: "tfs", child: serviceGVK, childOf: "tfs-service", manifest: `
apiVersion: v1
kind: ConfigMap
metadata: {name: models}
data:
  models.conf: 'model_config_list { config { name: "resnet" base_path: "gs://b/resnet" model_platform: "tensorflow" } }'
---
apiVersion: v1
kind: Secret
metadata: {name: tfs-secret}
stringData: {key.json: "{}"}
---
apiVersion: servapi.dev-state.com/v1alpha1
kind: Tfserv
metadata: {name: tfs}
spec:
  grpcPort: 9000
  restPort: 8500
  replicas: 1
  configMap: models
  configFileName: models.conf
  configFileLocation: /var/config/
  secretFileName: key.json
  secretFileLocation: /secret/gcp-credentials/
`},
	{gvk: kfDefGVK, name: "kf", child: configMapGVK, childOf: "web-settings", manifest: `
apiVersion: kfdef.apps.kubeflow.org/v1
kind: KfDef
metadata: {name: kf}
spec:
  repos: [{name: manifests, uri: 'configmap:manifests/manifests.tar.gz'}]
  applications: [{name: web, kustomizeConfig: {repoRef: {name: manifests, path: web}}}]
`},
	{gvk: seldonGVK, name: "stack", child: configMapGVK, childOf: "core-settings", manifest: `
apiVersion: operator.seldon.io/v1alpha1
kind: SeldonOperator
metadata: {name: stack}
spec: {}
`},
}

// element is a CompositionElement with a service in the namespace NS.
const element = `
apiVersion: keeper.mlkeeper.dev/v1alpha1
kind: CompositionElement
metadata: {name: element-NS}
spec:
  participantId: 101c62b3-8918-41b9-a747-d21eb79c6c04
  automationCompositionId: dfd8ef9a-0000-4000-8000-000000000001
  order: {type: Deploy, id: m1, time: "2026-01-01T00:00:00.000000Z", received: "2099-01-01T00:00:00.000000Z"}
  exists: true
  content: {properties: {kserveInferenceEntities: [{name: iris, namespace: NS, payload: '{"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","spec":{"predictor":{"minReplicas":1,"model":{"modelFormat":{"name":"sklearn"}}}}}'}]}}
`

// webFiles are an application of a KfDef, settingsChart a chart.
func webFiles(more string) fstest.MapFS {
	return fstest.MapFS{
		"web/base/kustomization.yaml": {Data: []byte("resources: [web.yaml]\n")},
		"web/base/web.yaml":           {Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: web-settings}, data: {a: b}}\n" + more)},
	}
}

func settingsChart(name, more string) fstest.MapFS {
	return fstest.MapFS{
		"Chart.yaml":              {Data: []byte("apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n")},
		"values.yaml":             {Data: []byte("runs: " + name + "\n")},
		"templates/template.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "-settings}\ndata: {runs: '{{ .Values.runs }}'}\n" + more)},
	}
}

// packed is a ConfigMap of archives.
func packed(namespace, name string, archives map[string]fstest.MapFS) *unstructured.Unstructured {
	data := map[string]any{}
	for file, files := range archives {
		raw, err := manifesttest.Pack(files)
		if err != nil {
			panic(err) // It is packed in memory.
		}
		data[file] = base64.StdEncoding.EncodeToString(raw)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"binaryData": data}}
	u.SetGroupVersionKind(configMapGVK)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// sources are the archives of the samples in a namespace, and the ServiceAccount that they are applied as.
func sources(t testing.TB, c *cluster.Cluster, namespace, application, template string) {
	t.Helper()
	for _, u := range []*unstructured.Unstructured{
		packed(namespace, "manifests", map[string]fstest.MapFS{"manifests.tar.gz": webFiles(application)}),
		packed(namespace, "charts", map[string]fstest.MapFS{
			"core.tgz": settingsChart("core", template), "enterprise.tgz": settingsChart("enterprise", ""),
		}),
	} {
		raw, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		c.Apply(t, string(raw)+"\n")
	}
	c.Apply(t, strings.ReplaceAll(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: `+account+`, namespace: NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: `+account+`, namespace: NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{kind: ServiceAccount, name: `+account+`, namespace: NS}]
`, "NS", namespace))
}

// ready says why a custom resource is not Ready.
func ready(t testing.TB, c *cluster.Cluster, gvk schema.GroupVersionKind, namespace, name string) error {
	t.Helper()
	u := c.Get(t, gvk, namespace, name)
	if u == nil {
		return fmt.Errorf("there is no %s %s/%s", gvk.Kind, namespace, name)
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		if one, _ := item.(map[string]any); one["type"] == "Ready" && one["status"] == "True" && one["observedGeneration"] == u.GetGeneration() {
			return nil
		}
	}
	return fmt.Errorf("%s %s/%s is not Ready: %v", gvk.Kind, namespace, name, conditions)
}

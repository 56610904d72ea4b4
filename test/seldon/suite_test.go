package seldon

import (
	"encoding/base64"
	"flag"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/seldon"
	"mlkeeper.dev/internal/source"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

const seeds = "../testdata/seeds"

// chartsDir has the charts, which are those of make demo unless the real ones are at hand.
var chartsDir = flag.String("charts", "../../hack/demo/seldon/charts", "folder with the charts, unpacked, each under its name")

var (
	kind        = v1alpha1.GroupVersion.WithKind("SeldonOperator")
	deployments = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	services    = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	configMaps  = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secrets     = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	gateways    = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "Gateway"}
	routes      = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "VirtualService"}
	brokers     = schema.GroupVersionKind{Group: "eventing.knative.dev", Version: "v1", Kind: "Broker"}
	triggers    = schema.GroupVersionKind{Group: "eventing.knative.dev", Version: "v1", Kind: "Trigger"}
)

// charts are the components and their charts.
var charts = map[string]v1alpha1.Chart{
	"core":         {Name: "seldon-core-operator", Version: "1.15.0"},
	"enterprise":   {Name: "seldon-deploy", Version: "2.0.0"},
	"analytics":    {Name: "seldon-core-analytics", Version: "1.15.0"},
	"catalogue":    {Name: "postgresql", Version: "12.1.2"},
	"payloadstore": {Name: "opensearch", Version: "2.8.0"},
}

// patience is how long the test waits for what takes seconds.
const patience = 2 * time.Minute

// files are those of a chart.
func files(t testing.TB, chart string) fstest.MapFS {
	t.Helper()
	out, err := manifesttest.Folder(filepath.Join(*chartsDir, chart))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func pack(t testing.TB, chart string) []byte {
	t.Helper()
	raw, err := manifesttest.Pack(files(t, chart))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// repository serves the charts over HTTP as a chart repository does.
func repository(t testing.TB) *httptest.Server {
	t.Helper()
	var all []manifesttest.Chart
	for _, chart := range charts {
		all = append(all, manifesttest.Chart{Name: chart.Name, Version: chart.Version, Archive: pack(t, chart.Name)})
	}
	server := httptest.NewServer(manifesttest.ChartRepository(all...))
	t.Cleanup(server.Close)
	return server
}

// start runs the operator with the controller, trusted, and with charts from a repository.
func start(t *testing.T, c *cluster.Cluster, repository string, opts harness.Options) *harness.Operator {
	t.Helper()
	o, _ := startIn(t, c, repository, t.TempDir(), opts)
	return o
}

// startIn runs it with a folder of what was fetched.
func startIn(t *testing.T, c *cluster.Cluster, repository, dir string, opts harness.Options) (*harness.Operator, *source.Store) {
	t.Helper()
	store, err := source.New(source.Options{Dir: dir, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Policy: source.Policy{AllowHTTP: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	settings := seldon.Settings{Trusted: true, Sources: store, Charts: map[string]v1alpha1.Chart{}}
	for component, chart := range charts {
		chart.Repository = repository
		settings.Charts[component] = chart
	}
	c.InstallCRDs(t)
	opts.Verbose = testing.Verbose()
	return harness.Start(t, c, opts, harness.Trusted(harness.Controller(seldon.Definition(), seldon.New(settings)))), store
}

func get(t *testing.T, c *cluster.Cluster, ns, name string) *v1alpha1.SeldonOperator {
	t.Helper()
	u := c.Get(t, kind, ns, name)
	if u == nil {
		return nil
	}
	cr := &v1alpha1.SeldonOperator{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cr); err != nil {
		t.Fatal(err)
	}
	return cr
}

func ready(cr *v1alpha1.SeldonOperator) error {
	if cr == nil || !meta.IsStatusConditionTrue(cr.Status.Conditions, "Ready") || cr.Status.ObservedGeneration != cr.Generation {
		return fmt.Errorf("not Ready: %+v", cr)
	}
	return nil
}

// reason says whether Ready has a reason, and its message a text.
func reason(cr *v1alpha1.SeldonOperator, want, text string) error {
	if cr == nil {
		return fmt.Errorf("there is no SeldonOperator")
	}
	c := meta.FindStatusCondition(cr.Status.Conditions, "Ready")
	if c == nil || c.Reason != want || !strings.Contains(c.Message, text) || cr.Status.ObservedGeneration != cr.Generation {
		return fmt.Errorf("want %s with %q: %+v", want, text, c)
	}
	return nil
}

// text is a field of an object, or of nothing.
func text(u *unstructured.Unstructured, path ...string) string {
	if u == nil {
		return ""
	}
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// environment is that of the first container of a Deployment.
func environment(u *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	if u == nil {
		return out
	}
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	if len(containers) == 0 {
		return out
	}
	list, _, _ := unstructured.NestedSlice(containers[0].(map[string]any), "env") //nolint:forcetypeassert // a container is a map
	for _, item := range list {
		e, _ := item.(map[string]any)
		name, _ := e["name"].(string)
		value, isText := e["value"].(string)
		if !isText {
			value = fmt.Sprint(e["valueFrom"])
		}
		out[name] = value
	}
	return out
}

// chartMap puts charts of one template each into the ConfigMap charts.
func chartMap(t *testing.T, c *cluster.Cluster, ns string, templates map[string]string) {
	t.Helper()
	text := "\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: charts}\nbinaryData:\n"
	for name, template := range templates {
		raw, err := manifesttest.Pack(fstest.MapFS{
			"Chart.yaml":              {Data: fmt.Appendf(nil, "apiVersion: v2\nname: %s\nversion: 1.0.0\n", name)},
			"templates/template.yaml": {Data: []byte(template)},
		})
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("  %s.tgz: %s\n", name, base64.StdEncoding.EncodeToString(raw))
	}
	c.Apply(t, text, ns)
}

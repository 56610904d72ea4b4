//go:build realcharts

package seldon

import (
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	v1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// space is the namespace of the charts in the clusters of both.
const space = "charts"

// outcome is what is there after an installation, an upgrade or a downgrade, and the Jobs that were made for it, in their order.
type outcome struct {
	objects map[string]map[string]any
	jobs    []string
}

// TestPublicChartsBesideHelm installs, upgrades and downgrades each chart of the folder that CHARTS names, with Helm's own command and as a
// component, in a cluster each: the same objects are there after each step, and their Jobs were made in the same order. A file before.yaml
// beside the versions has what is there before, such as the Secrets that programs would make, which do not run here.
func TestPublicChartsBesideHelm(t *testing.T) {
	command, folder := manifesttest.HelmCommand(t), os.Getenv("CHARTS")
	for _, chart := range manifesttest.PublicCharts(t, command, folder) {
		steps := append(slices.Clone(chart.Versions), chart.Versions[0])
		before := filepath.Join(folder, chart.Name, "before.yaml")
		t.Run(chart.Name, func(t *testing.T) {
			random := randomPlaces(t, command, chart)
			var want []outcome
			t.Run("Helm", func(t *testing.T) { want = stepsOfHelm(t, command, chart, steps, before) })
			t.Run("MLKeeper", func(t *testing.T) {
				if len(want) == len(steps) {
					stepsOfOperator(t, chart, steps, before, want, random)
				}
			})
		})
	}
}

// stepsOfHelm installs and upgrades a chart with Helm's own command.
func stepsOfHelm(t *testing.T, command string, chart manifesttest.PublicChart, steps []manifesttest.ChartVersion, before string) []outcome {
	c := cluster.Start(t)
	prepare(t, c, before)
	file := filepath.Join(t.TempDir(), "given.yaml")
	if err := os.WriteFile(file, chart.Values, 0o600); err != nil {
		t.Fatal(err)
	}
	jobsOf, there := watchJobs(t, c, metav1.NamespaceAll), objectsOf(t, c, nil)
	var out []outcome
	for _, step := range steps {
		byHelm(t, c, command, space, step.Archive, "--values", file)
		// What controllers make of the objects follows.
		var objects map[string]map[string]any
		cluster.Eventually(t, patience, func() error {
			last := objects
			time.Sleep(2 * time.Second)
			if objects = objectsOf(t, c, there); cmp.Diff(last, objects) != "" {
				return errors.New("the objects of Helm are not settled")
			}
			return nil
		})
		out = append(out, outcome{objects: objects, jobs: jobsOf(metav1.NamespaceAll)})
	}
	return out
}

// stepsOfOperator has MLKeeper install and upgrade a chart, and compares what is there after each step.
func stepsOfOperator(
	t *testing.T, chart manifesttest.PublicChart, steps []manifesttest.ChartVersion, before string,
	want []outcome, random map[string][][]string,
) {
	c, server := cluster.Start(t), repositoryOf(t, chart)
	start(t, c, server.URL, harness.Options{})
	prepare(t, c, before)
	values, err := yaml.YAMLToJSON(chart.Values)
	if err != nil {
		t.Fatal(err)
	}
	if len(chart.Values) == 0 {
		values = []byte("{}")
	}
	jobsOf, there := watchJobs(t, c, metav1.NamespaceAll), objectsOf(t, c, nil)
	for i, step := range steps {
		name := fmt.Sprintf("step %d, version %s", i+1, step.Version)
		apply(t, c, space, fmt.Sprintf("{core: {crds: Create, chart: {repository: %q, name: %q, version: %q}, values: %s}}",
			server.URL, chart.Name, step.Version, values))
		cluster.Eventually(t, 6*time.Minute, func() error {
			giveAddresses(t, c)
			got := objectsOf(t, c, there)
			for key, places := range random {
				for _, place := range places {
					blank(got[key], place)
					blank(want[i].objects[key], place)
				}
			}
			difference := cmp.Diff(want[i].objects, got)
			if err := ready(get(t, c, space, "stack")); err != nil {
				return fmt.Errorf("%s: %w; the objects differ so (-helm +ours):\n%s", name, err, difference)
			}
			if difference != "" {
				return fmt.Errorf("%s: the objects differ (-helm +ours):\n%s", name, difference)
			}
			return nil
		})
		if got := jobsOf(metav1.NamespaceAll); !slices.Equal(got, want[i].jobs) {
			t.Errorf("%s: the Jobs were made in the order %q, and by Helm %q", name, got, want[i].jobs)
		}
		t.Logf("%s: %d objects, Jobs %q", name, len(want[i].objects), want[i].jobs)
	}
}

// prepare makes the namespace of the charts and what is there before.
func prepare(t *testing.T, c *cluster.Cluster, before string) {
	t.Helper()
	c.Kubectl(t, "create", "namespace", space)
	if _, err := os.Stat(before); err == nil {
		c.Apply(t, before, space)
	}
}

// repositoryOf serves the versions of a chart, and a small one in the place of Seldon Deploy, which every SeldonOperator has.
func repositoryOf(t *testing.T, chart manifesttest.PublicChart) *httptest.Server {
	t.Helper()
	small, err := manifesttest.Pack(fstest.MapFS{
		"Chart.yaml":       {Data: []byte("{apiVersion: v2, name: seldon-deploy, version: 2.0.0}\n")},
		"templates/a.yaml": {Data: []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: of-seldon-deploy}}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := []manifesttest.Chart{{Name: "seldon-deploy", Version: "2.0.0", Archive: small}}
	for _, version := range chart.Versions {
		raw, err := os.ReadFile(version.Archive)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, manifesttest.Chart{Name: chart.Name, Version: version.Version, Archive: raw})
	}
	server := httptest.NewServer(manifesttest.ChartRepository(all...))
	t.Cleanup(server.Close)
	return server
}

// giveAddresses plays the load balancer, without which such a Service is not ready.
func giveAddresses(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	list := &corev1.ServiceList{}
	if err := c.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		s := &list.Items[i]
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 {
			continue
		}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		if err := c.Client.Status().Update(t.Context(), s); err != nil {
			t.Logf("give Service %s an address: %v", s.Name, err)
		}
	}
}

// own are the objects that belong to neither side's charts: those of the namespace, of MLKeeper, and of the other component.
var own = []string{
	"ConfigMap/kube-root-ca.crt", "ServiceAccount/default", "Secret/stack-generated", "Secret/stack-revisions", "ConfigMap/of-seldon-deploy",
}

// objectsOf are the objects of a cluster but for those that were there before, those that controllers make and those of the two sides, as far
// as they are declared. Their keys are KIND/NAME of the namespace of the charts and of no namespace, else KIND/NAMESPACE/NAME.
func objectsOf(t *testing.T, c *cluster.Cluster, before map[string]map[string]any) map[string]map[string]any {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	// An aggregated API that does not answer is no object of a chart.
	lists, err := disco.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(passing, r.Name) || gv.Group == v1alpha1.GroupVersion.Group ||
				strings.HasSuffix(gv.Group, ".mlkeeper.dev") || strings.HasSuffix(gv.Group, "metrics.k8s.io") {
				continue
			}
			items, err := client.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("list %s: %v", r.Name, err)
			}
			for i := range items.Items {
				u := &items.Items[i]
				key := keyOf(u)
				if _, known := before[key]; !known && isDeclared(u, key) {
					out[key] = normalized(u)
				}
			}
		}
	}
	return out
}

// passing are the resources of which controllers make and remove objects.
var passing = []string{"events", "endpoints", "componentstatuses", "leases", "persistentvolumes", "nodes", "csinodes"}

func keyOf(u *unstructured.Unstructured) string {
	if ns := u.GetNamespace(); ns != "" && ns != space {
		return u.GetKind() + "/" + ns + "/" + u.GetName()
	}
	return u.GetKind() + "/" + u.GetName()
}

// isDeclared says that an object is one of a chart.
func isDeclared(u *unstructured.Unstructured, key string) bool {
	if u.GetDeletionTimestamp() != nil || slices.Contains(own, key) || u.GetLabels()["kube-aggregator.kubernetes.io/automanaged"] != "" {
		return false
	}
	if kind, _, _ := unstructured.NestedString(u.Object, "type"); kind == "helm.sh/release.v1" {
		return false
	}
	owner := metav1.GetControllerOf(u)
	return owner == nil || strings.Contains(owner.APIVersion, "mlkeeper.dev/")
}

// normalized is an object without what either side, the API server and controllers write into it.
func normalized(u *unstructured.Unstructured) map[string]any {
	labels := u.GetLabels()
	for _, path := range []string{
		"status", "metadata.uid", "metadata.resourceVersion", "metadata.generation", "metadata.creationTimestamp", "metadata.managedFields",
		"metadata.ownerReferences",
	} {
		unstructured.RemoveNestedField(u.Object, strings.Split(path, ".")...)
	}
	u.SetLabels(without(labels, "keeper.mlkeeper.dev/", "app.kubernetes.io/managed-by"))
	u.SetAnnotations(without(u.GetAnnotations(), "keeper.mlkeeper.dev/", "meta.helm.sh/", "deployment.kubernetes.io/revision",
		"deprecated.daemonset.template.generation", "pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/", "devcluster."))
	switch u.GetKind() {
	case "Service":
		for _, field := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
			if ip, _, _ := unstructured.NestedString(u.Object, "spec", "clusterIP"); ip != "None" {
				unstructured.RemoveNestedField(u.Object, "spec", field)
			}
		}
		ports, _, _ := unstructured.NestedSlice(u.Object, "spec", "ports")
		for _, port := range ports {
			delete(port.(map[string]any), "nodePort") //nolint:forcetypeassert // a port is a map
		}
		_ = unstructured.SetNestedSlice(u.Object, ports, "spec", "ports")
	case "PersistentVolumeClaim":
		unstructured.RemoveNestedField(u.Object, "spec", "volumeName")
	case "Job":
		unstructured.RemoveNestedField(u.Object, "spec", "selector")
		path := []string{"spec", "template", "metadata", "labels"}
		podLabels, _, _ := unstructured.NestedStringMap(u.Object, path...)
		_ = unstructured.SetNestedStringMap(u.Object, without(podLabels, "controller-uid", "job-name", "batch.kubernetes.io/"), path...)
	case "CustomResourceDefinition", "APIService", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		removeAll(u.Object, "caBundle") // Others write it.
	}
	return u.Object
}

// without are labels or annotations but for those that begin with something; nil where none are left.
func without(of map[string]string, prefixes ...string) map[string]string {
	of = maps.Clone(of)
	maps.DeleteFunc(of, func(key, _ string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	if len(of) == 0 {
		return nil
	}
	return of
}

// removeAll removes a field wherever it is.
func removeAll(value any, field string) {
	switch v := value.(type) {
	case map[string]any:
		delete(v, field)
		for _, inner := range v {
			removeAll(inner, field)
		}
	case []any:
		for _, inner := range v {
			removeAll(inner, field)
		}
	}
}

// randomPlaces are the paths of what Helm fills in anew each time, by object.
func randomPlaces(t *testing.T, command string, chart manifesttest.PublicChart) map[string][][]string {
	t.Helper()
	out := map[string][][]string{}
	for _, version := range chart.Versions {
		render := func() map[string]map[string]any {
			objects := map[string]map[string]any{}
			for _, u := range manifesttest.HelmTemplate(t, command, chart.Values, "seldon-core", version.Archive, "--namespace", space) {
				objects[keyOf(u)] = u.Object
			}
			return objects
		}
		one, other := render(), render()
		for key, object := range one {
			differ(nil, object, other[key], func(path []string) {
				if object["kind"] == "Secret" {
					path = []string{"data", path[len(path)-1]} // stringData, too
				}
				out[key] = append(out[key], path)
			})
		}
	}
	return out
}

// differ tells of the texts in which two values differ.
func differ(path []string, one, other any, tell func([]string)) {
	switch one := one.(type) {
	case map[string]any:
		second, _ := other.(map[string]any)
		for key, value := range one {
			differ(append(slices.Clone(path), key), value, second[key], tell)
		}
	case []any:
		second, _ := other.([]any)
		for i, value := range one {
			if i < len(second) {
				differ(append(slices.Clone(path), strconv.Itoa(i)), value, second[i], tell)
			}
		}
	default:
		if fmt.Sprint(one) != fmt.Sprint(other) {
			tell(path)
		}
	}
}

// blank empties the text at a path, where there is one.
func blank(object map[string]any, path []string) {
	var value any = object
	for i, step := range path {
		switch v := value.(type) {
		case map[string]any:
			if value = v[step]; value != nil && i == len(path)-1 {
				v[step] = ""
			}
		case []any:
			at, err := strconv.Atoi(step)
			if err != nil || at >= len(v) {
				return
			}
			value = v[at]
		}
	}
}

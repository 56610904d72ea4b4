package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../.."
	namespace = "mlkeeper-system"
)

// needed are the values without which the chart refuses to render.
const needed = "image: {repository: registry.example.com/mlkeeper, tag: v0.1.0}\n"

func TestTheGeneratedFilesAreCurrent(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(name); err != nil || string(got) != string(want) {
			t.Errorf("%s is not what make manifests writes: %v", name, err)
		}
	}
}

func TestTheChartInstallsWhatTheFoldersInstall(t *testing.T) {
	for _, one := range []struct {
		name, values string
		components   []string
	}{
		{name: "default", components: []string{"trustyai", "tfserving", "kubeflow", "seldon"}},
		{name: "TrustyAI", values: "controllers: {tfserving: false, kubeflow: false, seldon: false}", components: []string{"trustyai"}},
		{
			name: "Kubeflow and Seldon, trusted", values: "controllers: {trustyai: false, tfserving: false}\nrights: {trusted: true}",
			components: []string{"kubeflow", "seldon", "trusted"},
		},
		{
			name: "rights", values: "controllers: {trustyai: false, tfserving: false}\nrights: {manifests: true, everyNamespace: true}",
			components: []string{"kubeflow", "seldon", "manifests", "every-namespace"},
		},
		{name: "participant", values: "controllers: {trustyai: false, tfserving: false, kubeflow: false, seldon: false}\n" +
			"participant: {enabled: true, application: " + application(t) + "}", components: []string{"participant"}},
		{
			name: "production", values: "replicas: 2\npodDisruptionBudget: {enabled: true}\nnetworkPolicy: {enabled: true}\nconsole: {enabled: true}\n" +
				"monitoring: {podMonitor: {enabled: true}, alerts: {enabled: true}}",
			components: []string{"trustyai", "tfserving", "kubeflow", "seldon", "console", "disruption-budget", "network-policy", "monitoring"},
		},
	} {
		t.Run(one.name, func(t *testing.T) {
			rendered, err := render(t, needed+one.values, nil)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, byName(t, rendered), byName(t, overlay(t, one.components)))
		})
	}
}

// application is the participant's file as one line of JSON.
func application(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "config/components/participant/application.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	data, err = yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// overlay builds the operator with some components, as hack/overlay.sh says it to kustomize.
func overlay(t *testing.T, components []string) []map[string]any {
	t.Helper()
	objects := with(t, components)
	var out []map[string]any
	for _, object := range objects {
		u := unstructured.Unstructured{Object: object}
		switch {
		case u.GetKind() == "Namespace":
			// helm install --create-namespace makes it.
			continue
		case u.GetKind() == "ConfigMap":
			// Its name ends with a digest, and a label tells the namesakes apart; the chart has an annotation of the pods in their place.
			u.SetName("mlkeeper-participant")
			unstructured.RemoveNestedField(object, "metadata", "labels", "keeper.mlkeeper.dev/generated")
			if len(u.GetLabels()) == 0 {
				unstructured.RemoveNestedField(object, "metadata", "labels")
			}
		case u.GetKind() == "Deployment":
			containers := at(object, "spec", "template", "spec", "containers").([]any)
			containers[0].(map[string]any)["image"] = "registry.example.com/mlkeeper:v0.1.0"
			for _, volume := range at(object, "spec", "template", "spec", "volumes").([]any) {
				if volume.(map[string]any)["name"] == "participant" {
					volume.(map[string]any)["configMap"].(map[string]any)["name"] = "mlkeeper-participant"
				}
			}
		}
		out = append(out, object)
	}
	return out
}

// byName returns objects by kind and name, without what the chart has by intention.
func byName(t *testing.T, objects []map[string]any) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, object := range objects {
		u := unstructured.Unstructured{Object: object}
		annotations := u.GetAnnotations()
		if annotations["helm.sh/hook"] != "" {
			continue
		}
		delete(annotations, "helm.sh/resource-policy")
		if len(annotations) == 0 {
			annotations = nil
		}
		u.SetAnnotations(annotations)
		switch u.GetKind() {
		case "Deployment":
			template := at(object, "spec", "template").(map[string]any)
			if annotations, ok := at(template, "metadata", "annotations").(map[string]any); ok {
				delete(annotations, "keeper.mlkeeper.dev/participant-config")
			}
			delete(at(template, "spec", "containers").([]any)[0].(map[string]any), "imagePullPolicy")
		case "ConfigMap":
			data := at(object, "data").(map[string]any)
			var content any
			if err := yaml.Unmarshal([]byte(data["application.yaml"].(string)), &content); err != nil {
				t.Fatal(err)
			}
			data["application.yaml"] = content
		}
		key := u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
		if out[key] != nil {
			t.Errorf("there are two of %s", key)
		}
		out[key] = object
	}
	return out
}

func compare(t *testing.T, got, want map[string]map[string]any) {
	t.Helper()
	for key, object := range want {
		if !reflect.DeepEqual(normal(t, got[key]), normal(t, object)) {
			t.Errorf("%s:\nchart     %s\nkustomize %s", key, text(t, got[key]), text(t, object))
		}
	}
	for key := range got {
		if want[key] == nil {
			t.Errorf("the chart alone has %s", key)
		}
	}
}

func TestTheValuesAndTheirSchemaAgree(t *testing.T) {
	c := load(t)
	var top schema
	if err := json.Unmarshal(c.Schema, &top); err != nil {
		t.Fatal(err)
	}
	var templates strings.Builder
	for _, file := range c.Templates {
		templates.Write(file.Data)
	}
	seen := 0
	var check func(path string, s *schema, value any)
	check = func(path string, s *schema, value any) {
		if len(s.Properties) > 0 {
			values, _ := value.(map[string]any)
			for name := range values {
				if s.Properties[name] == nil {
					t.Errorf("values.yaml has %s.%s, which the schema does not have", path, name)
				}
			}
			for name, one := range s.Properties {
				if path+name != "global" {
					check(path+name+".", one, values[name])
				}
			}
			return
		}
		seen++
		path = strings.TrimSuffix(path, ".")
		var standard any
		if err := json.Unmarshal(s.Default, &standard); err != nil {
			t.Errorf("%s has no default in the schema: %v", path, err)
		}
		if text(t, standard) != text(t, value) {
			t.Errorf("%s is %s in values.yaml and %s in the schema", path, text(t, value), text(t, standard))
		}
		if s.Description == "" {
			t.Errorf("%s has no description", path)
		}
		parent := path[:max(0, strings.LastIndex(path, "."))]
		used := strings.Contains(templates.String(), ".Values."+path) || strings.Contains(templates.String(), "$image."+strings.TrimPrefix(path, "image.")) ||
			strings.Contains(templates.String(), strconv.Quote(path)) || parent == "controllers" && strings.Contains(templates.String(), "$.Values."+parent)
		if !used {
			t.Errorf("no template reads %s", path)
		}
	}
	check("", &top, map[string]any(c.Values))
	if seen < 40 {
		t.Errorf("only %d values were compared", seen)
	}
}

func TestEveryValueIsCarriedOut(t *testing.T) {
	objects, err := render(t, `
image: {repository: "registry:5000/r", tag: t, digest: "sha256:`+strings.Repeat("a", 64)+`", pullPolicy: Always}
imagePullSecrets: [{name: pull}]
replicas: 3
shards: 2
namespaces: [team-a, team-b]
extraArgs: [--source-map=https://github.com/=https://mirror.example.com/]
env: [{name: HTTPS_PROXY, value: "http://proxy:3128"}]
envFrom: [{secretRef: {name: broker}}]
extraCA: {configMap: authorities}
participant: {enabled: true, existingConfigMap: mine}
runAsUser: null
priorityClassName: system-cluster-critical
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
podLabels: {app.kubernetes.io/name: other, team: ml}
monitoring: {labels: {release: prometheus}, podMonitor: {enabled: true}, alerts: {enabled: true}, dashboard: {enabled: true}}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := byKind(objects)
	spec := at(all["Deployment"][0], "spec", "template", "spec").(map[string]any)
	container := spec["containers"].([]any)[0].(map[string]any)
	for what, ok := range map[string]bool{
		"image":         container["image"] == "registry:5000/r:t@sha256:"+strings.Repeat("a", 64) && container["imagePullPolicy"] == "Always",
		"pull secret":   text(t, spec["imagePullSecrets"]) == `[{"name":"pull"}]`,
		"args":          hasAll(container["args"], "--shards=2", "--namespaces=team-a,team-b", "--source-map=https://github.com/=https://mirror.example.com/"),
		"env":           strings.Contains(text(t, container["env"]), "HTTPS_PROXY") && strings.Contains(text(t, container["env"]), "SSL_CERT_DIR"),
		"envFrom":       strings.Contains(text(t, container["envFrom"]), "broker"),
		"volumes":       strings.Contains(text(t, spec["volumes"]), "authorities") && strings.Contains(text(t, spec["volumes"]), "mine"),
		"user":          at(container, "securityContext").(map[string]any)["runAsUser"] == nil,
		"priority":      spec["priorityClassName"] == "system-cluster-critical",
		"spread":        spec["topologySpreadConstraints"] != nil,
		"labels":        at(all["Deployment"][0], "spec", "template", "metadata", "labels").(map[string]any)["app.kubernetes.io/name"] == "mlkeeper",
		"monitoring":    at(all["PodMonitor"][0], "metadata", "labels").(map[string]any)["release"] == "prometheus",
		"alerts":        at(all["PrometheusRule"][0], "metadata", "labels").(map[string]any)["release"] == "prometheus",
		"dashboard":     json.Valid([]byte(at(all["ConfigMap"][0], "data").(map[string]any)["mlkeeper.json"].(string))),
		"no own config": len(all["ConfigMap"]) == 1,
	} {
		if !ok {
			t.Errorf("%s: %s", what, text(t, spec))
		}
	}
}

func TestDefinitionsStayUnlessAskedOtherwise(t *testing.T) {
	for values, want := range map[string]string{"": "keep", "crds: {keep: false}": ""} {
		objects, err := render(t, needed+values, nil)
		if err != nil {
			t.Fatal(err)
		}
		definitions := byKind(objects)["CustomResourceDefinition"]
		if len(definitions) != 5 {
			t.Fatalf("%d definitions", len(definitions))
		}
		for _, object := range definitions {
			u := unstructured.Unstructured{Object: object}
			if got := u.GetAnnotations()["helm.sh/resource-policy"]; got != want {
				t.Errorf("%s with %q: policy %q", u.GetName(), values, got)
			}
		}
		// The proxies of Secured services, which stay with their definition, are bound to one ClusterRole.
		for _, object := range byKind(objects)["ClusterRole"] {
			u := unstructured.Unstructured{Object: object}
			if policy := u.GetAnnotations()["helm.sh/resource-policy"]; (policy == want) != (u.GetName() == "mlkeeper-trustyai-proxy" || want == "") {
				t.Errorf("%s with %q: policy %q", u.GetName(), values, policy)
			}
		}
	}
}

// TestEveryRowOfTheValuesIsWhole: a row of the page has four cells, in one line.
func TestEveryRowOfTheValuesIsWhole(t *testing.T) {
	page, err := readme(filepath.Join(root, folder))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "|---|---|---|---|\n")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	if len(rows) < 40 {
		t.Errorf("there are %d rows", len(rows))
	}
	for _, row := range rows {
		if cells := strings.Split(row, " | "); len(cells) != 4 || !strings.HasPrefix(row, "| `") || !strings.HasSuffix(row, " |") {
			t.Errorf("%q has %d cells", row, len(cells))
		}
	}
}

// TestLint lints the chart as helm lint --strict does, with everything off that can be and with everything on.
func TestLint(t *testing.T) {
	for name, values := range map[string]string{
		"little": needed + "crds: {enabled: false}\ncontrollers: {tfserving: false, kubeflow: false, seldon: false}",
		"much": needed + "replicas: 2\nparticipant: {enabled: true, existingConfigMap: a}\nrights: {manifests: true, everyNamespace: true, trusted: true}\n" +
			"podDisruptionBudget: {enabled: true}\nnetworkPolicy: {enabled: true}\n" +
			"monitoring: {podMonitor: {enabled: true}, alerts: {enabled: true}, dashboard: {enabled: true}}",
	} {
		linted := lint.RunAll(filepath.Join(root, folder), parse(t, values), namespace, lint.WithKubeVersion(&capabilities(t).KubeVersion))
		for _, message := range linted.Messages {
			if message.Severity >= support.WarningSev {
				t.Errorf("%s: %v", name, message)
			}
		}
	}
}

// TestTheReleaseFitsIntoItsSecret holds what Helm stores of a release, whose Secret may have 1 MiB.
func TestTheReleaseFitsIntoItsSecret(t *testing.T) {
	size := 0
	for _, file := range load(t).Raw {
		size += len(file.Data)
	}
	// Helm stores the chart and the rendered manifest, compressed; the descriptions of definitions compress to an eighth at least.
	if stored := 2 * size / 8 * 4 / 3; stored > 700<<10 {
		t.Errorf("a release takes about %d KiB", stored>>10)
	}
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(filepath.Join(root, folder))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func capabilities(t *testing.T) *common.Capabilities {
	t.Helper()
	out := common.DefaultCapabilities.Copy()
	version, err := common.ParseKubeVersion("v1.34.0")
	if err != nil {
		t.Fatal(err)
	}
	out.KubeVersion = *version
	return out
}

// exponent is how the template engine prints a large number of a values file.
var exponent = regexp.MustCompile(`(?m): [0-9.]+e\+[0-9]+$`)

// render renders the chart as helm install does, in a cluster with one object or none.
func render(t *testing.T, values string, there *unstructured.Unstructured) ([]map[string]any, error) {
	t.Helper()
	c := load(t)
	release := common.ReleaseOptions{Name: "release", Namespace: namespace, IsInstall: true, Revision: 1}
	all, err := util.ToRenderValues(c, parse(t, values), release, capabilities(t))
	if err != nil {
		return nil, err
	}
	files, err := engine.RenderWithClientProvider(c, all, newCluster(there))
	if err != nil {
		return nil, err
	}
	var out []map[string]any
	for name, content := range files {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		if number := exponent.FindString(content); number != "" {
			return nil, fmt.Errorf("%s has the number%s, which the API server does not take for an integer", name, number)
		}
		for document := range strings.SplitSeq("\n"+content, "\n---\n") {
			object := map[string]any{}
			if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if len(object) > 0 {
				out = append(out, object)
			}
		}
	}
	return out, nil
}

// clusterWith answers the chart's lookups.
type clusterWith struct{ client dynamic.Interface }

func newCluster(object *unstructured.Unstructured) clusterWith {
	var objects []runtime.Object
	if object != nil {
		objects = append(objects, object)
	}
	return clusterWith{client: fake.NewSimpleDynamicClient(runtime.NewScheme(), objects...)}
}

func (c clusterWith) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	gv, err := apischema.ParseGroupVersion(apiVersion)
	return c.client.Resource(gv.WithResource(strings.ToLower(kind) + "s")), false, err
}

// definition is a CustomResourceDefinition with a strategy of conversion.
func definition(name string, strategy apiextensionsv1.ConversionStrategyType) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"conversion": map[string]any{"strategy": string(strategy)}},
	}}
}

func merged(t *testing.T, base, values string) string {
	t.Helper()
	return text(t, util.MergeTables(parse(t, values), parse(t, base)))
}

func parse(t *testing.T, values string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// at returns a field of an object.
func at(object any, path ...string) any {
	for _, name := range path {
		fields, _ := object.(map[string]any)
		object = fields[name]
	}
	return object
}

func byKind(objects []map[string]any) map[string][]map[string]any {
	out := map[string][]map[string]any{}
	for _, object := range objects {
		out[object["kind"].(string)] = append(out[object["kind"].(string)], object)
	}
	return out
}

func hasAll(list any, wanted ...string) bool {
	all, _ := list.([]any)
	return !slices.ContainsFunc(wanted, func(one string) bool { return !slices.Contains(all, any(one)) })
}

// normal returns an object as JSON has it, in which numbers have one type.
func normal(t *testing.T, object any) any {
	t.Helper()
	var out any
	if err := json.Unmarshal([]byte(text(t, object)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

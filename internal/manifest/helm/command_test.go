package helm

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"mlkeeper.dev/internal/manifest/manifesttest"
)

// everything has every certificate.
type everything struct{ memory }

func (everything) Certificate(Certificate) (Pair, bool) {
	return Pair{Cert: "a certificate", Key: "a key"}, true
}

// comparison is a chart with values. random are the places that Helm's command fills in anew each time, by object.
type comparison struct {
	files  string
	folder string
	values map[string]any
	random map[string][]string
	// upgrade renders an upgrade.
	upgrade bool
}

// webhookRandom are the certificates of seldon-core-operator.
var webhookRandom = map[string][]string{
	"Secret/seldon-webhook-server-cert":                                         {".data.ca.crt", ".data.tls.crt", ".data.tls.key"},
	"ValidatingWebhookConfiguration/seldon-validating-webhook-configuration-ns": {".webhooks.0.clientConfig.caBundle"},
}

// TestLikeHelmsCommand renders charts a second time with Helm's own command and compares object by object: those of crds/, hooks,
// and all others. What is meant to differ is undone or left out: MLKeeper says that it keeps the objects, leaves out a status,
// takes Lists apart, has no tests and no hooks of a deletion, and TestValues shows that it prints a million as 1000000, where Helm
// prints 1e+06. What Helm makes at random is compared by its place alone.
func TestLikeHelmsCommand(t *testing.T) {
	command := manifesttest.HelmCommand(t)
	for name, c := range map[string]comparison{
		"seldon-core-operator": {folder: "seldon-core-operator", random: webhookRandom},
		"seldon-core-operator with values": {folder: "seldon-core-operator", random: webhookRandom, values: map[string]any{
			"istio": map[string]any{"enabled": true, "gateway": "ns/other"}, "crd": map[string]any{"create": false},
		}},
		"seldon-deploy":         {folder: "seldon-deploy"},
		"seldon-core-analytics": {folder: "seldon-core-analytics"},
		"opensearch":            {folder: "opensearch"},
		"opensearch with values": {folder: "opensearch", values: map[string]any{
			"replicas": int64(1), "extraEnvs": []any{map[string]any{"name": "A", "value": "b"}},
		}},
		"postgresql": {folder: "postgresql", random: map[string][]string{"Secret/release-postgresql": {".data.postgres-password"}}},
		"parts":      {files: parts},
		"parts with values": {files: parts, values: map[string]any{
			"sub": map[string]any{"enabled": false}, "gone": nil, "table": map[string]any{"a": nil, "c": int64(3)}, "number": int64(100000),
			"global": map[string]any{"shared": "over"},
		}},
		"hooks":            {files: hooks},
		"hooks of upgrade": {files: hooks, upgrade: true},
		"random": {files: random, random: map[string][]string{
			"ConfigMap/random": {".data.alpha", ".data.ascii", ".data.bytes", ".data.int", ".data.key", ".data.numeric", ".data.uuid"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := standIns + c.folder
			if c.folder == "" {
				path = writeChart(t, c.files)
			}
			in := input(folder(t, path), c.values)
			in.Upgrade = c.upgrade
			places := likeHelm(t, command, path, in)
			if diff := cmp.Diff(c.random, places); len(c.random)+len(places) > 0 && diff != "" {
				t.Errorf("what Helm fills in anew is another (-listed +found):\n%s", diff)
			}
		})
	}
}

// likeHelm compares what becomes of a chart with what Helm's command makes of it, and returns the places that the latter fills in anew each
// time, by object.
func likeHelm(t *testing.T, command, path string, in Input) map[string][]string {
	t.Helper()
	in.Generated = everything{memory{seed: "seed"}}
	// Without a cluster the command knows the APIs that Helm was built with.
	in.Cluster.Serves = common.DefaultCapabilities.APIVersions.Has
	in.Cluster.All = func() []string { return common.DefaultCapabilities.APIVersions }
	ours, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	want, again := helmTemplate(t, command, path, in), helmTemplate(t, command, path, in)
	got := map[string]map[string]any{}
	for _, o := range slices.Concat(ours.Definitions, ours.Before, ours.Objects, ours.After) {
		got[keyOf(o)] = o.Object
	}
	places := map[string][]string{}
	for key, object := range want {
		removeDifferences(key, "", object, again[key], got[key], places)
	}
	for _, list := range places {
		slices.Sort(list)
	}
	if names := slices.Sorted(maps.Keys(want)); !slices.Equal(names, slices.Sorted(maps.Keys(got))) || len(want) == 0 {
		t.Errorf("Helm's command renders %v, and MLKeeper %v", names, slices.Sorted(maps.Keys(got)))
	}
	for key, object := range want {
		if diff := cmp.Diff(object, got[key]); diff != "" {
			t.Errorf("%s differs from Helm's (-helm +ours):\n%s", key, diff)
		}
	}
	return places
}

// keyOf tells the objects of a chart apart.
func keyOf(u *unstructured.Unstructured) string {
	return strings.Join(slices.DeleteFunc([]string{u.GetKind(), u.GetNamespace(), u.GetName()}, func(s string) bool { return s == "" }), "/")
}

// helmTemplate renders a chart with Helm's command, without what is meant to differ.
func helmTemplate(t *testing.T, command, path string, in Input) map[string]map[string]any {
	t.Helper()
	values, err := yaml.Marshal(in.Values)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{in.Release, path, "--namespace", in.Namespace, "--include-crds", "--kube-version", in.Cluster.Version}
	if in.Upgrade {
		args = append(args, "--is-upgrade")
	}
	objects := map[string]map[string]any{}
	for _, one := range manifesttest.HelmTemplate(t, command, values, args...) {
		_, isHook := one.GetAnnotations()[hookAnnotation]
		if isHook && !Runs(one, false) && !Runs(one, true) && !slices.Contains(events(one, hookAnnotation), "crd-install") {
			continue
		}
		unstructured.RemoveNestedField(one.Object, "status")
		if labels := one.GetLabels(); labels[managedBy] == "Helm" {
			labels[managedBy] = "mlkeeper"
			one.SetLabels(labels)
		}
		objects[keyOf(one)] = decoded(t, one.Object)
	}
	return objects
}

// decoded is an object as JSON has it, in which every number is of one type.
func decoded(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u.Object
}

// removeDifferences takes the values out of three renderings in which those of Helm differ, and notes the places. Ours must have a value there.
func removeDifferences(object, path string, one, other, ours any, places map[string][]string) {
	switch o := one.(type) {
	case map[string]any:
		second, _ := other.(map[string]any)
		third, _ := ours.(map[string]any)
		for key, value := range o {
			if text, isText := value.(string); isText && second[key] != nil && second[key] != text {
				places[object] = append(places[object], path+"."+key)
				if mine, _ := third[key].(string); mine != "" {
					o[key], third[key] = "", ""
				}
				continue
			}
			removeDifferences(object, path+"."+key, value, second[key], third[key], places)
		}
	case []any:
		second, _ := other.([]any)
		third, _ := ours.([]any)
		for i := range o {
			if i < len(second) && i < len(third) {
				removeDifferences(object, fmt.Sprint(path, ".", i), o[i], second[i], third[i], places)
			}
		}
	}
}

// writeChart writes a chart of files in one text, and returns its folder.
func writeChart(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range strings.Split(text, "-- ")[1:] {
		name, content, _ := strings.Cut(part, " --\n")
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// parts is a chart with what charts are made of: a chart within it, helpers, files, definitions, Lists, values in tables.
const parts = `-- Chart.yaml --
apiVersion: v2
name: parts
version: 1.2.3
appVersion: "4.5"
dependencies:
- {name: sub, version: 0.1.0, condition: sub.enabled, tags: [extras], import-values: [{child: exported, parent: imported}]}
-- values.yaml --
gone: default
number: 7
float: 1.5
table: {a: 1, b: two}
list: [x, y]
global: {shared: all}
imported: {}
sub: {enabled: true, word: from-parent}
text: '{{ .Release.Name }}-{{ .Values.number }}'
-- charts/sub/Chart.yaml --
apiVersion: v2
name: sub
version: 0.1.0
-- charts/sub/values.yaml --
word: own
global: {shared: ignored}
exported: {value: taken}
-- charts/sub/templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-sub}
data: {word: {{ .Values.word }}, shared: {{ .Values.global.shared }}, chart: {{ .Chart.Name }}-{{ .Chart.Version }}, template: {{ .Template.BasePath }}}
-- crds/a.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.test}
spec: {group: example.test, scope: Namespaced, names: {kind: Thing, plural: things}, versions: [{name: v1, schema: {openAPIV3Schema: {maximum: 9223372036854775000}}}]}
-- files/one.txt --
first
second
-- templates/_helpers.tpl --
{{- define "parts.labels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
-- templates/NOTES.txt --
Installed {{ .Release.Name }}.
-- templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata:
  name: values
  labels: {{- include "parts.labels" . | nindent 4 }}
data:
  table: {{ toJson .Values.table | quote }}
  gone: {{ .Values.gone | default "nothing" | quote }}
  number: {{ .Values.number | quote }}
  float: {{ .Values.float | quote }}
  list: {{ join "," .Values.list | quote }}
  shared: {{ .Values.global.shared }}
  imported: {{ .Values.imported.value | default "none" }}
  text: {{ tpl .Values.text . }}
  namespace: {{ .Release.Namespace }}
  revision: {{ .Release.Revision | quote }}
  install: {{ .Release.IsInstall | quote }}
  upgrade: {{ .Release.IsUpgrade | quote }}
  version: {{ .Capabilities.KubeVersion.Version }}
  major: {{ .Capabilities.KubeVersion.Major | quote }}
  minor: {{ .Capabilities.KubeVersion.Minor | quote }}
  semver: {{ semverCompare ">=1.22-0" .Capabilities.KubeVersion.Version | quote }}
  apps: {{ .Capabilities.APIVersions.Has "apps/v1" | quote }}
  deployment: {{ .Capabilities.APIVersions.Has "apps/v1/Deployment" | quote }}
  list: {{ has "apps/v1" .Capabilities.APIVersions | quote }}
  policy: {{ .Capabilities.APIVersions.Has "policy/v1beta1" | quote }}
  lookup: {{ lookup "v1" "Secret" "a" "b" | toJson | quote }}
  sum: {{ .Values.text | sha256sum }}
  file: {{ .Files.Get "files/one.txt" | b64enc }}
  lines: {{ len (.Files.Lines "files/one.txt") | quote }}
  name: {{ .Template.Name }}
{{ (.Files.Glob "files/*").AsConfig | indent 2 }}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: listed, labels: {app.kubernetes.io/managed-by: Helm}}}
- {apiVersion: v1, kind: Secret, metadata: {name: listed}, stringData: {a: b}}
---
# Nothing but a comment.
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: numbers, namespace: elsewhere}
spec:
  replicas: {{ .Values.number }}
  progressDeadlineSeconds: 9007199254740993
  selector: {matchLabels: {app.kubernetes.io/managed-by: Helm}}
  template:
    metadata: {labels: {app.kubernetes.io/managed-by: Helm}}
    spec: {containers: [{name: c, image: c, resources: {limits: {cpu: {{ .Values.float }}, memory: 1e3}}}]}
status: {replicas: 1}
`

// hooks is a chart of hooks.
const hooks = `-- Chart.yaml --
{apiVersion: v2, name: hooks, version: 1.0.0}
-- templates/a.yaml --
{apiVersion: batch/v1, kind: Job, metadata: {name: before, annotations: {helm.sh/hook: 'pre-install,pre-upgrade', helm.sh/hook-weight: "-5"}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: after, annotations: {helm.sh/hook: post-install, helm.sh/hook-delete-policy: hook-succeeded}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: migrate, annotations: {helm.sh/hook: pre-upgrade}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: release}, data: {upgrade: "{{ .Release.IsUpgrade }} {{ .Release.IsInstall }} {{ .Release.Revision }}"}}
---
{apiVersion: v1, kind: Pod, metadata: {name: check, annotations: {helm.sh/hook: test}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: gone, annotations: {helm.sh/hook: post-delete}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}}
`

// random is a chart of what Helm makes at random.
const random = `-- Chart.yaml --
{apiVersion: v2, name: random, version: 1.0.0}
-- templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: random}
data:
  alpha: {{ randAlphaNum 24 }}
  numeric: n{{ randNumeric 24 }}
  ascii: {{ randAscii 24 | b64enc | quote }}
  bytes: {{ randBytes 24 | quote }}
  int: {{ randInt 1 9000000000000 | quote }}
  uuid: {{ uuidv4 }}
  key: {{ genPrivateKey "ecdsa" | quote }}
  plain: {{ repeat 3 "ab" }} {{ seq 3 }} {{ until 3 | toJson }} {{ untilStep 4 0 -2 | toJson }}
`

package helm

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/manifest/bounded"
	"mlkeeper.dev/internal/manifest/manifesttest"
)

// TestTheSameInputsGiveTheSameObjects renders what Helm makes another each time.
func TestTheSameInputsGiveTheSameObjects(t *testing.T) {
	in := input(folder(t, standIns+"seldon-core-operator"), nil)
	in.Generated = memory{has: map[string]Pair{"Leaf seldon-webhook-service": {Cert: "a certificate", Key: "a key"}}}
	first, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Render(t.Context(), in)
	if err != nil || !reflect.DeepEqual(first, again) {
		t.Errorf("a second rendering differs: %v", err)
	}
	if len(first.Objects) != 11 || len(first.Used) != 3 || len(first.Wanted) > 0 {
		t.Errorf("%d objects: %s; used %v", len(first.Objects), names(first.Objects), first.Used)
	}
	in.Generated = memory{}
	if missing, err := Render(t.Context(), in); err != nil || len(missing.Wanted) != 1 || missing.Wanted[0].CommonName != "seldon-webhook-service" || len(missing.Objects) > 0 {
		t.Errorf("%+v, %v", missing, err)
	}
	for _, expression := range []string{
		"randAlphaNum 12", "randAlpha 5", "randNumeric 4", "randAscii 9", "randBytes 16", "randInt 3 900", "uuidv4", "shuffle \"abcdefgh\"",
		"now | date \"2006-01-02T15:04:05\"", "ago now", "printf \"%s %s\" (randAlpha 4) (randAlpha 4)",
	} {
		one, err := renderExpression(t, expression)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		if two, _ := renderExpression(t, expression); one != two || one == "" {
			t.Errorf("%s is %q and %q", expression, one, two)
		}
	}
	if two, _ := renderExpression(t, `printf "%s %s" (randAlpha 8) (randAlpha 8)`); len(two) != 17 || two[:8] == two[9:] {
		t.Errorf("two calls give %q", two)
	}
}

func TestWhatTemplatesAreTold(t *testing.T) {
	for expression, want := range map[string]string{
		".Capabilities.KubeVersion.Version":                          "v1.36.2",
		".Capabilities.KubeVersion.GitVersion":                       "v1.36.2",
		".Capabilities.KubeVersion":                                  "v1.36.2",
		".Capabilities.KubeVersion.Minor":                            "36",
		`.Capabilities.APIVersions.Has "apps/v1"`:                    "true",
		`.Capabilities.APIVersions.Has "policy/v1beta1"`:             "false",
		`has "apps/v1" .Capabilities.APIVersions`:                    "true",
		`has "policy/v1beta1" .Capabilities.APIVersions`:             "false",
		`.Capabilities.APIVersions | join ","`:                       "apps/v1,apps/v1/Deployment,v1",
		`.Capabilities.APIVersions | toString | contains "apps/v1"`:  "true",
		`(.Capabilities).APIVersions | len`:                          "3",
		`semverCompare ">=1.22-0" .Capabilities.KubeVersion.Version`: "true",
		".Release.Name":                         "release",
		".Release.Namespace":                    "ns",
		".Release.IsInstall":                    "true",
		".Chart.Name":                           "small",
		`getHostByName "localhost"`:             "",
		`lookup "v1" "Secret" "a" "b" | toJson`: "{}",
		`(genCA "any" 1).Cert`:                  "the authority",
		"seq 3":                                 "1 2 3",
		"seq 3 1":                               "3 2 1",
		"seq 0 2 4":                             "0 2 4",
		"until 3 | toJson":                      "[0,1,2]",
		"untilStep 4 0 -2 | toJson":             "[4,2]",
		`repeat 3 "ab"`:                         "ababab",
	} {
		if got, err := renderExpression(t, expression); err != nil || got != want {
			t.Errorf("%s is %q, not %q: %v", expression, got, want, err)
		}
	}
	for _, version := range []string{"v0.0.0-master+$Format:%H$", "", "v0.0.0"} {
		in := input(chartOf(t, chartOfExpression(".Capabilities.KubeVersion.Version")), nil)
		in.Cluster.Version = version
		out, err := Render(t.Context(), in)
		if err != nil || !strings.Contains(fmt.Sprint(out.Objects[0].Object), "v1.36.0") {
			t.Errorf("version %q: %v, %v", version, out.Objects, err)
		}
	}
	out, err := Render(t.Context(), input(chartOf(t, chartOfExpression(`.Capabilities.APIVersions.Has "batch/v1"`)), nil))
	if err != nil || !reflect.DeepEqual(out.Asked, map[string]bool{"batch/v1": false}) {
		t.Errorf("asked %v, %v", out.Asked, err)
	}
}

// TestRefused holds what a chart may not do, and what it is encoded.
func TestRefused(t *testing.T) {
	for expression, want := range map[string]string{
		`repeat 999999999 "x"`:     "more than the 100000",
		`repeat 99999 "xxxxxxxx"`:  "more than the 100000",
		"until 999999999 | toJson": "more than the 100000",
		"seq 1 999999999":          "more than the 100000",
		"randAlphaNum 999999999":   "more than the 100000",
		`htpasswd "a" "b"`:         "gives another text each time",
		`bcrypt "b"`:               "gives another text each time",
		`env "HOME"`:               "not defined",
		`genPrivateKey "dsa"`:      "use rsa, ecdsa or ed25519",
		`(genSignedCert "a" nil nil 1 (buildCustomCert "YQ==" "YQ==")).Cert`: "",
		`(genSelfSignedCert "a" nil (list "bücher.example") 1).Cert`:         "has characters beyond ASCII",
		`include "nothing" .`:         "nothing",
		`required "give x" .Values.x`: "give x",
		`fail "no"`:                   "no",
		`index .Values "a" "b" "c"`:   "",
	} {
		if got, err := renderExpression(t, expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %q, %v; want an error with %q", expression, got, err, want)
		}
	}
	for name, c := range map[string]struct{ files, want string }{
		"no YAML": {"-- templates/a.yaml --\na: [", "renders no YAML"},
		"no kind": {"-- templates/a.yaml --\na: b\n", "without apiVersion, kind or name"},
		"no name": {"-- templates/a.yaml --\napiVersion: v1\nkind: ConfigMap\n", "without apiVersion, kind or name"},
		// The values are spread over many documents: one document of so many values would meet the bound on memory first.
		"many values":   {"-- templates/a.yaml --\n{{ range until 1050 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a{{ . }}}\ndata: [{{ range until 1000 }}[],{{ end }}]\n{{ end }}", "more than 1048576 values"},
		"many objects":  {"-- templates/a.yaml --\n{{ range until 3000 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a{{ . }}}\n{{ end }}", "more than 2000 objects"},
		"much output":   {"-- templates/a.yaml --\n{{ range until 500 }}\n# {{ repeat 90000 \"x\" }}\n{{ end }}", "more than 33554432 bytes"},
		"schema":        {"-- values.schema.json --\n{\"properties\": {\"x\": {\"type\": \"string\"}}}\n-- values.yaml --\nx: 1\n", "small: "},
		"schema file":   {"-- values.schema.json --\n{\"$ref\": \"file:///etc/passwd\"}\n", "which is not read"},
		"schema server": {"-- values.schema.json --\n{\"$ref\": \"http://169.254.169.254/\"}\n", "which is not read"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(t.Context(), input(chartOf(t, c.files), nil))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// TestChartsThatHelmRefuses: those for other versions of Kubernetes, and those without a chart that they depend on, whatever a condition
// says of it: Helm looks at both before it knows which dependencies are on.
func TestChartsThatHelmRefuses(t *testing.T) {
	const sub = "-- charts/sub/Chart.yaml --\napiVersion: v2\nname: sub\nversion: 1.0.0\n"
	for name, c := range map[string]struct{ metadata, files, want string }{
		"an older Kubernetes": {"kubeVersion: <1.20", "", "chart requires kubeVersion: <1.20 which is incompatible with Kubernetes v1.36.2"},
		"a newer Kubernetes":  {"kubeVersion: '>=1.37.0-0'", "", "chart requires kubeVersion: >=1.37.0-0 which is incompatible with Kubernetes v1.36.2"},
		"no constraint":       {"kubeVersion: recent", "", "chart requires kubeVersion: recent which is incompatible with Kubernetes v1.36.2"},
		"this Kubernetes":     {"kubeVersion: '>=1.20.0-0 <1.37'", "", ""},
		"of a subchart":       {"dependencies: [{name: sub, version: 1.0.0}]", sub + "kubeVersion: <1.20\n", ""},
		"packed alone": {
			"dependencies: [{name: sub, version: 1.0.0}, {name: other, version: 1.0.0}]", sub,
			"You may need to run 'helm dependency build' to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: other",
		},
		"switched off":     {"dependencies: [{name: sub, version: 1.0.0, condition: sub.enabled, tags: [off]}]", "", "missing in charts/ directory: sub"},
		"under an alias":   {"dependencies: [{name: sub, alias: other, version: 1.0.0}]", sub, ""},
		"of requirements":  {"", "-- requirements.yaml --\ndependencies: [{name: sub, version: 1.0.0}]\n", "missing in charts/ directory: sub"},
		"and not declared": {"", sub, ""},
	} {
		api := "v2"
		if strings.Contains(c.files, "requirements.yaml") {
			api = "v1"
		}
		chart := chartOf(t, "-- Chart.yaml --\napiVersion: "+api+"\nname: small\nversion: 1.2.3\n"+c.metadata+"\n"+c.files)
		_, err := Render(t.Context(), input(chart, map[string]any{"sub": map[string]any{"enabled": false}, "tags": map[string]any{"off": false}}))
		var unfit *UnfitError
		if errors.As(err, &unfit) != (c.want != "") || err != nil && (!strings.Contains(unfit.Why, c.want) || unfit.Remedy == "") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

func TestHooks(t *testing.T) {
	hook := func(name, events, weight string) string {
		return fmt.Sprintf("---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: %s, annotations: {helm.sh/hook: '%s', helm.sh/hook-weight: '%s'}}\n", name, events, weight)
	}
	out, err := Render(t.Context(), input(chartOf(t, "-- templates/a.yaml --\n"+
		hook("last", "post-install,post-upgrade", "5")+hook("first", "pre-install", "-5")+hook("second", "pre-upgrade,pre-install", "")+
		hook("after", "post-install", "1")+hook("check", "test", "")+hook("gone", "post-delete", "")+
		"---\napiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: ConfigMap, metadata: {name: listed, labels: {app.kubernetes.io/managed-by: Helm}}}]\n"+
		"-- templates/NOTES.txt --\nHello\n-- crds/c.yaml --\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: c}\n"), nil))
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string][2]string{
		"definitions": {names(out.Definitions), "CustomResourceDefinition/c"},
		"before":      {names(out.Before), "Job/first Job/second"},
		"objects":     {names(out.Objects), "ConfigMap/listed"},
		"after":       {names(out.After), "Job/after Job/last"},
		"warnings":    {strings.Join(out.Warnings.Texts, ""), "Job gone is left out: it is a hook of post-delete, which MLKeeper has not"},
		"kept by":     {out.Objects[0].GetLabels()["app.kubernetes.io/managed-by"], "mlkeeper"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %q, not %q", what, got[0], got[1])
		}
	}
}

func TestValues(t *testing.T) {
	under := map[string]any{"a": map[string]any{"b": int64(1), "c": int64(2)}, "d": []any{"x"}}
	got := Merge(under, map[string]any{"a": map[string]any{"b": nil, "e": "f"}, "d": []any{"y"}})
	want := map[string]any{"a": map[string]any{"b": nil, "c": int64(2), "e": "f"}, "d": []any{"y"}}
	if !reflect.DeepEqual(got, want) || under["a"].(map[string]any)["b"] != int64(1) {
		t.Errorf("%v", got)
	}
	parsed, err := ParseValues([]byte("a: 1000000\nb: 1.5\nc: [2]\nd: 9007199254740993\ne: 1e3\n"))
	if err != nil || !reflect.DeepEqual(parsed, map[string]any{"a": int64(1000000), "b": 1.5, "c": []any{int64(2)}, "d": int64(9007199254740993), "e": int64(1000)}) {
		t.Errorf("%v, %v", parsed, err)
	}
	if _, err := ParseValues([]byte("[a]")); err == nil {
		t.Error("a list is no values")
	}
	// A user's null takes a default of the chart away.
	out, err := Render(t.Context(), input(chartOf(t, "-- values.yaml --\na: {b: c}\n"+chartOfExpression("toJson .Values")), map[string]any{"a": map[string]any{"b": nil, "n": int64(1000000)}}))
	if err != nil {
		t.Fatal(err)
	}
	if x, _, _ := unstructured.NestedString(out.Objects[0].Object, "data", "x"); !strings.Contains(x, `"n":1000000`) || strings.Contains(x, `"b"`) {
		t.Errorf("values %s", x)
	}
}

// TestPackedCharts loads charts that are packed within the chart, and refuses a bomb of them.
func TestPackedCharts(t *testing.T) {
	sub, err := manifesttest.Pack(fstest.MapFS{
		"Chart.yaml":       {Data: []byte("apiVersion: v2\nname: sub\nversion: 1.0.0\n")},
		"templates/a.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-sub}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{
		"Chart.yaml":           {Data: []byte("apiVersion: v2\nname: top\nversion: 1.0.0\n")},
		"charts/sub-1.0.0.tgz": {Data: sub},
	}
	c, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := Render(t.Context(), input(c, nil)); err != nil || names(out.Objects) != "ConfigMap/of-sub" {
		t.Errorf("%s, %v", names(out.Objects), err)
	}
	bomb, err := manifesttest.Pack(fstest.MapFS{"zeros": {Data: make([]byte, maxChart)}})
	if err != nil {
		t.Fatal(err)
	}
	files["charts/bomb.tgz"] = &fstest.MapFile{Data: bomb}
	if _, err := Render(t.Context(), input(c, nil)); err == nil || !strings.Contains(err.Error(), "more than 104857600 bytes") {
		t.Error(err)
	}
	files["charts/bomb.tgz"] = &fstest.MapFile{Data: []byte("no archive")}
	if _, err := Render(t.Context(), input(c, nil)); err == nil || !strings.Contains(err.Error(), "not gzipped") {
		t.Error(err)
	}
}

func TestALibraryInstallsNothing(t *testing.T) {
	_, err := Load(fstest.MapFS{"Chart.yaml": {Data: []byte("apiVersion: v2\nname: l\nversion: 1.0.0\ntype: library\n")}})
	if err == nil || !strings.Contains(err.Error(), "installs nothing") {
		t.Error(err)
	}
}

// TestAManifestEndsWithALineBreak: a text in several lines at its end has the line break that it has with Helm.
func TestAManifestEndsWithALineBreak(t *testing.T) {
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    last"
	out, err := Render(t.Context(), input(chartOf(t, "-- templates/a.yaml --\n"+manifest+"\n---\n"+manifest), nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range out.Objects {
		if x, _, _ := unstructured.NestedString(u.Object, "data", "x"); x != "last\n" {
			t.Errorf("it is %q", x)
		}
	}
}

func TestStandIns(t *testing.T) {
	for chart, want := range map[string]string{
		"postgresql": "Secret/release-postgresql Service/release-postgresql Service/release-postgresql-hl StatefulSet/release-postgresql",
		"opensearch": "Service/opensearch-cluster-master Service/opensearch-cluster-master-headless PodDisruptionBudget/opensearch-cluster-master-pdb ConfigMap/opensearch-cluster-master-config StatefulSet/opensearch-cluster-master",
	} {
		out, err := Render(t.Context(), input(folder(t, standIns+chart), nil))
		if err != nil || names(out.Objects) != want {
			t.Errorf("%s: %s, %v", chart, names(out.Objects), err)
		}
	}
}

func FuzzParseValues(f *testing.F) {
	f.Add([]byte("a: {b: [1, 2.5, null, x]}"))
	f.Add([]byte("&a [*a]"))
	f.Add([]byte(bomb))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		values, err := ParseValues(raw)
		if err == nil {
			Merge(values, values)
		}
	})
}

// TestWhatATemplateDependsOnOfTheAPIs: one that asks by Has depends on what it asks for, one that has the list on every API.
func TestWhatATemplateDependsOnOfTheAPIs(t *testing.T) {
	for expression, list := range map[string]bool{
		`.Capabilities.APIVersions.Has "apps/v1"`:       false,
		`has "apps/v1" .Capabilities.APIVersions`:       true,
		`tpl "{{ .Capabilities.APIVersions | len }}" .`: true,
		`tpl .Values.text .`:                            true,
	} {
		in := input(chartOf(t, chartOfExpression(expression)), nil)
		if strings.Contains(expression, ".Values.text") {
			in.Values = map[string]any{"text": "{{ range .Capabilities.APIVersions }}{{ . }}{{ end }}"}
		}
		out, err := Render(t.Context(), in)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if now := in.Cluster.Answers(out.Asked); !maps.Equal(now, out.Asked) || len(now) != 1 {
			t.Errorf("%s: told was %v, and now it would be %v", expression, out.Asked, now)
		}
		in.Cluster.All = func() []string { return []string{"apps/v1", "example.com/v1"} }
		if changed := !maps.Equal(in.Cluster.Answers(out.Asked), out.Asked); changed != list {
			t.Errorf("%s: another API changes what it is told: %t", expression, changed)
		}
	}
}

// TestACallMovesNoneOfOtherFiles: what is random is named by its file, so that a call in a file that comes before, in a chart within the
// chart or in a file that includes another one moves nothing.
func TestACallMovesNoneOfOtherFiles(t *testing.T) {
	const secret = "-- templates/secret.yaml --\n{apiVersion: v1, kind: Secret, metadata: {name: own}, stringData: {a: '{{ randAlphaNum 10 }}', b: '{{ randAlphaNum 10 }}', key: {{ genPrivateKey \"ecdsa\" | quote }}, id: '{{ uuidv4 }}'}}\n"
	random := func(files string) (found map[string]string, names []string) {
		t.Helper()
		in := input(chartOf(t, files), nil)
		kept := &named{everything: everything{memory{seed: "seed"}}}
		in.Generated = kept
		out, err := Render(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range out.Objects {
			if o.GetName() == "own" {
				found, _, _ = unstructured.NestedStringMap(o.Object, "stringData")
			}
		}
		return found, kept.names
	}
	alone, names := random(secret)
	if want := []string{
		`"templates/secret.yaml" randAlphaNum 10#1 randAlphaNum 10#1`, `"templates/secret.yaml" randAlphaNum 10#2 randAlphaNum 10#2`,
		`"templates/secret.yaml" key ecdsa#1 1`, `"templates/secret.yaml" uuidv4#1 uuidv4#1`,
	}; !slices.Equal(names, want) || alone["a"] == alone["b"] || len(alone["a"]) != 10 {
		t.Fatalf("%q, named %q", alone, names)
	}
	const (
		calls   = "{{ randAlphaNum 10 }} {{ uuidv4 }} {{ genPrivateKey \"ecdsa\" | len }}"
		another = "{apiVersion: v1, kind: ConfigMap, metadata: {name: another}, data: {x: '" + calls + "'}}\n"
	)
	for name, files := range map[string]string{
		"a file that comes before":    "-- templates/a.yaml --\n" + another,
		"a file that comes after":     "-- templates/z.yaml --\n" + another,
		"a chart within the chart":    "-- charts/sub/Chart.yaml --\n{apiVersion: v2, name: sub, version: 0.1.0}\n-- charts/sub/templates/a.yaml --\n" + another,
		"a helper":                    "-- templates/_h.tpl --\n{{ define \"h\" }}" + calls + "{{ end }}\n-- templates/a.yaml --\n" + strings.Replace(another, calls, `{{ include "h" . }}`, 1),
		"a file that includes it":     "-- templates/a.yaml --\n" + strings.Replace(another, calls, `{{ include (print .Template.BasePath "/secret.yaml") . | sha256sum }}`, 1),
		"with other values":           "-- templates/a.yaml --\n" + strings.Replace(another, calls, `{{ include (print .Template.BasePath "/secret.yaml") dict | sha256sum }}`, 1),
		"notes":                       "-- templates/NOTES.txt --\n" + calls + "\n",
		"a file that begins with one": "-- templates/a.yaml --\n{{- randAlphaNum 10 | trunc 0 -}}\n" + another,
	} {
		if got, names := random(files + secret); !maps.Equal(got, alone) {
			t.Errorf("%s: %q, and alone %q; named %q", name, got, alone, names)
		}
	}
}

// named are generated credentials that note the names that it is asked for.
type named struct {
	everything
	names []string
}

func (n *named) Bytes(name Name, count int) []byte {
	n.names = append(n.names, name.Now+" "+name.Before)
	return n.everything.Bytes(name, count)
}

func (n *named) Certificate(c Certificate) (Pair, bool) {
	n.names = append(n.names, c.CommonName+" "+c.Before)
	return Pair{Key: c.CommonName}, true
}

// TestWhatIsToldIsBounded asks for APIs that no cluster has, and leaves out hooks: what is remembered of them stays in the memory of the
// manager.
func TestWhatIsToldIsBounded(t *testing.T) {
	out, err := Render(t.Context(), input(chartOf(t, "-- templates/a.yaml --\n"+
		`{{ range until 500 }}{{ $_ := $.Capabilities.APIVersions.Has (printf "%d%s" . (repeat 9000 "x")) }}{{ end }}`+"\n"+
		`---{{ range until 100 }}`+"\n"+
		`{{ printf "{apiVersion: v1, kind: %s, metadata: {name: n%d, annotations: {helm.sh/hook: pre-delete}}}" (repeat 9000 "k") . }}`+
		"\n---\n{{ end }}"), nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Asked) > 0 {
		t.Errorf("%d APIs are remembered that no cluster can serve", len(out.Asked))
	}
	if len(out.Warnings.Texts) != bounded.MaxWarnings || out.Warnings.More != 100-bounded.MaxWarnings {
		t.Errorf("%d warnings, and %d more", len(out.Warnings.Texts), out.Warnings.More)
	}
	for _, text := range out.Warnings.Texts {
		if len(text) > 1<<10+len("…") {
			t.Errorf("a warning has %d bytes", len(text))
		}
	}
	longest := strings.Repeat("g", 253) + "/" + strings.Repeat("v", 63) + "/" + strings.Repeat("k", 63)
	out, err = Render(t.Context(), input(chartOf(t, chartOfExpression(`.Capabilities.APIVersions.Has "`+longest+`"`)), nil))
	if err != nil || len(out.Asked) != 1 {
		t.Errorf("the longest API that a cluster may serve is remembered: %d, %v", len(out.Asked), err)
	}
}

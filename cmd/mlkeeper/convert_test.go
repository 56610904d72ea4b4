package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// converted converts a text and renders what comes out, with the schema and the rules of the definition.
func converted(t *testing.T, text string) (tfserv, stderr string, err error) {
	t.Helper()
	folder := t.TempDir()
	original, made := filepath.Join(folder, "original.yaml"), filepath.Join(folder, "made.yaml")
	if err := os.WriteFile(original, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tfserv, stderr, err = execute(t, "convert", "-f", original)
	if err != nil {
		return tfserv, stderr, err
	}
	if err := os.WriteFile(made, []byte(tfserv), 0o600); err != nil {
		t.Fatal(err)
	}
	_, problems, err := execute(t, "render", "-n", "models", "-f", made)
	if err == nil && strings.Contains(problems, "unknown field") {
		err = fmt.Errorf("%s", problems)
	}
	if err != nil {
		return tfserv, stderr, fmt.Errorf("the Tfserv is refused: %w\n%s\n%s", err, problems, tfserv)
	}
	return tfserv, stderr, nil
}

// inferenceServices makes InferenceServices that KServe takes.
var inferenceServices = rapid.Custom(func(r *rapid.T) map[string]any {
	framework := map[string]any{"storageUri": rapid.SampledFrom([]string{
		"gs://bucket/model", "s3://bucket/a/model", "pvc://claim/some/folder", "pvc://claim",
	}).Draw(r, "uri")}
	maybe := func(to map[string]any, key string, values ...any) {
		if rapid.Bool().Draw(r, "has "+key) {
			to[key] = rapid.SampledFrom(values).Draw(r, key)
		}
	}
	maybe(framework, "resources", map[string]any{"limits": map[string]any{"cpu": "2", "nvidia.com/gpu": 1}}, map[string]any{})
	maybe(framework, "env", []any{map[string]any{"name": "A", "value": "b"}})
	maybe(framework, "args", []any{"--rest_api_port=8090", "--colour=red"}, []any{"--port=0"}, []any{"--enable_batching=true"})
	maybe(framework, "image", "registry.example.com/serving:1")
	predictor := map[string]any{}
	if rapid.Bool().Draw(r, "new schema") {
		framework["modelFormat"] = map[string]any{"name": "tensorflow"}
		predictor["model"] = framework
	} else {
		maybe(framework, "runtimeVersion", "2.14.0")
		predictor["tensorflow"] = framework
	}
	maybe(predictor, "minReplicas", 0, 1, 3, 5000)
	maybe(predictor, "maxReplicas", 0, 1, 7, 5000)
	maybe(predictor, "scaleTarget", 0, 50, 90000)
	maybe(predictor, "scaleMetric", "cpu", "concurrency", "memory")
	maybe(predictor, "nodeSelector", map[string]any{"a": "b"})
	maybe(predictor, "tolerations", []any{map[string]any{"operator": "Exists"}})
	maybe(predictor, "serviceAccountName", "account")
	maybe(predictor, "canaryTrafficPercent", 0, 20)
	maybe(predictor, "batcher", map[string]any{"maxBatchSize": 0}, map[string]any{"maxBatchSize": 8, "maxLatency": 100}, map[string]any{})
	return map[string]any{
		"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": map[string]any{"name": "model"},
		"spec": map[string]any{"predictor": predictor},
	}
})

// TestWhatIsConvertedRenders: whatever an InferenceService has that KServe takes, the Tfserv passes the definition, and renders. Each try
// compiles the rules of the definition, so that there are few.
func TestWhatIsConvertedRenders(t *testing.T) {
	for seed := range 25 {
		raw, err := yaml.Marshal(inferenceServices.Example(seed))
		if err != nil {
			t.Fatal(err)
		}
		if _, stderr, err := converted(t, string(raw)); err != nil {
			t.Errorf("%v\n%s\n%s", err, stderr, raw)
		}
	}
}

// workload matches a document that is converted by itself.
var workload = regexp.MustCompile(`(?m)^kind: (InferenceService|Deployment)$`)

// TestPublicManifestsRender converts what the documentation of KServe and TensorFlow Serving shows.
func TestPublicManifestsRender(t *testing.T) {
	for name, refused := range map[string][]string{
		"kserve":     {"tensorflow-from-uri: spec.predictor.tensorflow.storageUri", "iris: spec.predictor.model.modelFormat.name"},
		"deployment": {"scripted: spec.template.spec.containers[0].command"},
	} {
		raw, err := os.ReadFile(filepath.Join("../../internal/tfserving/convert/testdata", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		_, stderr, err := converted(t, string(raw))
		for _, text := range refused {
			if err == nil || !strings.Contains(stderr, "error: ") || !strings.Contains(stderr, text) {
				t.Errorf("%s: %v, and not an error for %s:\n%s", name, err, text, stderr)
			}
		}
		// Each workload is converted by itself, beside everything that is no workload: its Service, its autoscaler, the ConfigMap that it mounts.
		var workloads, beside []string
		for _, document := range strings.Split(string(raw), "\n---\n") {
			if workload.MatchString(document) {
				workloads = append(workloads, document)
			} else {
				beside = append(beside, document)
			}
		}
		for _, document := range workloads {
			if strings.Contains(document, "raw.githubusercontent.com") || strings.Contains(document, "sklearn") || strings.Contains(document, "sh, -c") {
				continue
			}
			if _, stderr, err := converted(t, strings.Join(append([]string{document}, beside...), "\n---\n")); err != nil {
				t.Errorf("%v\n%s\n%s", err, stderr, document)
			}
		}
	}
}

func TestConvertIsStrictWhereAskedTo(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const whole = `apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: m}
spec: {predictor: {maxReplicas: 1, tensorflow: {storageUri: "gs://b/m"}}}
`
	if out, stderr, err := execute(t, "convert", "--strict", "-f", write("whole.yaml", whole)); err != nil || !strings.Contains(out, "kind: Tfserv") {
		t.Errorf("%v\n%s", err, stderr)
	}
	partly := write("partly.yaml", strings.Replace(whole, "predictor: {", "predictor: {timeout: 5, ", 1))
	if out, stderr, err := execute(t, "convert", "--strict", "-f", partly); err == nil || out != "" || !strings.Contains(stderr, "warning: InferenceService m: spec.predictor.timeout") {
		t.Errorf("%v\n%s%s", err, stderr, out)
	}
	if out, _, err := execute(t, "convert", "-o", "json", "-f", partly); err != nil || !strings.Contains(out, `"kind": "List"`) {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := execute(t, "convert", "-f", write("none.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")); err == nil {
		t.Error("nothing to convert is no error")
	}
}

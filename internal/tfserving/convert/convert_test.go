package convert

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

// objects reads the documents of a text.
func objects(t interface{ Fatal(args ...any) }, text string) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, document := range strings.Split(text, "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(raw, &u.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

func printed(t *testing.T, r *Result) string {
	t.Helper()
	var out strings.Builder
	for _, part := range []struct {
		kind string
		list []Message
	}{{"note", r.Notes}, {"warning", r.Warnings}, {"error", r.Errors}} {
		for _, m := range part.list {
			fmt.Fprintf(&out, "# %s: %s\n", part.kind, m)
		}
	}
	for _, tfserv := range r.Tfservs {
		raw, err := yaml.Marshal(map[string]any{"metadata": map[string]any{
			"name": tfserv.Name, "namespace": tfserv.Namespace, "labels": tfserv.Labels,
		}, "spec": tfserv.Spec})
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n" + string(raw))
	}
	return out.String()
}

// TestPublicManifests converts manifests as the documentation of their projects has them.
func TestPublicManifests(t *testing.T) {
	for _, name := range []string{"kserve", "deployment"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		options := Options{Downloader: "downloader:1"}
		if name == "deployment" {
			options.Suffix = "-tfs"
		}
		got := printed(t, Convert(objects(t, string(raw)), options))
		path := filepath.Join("testdata", name+".golden.yaml")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // A golden file.
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s differs, run go test ./internal/tfserving/convert -update (-want +got):\n%s", path, diff)
		}
	}
}

const service = `
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: m, namespace: ns}
spec:
  predictor:
    tensorflow: {storageUri: "gs://b/m"}
`

// TestNothingIsDroppedSilently puts a field that nobody knows at every place of the manifests: each is reported by its path.
func TestNothingIsDroppedSilently(t *testing.T) {
	for _, name := range []string{"kserve", "deployment"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		documents := objects(t, string(raw))
		for i, u := range documents {
			if !slices.Contains([]string{"InferenceService", "Deployment", "Service", "HorizontalPodAutoscaler", "ScaledObject", "PodDisruptionBudget"}, u.GetKind()) {
				continue
			}
			places := 0
			visit(u.Object, nil, func(path []string) {
				places++
				changed := slices.Clone(documents)
				changed[i] = u.DeepCopy()
				in, _ := rest{changed[i].Object}.peek(path...)
				in.(map[string]any)["surprise"] = "mlkeeper"
				for _, m := range slices.Concat(Convert(changed, Options{}).Warnings, Convert(changed, Options{}).Errors, Convert(changed, Options{}).Notes) {
					if strings.Contains(m.Field+m.Text, "surprise") || strings.HasPrefix(join(append(path, "surprise")), m.Field) && m.Field != "" {
						return
					}
				}
				if !failing(changed, u) {
					t.Errorf("%s: a field in %s is dropped silently", nameOf(u), join(path))
				}
			})
			if places == 0 {
				t.Errorf("%s has no place", nameOf(u))
			}
		}
	}
}

// failing says that an object is not converted at all.
func failing(all []*unstructured.Unstructured, u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(Convert(all, Options{}).Errors, func(m Message) bool { return m.Object == nameOf(u) })
}

// visit calls a function for the path of every map below the spec of an object.
func visit(value any, path []string, do func([]string)) {
	switch v := value.(type) {
	case map[string]any:
		if len(path) > 0 && path[0] == "spec" {
			do(slices.Clone(path))
		}
		for key, inner := range v {
			// These become labels, selectors and quantities, whose keys are anybody's.
			if !slices.Contains([]string{"labels", "matchLabels", "selector", "nodeSelector", "requests", "limits", "annotations", "metadata"}, key) || len(path) == 0 {
				visit(inner, append(slices.Clone(path), key), do)
			}
		}
	case []any:
		for i, inner := range v {
			visit(inner, append(slices.Clone(path), fmt.Sprint(i)), do)
		}
	}
}

// TestHostileInputEndsInAMessage: whatever the fields of an original hold, there is no panic, and what is no Tfserv is an error.
func TestHostileInputEndsInAMessage(t *testing.T) {
	odd := []any{nil, "", "text", int64(-1), true, []any{}, []any{int64(1)}, map[string]any{}, map[string]any{"a": "b"}}
	for _, name := range []string{"kserve", "deployment"} {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		all := append(objects(t, string(raw)), objects(t, service)...)
		for i, one := range all {
			for _, path := range paths(one.Object, nil) {
				if path[0] == "metadata" {
					continue // What has no name or labels is no object.
				}
				for _, value := range odd {
					changed := slices.Clone(all)
					changed[i] = one.DeepCopy()
					set(changed[i].Object, path, value)
					for _, tfserv := range Convert(changed, Options{}).Tfservs {
						if what := lacks(&tfserv.Spec); what != "" {
							t.Errorf("with %s = %#v of %s, %s has %s", strings.Join(path, "."), value, nameOf(one), tfserv.Name, what)
						}
					}
				}
			}
		}
	}
}

// TestALabelThatIsNoText: the others must not be dropped for it without a word.
func TestALabelThatIsNoText(t *testing.T) {
	all := objects(t, service)
	all[0].Object["metadata"].(map[string]any)["labels"] = map[string]any{"team": "a", "rev": int64(1)} //nolint:forcetypeassert // the test's own
	if r := Convert(all, Options{}); len(r.Tfservs) > 0 || len(r.Errors) != 1 || r.Errors[0].Field != "metadata.labels" {
		t.Errorf("%d Tfservs, %v", len(r.Tfservs), r.Errors)
	}
}

// paths are those of every field and item below a value, but for those of the top.
func paths(value any, at []string) (out [][]string) {
	if len(at) > 1 {
		out = append(out, at)
	}
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			out = append(out, paths(inner, append(slices.Clone(at), key))...)
		}
	case []any:
		for n, inner := range v {
			out = append(out, paths(inner, append(slices.Clone(at), strconv.Itoa(n)))...)
		}
	}
	return out
}

// set puts a value in the place of what is at a path.
func set(object map[string]any, path []string, value any) {
	in, key := rest{object}.find(path)
	switch in := in.(type) {
	case map[string]any:
		in[key] = value
	case []any:
		n, _ := strconv.Atoi(key)
		in[n] = value
	}
}

// lacks says what a Tfserv cannot do without and does not have.
func lacks(spec *v1alpha1.TfservSpec) string {
	switch {
	case len(spec.Models) == 0 && spec.ConfigMap == "":
		return "nothing to serve"
	case spec.SecretFileName != "" && spec.SecretName == "":
		return "a file of a Secret without a name"
	case spec.ModelVolume != nil && spec.ModelVolume.ClaimName == "":
		return "a volume without a claim"
	}
	return ""
}

// TestTheModelKeepsItsName: the path that clients call has the name of the original, whatever that of the Tfserv is.
func TestTheModelKeepsItsName(t *testing.T) {
	r := Convert(objects(t, service), Options{Suffix: "-tfs"})
	if len(r.Tfservs) != 1 || r.Tfservs[0].Name != "m-tfs" || r.Tfservs[0].Spec.Models[0].Name != "m" {
		t.Errorf("%v", printed(t, r))
	}
}

// serverOf is a Deployment of TensorFlow Serving with flags, and volumes with their mounts.
func serverOf(flags, mounts, volumes string) string {
	return `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: ns}
spec:
  template:
    metadata: {labels: {app: d}}
    spec:
      priorityClassName: high
      runtimeClassName: nvidia
      containers:
        - {name: main, image: "tensorflow/serving:2.20.0", args: [` + flags + `], volumeMounts: [` + mounts + `]}
      volumes: [` + volumes + `]
`
}

// TestFlagsBecomeFields: what a Tfserv has a field for is in it, and a value that the field cannot have is reported.
func TestFlagsBecomeFields(t *testing.T) {
	flags := `--model_base_path=gs://b/m, --per_process_gpu_memory_fraction=0.35, --rest_api_num_threads=8, --load_retry_interval_micros=2000000,
        --grpc_channel_arguments=grpc.max_connection_age_ms=30000, --enable_model_warmup=false, --enable_profiler, --num_load_threads=0,
        --model_config_file_poll_wait_seconds=60`
	r := Convert(objects(t, serverOf(flags, "", "")+`
---
apiVersion: v1
kind: Service
metadata: {name: d, namespace: ns, annotations: {example.com/lb: internal}}
spec:
  type: LoadBalancer
  selector: {app: d}
  loadBalancerClass: example.com/nlb
  loadBalancerSourceRanges: [10.0.0.0/8]
  externalTrafficPolicy: Local
  ports: [{port: 8501}]
`), Options{Suffix: "-tfs"})
	got := printed(t, r)
	for _, want := range []string{
		"gpuMemoryPercent: 35", "restThreads: 8", "loadRetrySeconds: 2", "grpcMaxConnectionAgeSeconds: 30", "warmup: false", "profiler: true",
		"loadThreads: 0", "configReload: Poll", "configPollSeconds: 60", "priorityClassName: high", "runtimeClassName: nvidia",
		"example.com/lb: internal", "loadBalancerClass: example.com/nlb", "- 10.0.0.0/8", "externalTrafficPolicy: Local",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "is not converted") {
		t.Errorf("something is lost:\n%s", got)
	}
	for _, flag := range []string{
		"--per_process_gpu_memory_fraction=0.333", "--per_process_gpu_memory_fraction=NaN", "--load_retry_interval_micros=500",
		"--file_system_poll_wait_seconds=0", "--grpc_channel_arguments=a=b", "--enable_profiler=maybe", "--rest_api_num_threads=99999999999",
		"--flush_filesystem_caches=false",
	} {
		r := Convert(objects(t, serverOf("--model_base_path=gs://b/m, "+flag, "", "")), Options{Suffix: "-tfs"})
		if got := printed(t, r); len(r.Tfservs) != 1 || r.Tfservs[0].Spec.Server != nil || !strings.Contains(got, flag+`" is not converted`) {
			t.Errorf("%s is lost:\n%s", flag, got)
		}
	}
}

// TestModelsOnTwoVolumes: a Tfserv has one.
func TestModelsOnTwoVolumes(t *testing.T) {
	config := `
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: ns}
data:
  models: |
    model_config_list {
      config { name: "a" base_path: "/a/a" model_platform: "tensorflow" }
      config { name: "b" base_path: "/b/b" model_platform: "tensorflow" }
      config { name: "c" base_path: "/b/c" model_platform: "tensorflow" }
    }
`
	for first, want := range map[string]int{"/a/a": 0, "/b/a": 1} {
		r := Convert(objects(t, serverOf("--model_config_file=/config/models",
			"{name: config, mountPath: /config}, {name: one, mountPath: /b}, {name: two, mountPath: /a}",
			"{name: config, configMap: {name: config}}, {name: one, persistentVolumeClaim: {claimName: one}}, "+
				"{name: two, persistentVolumeClaim: {claimName: two}}",
		)+strings.Replace(config, "/a/a", first, 1)), Options{Suffix: "-tfs"})
		if len(r.Tfservs) != want || (len(r.Errors) > 0) != (want == 0) {
			t.Errorf("%s:\n%s", first, printed(t, r))
		}
	}
}

// TestFilesBesideModelsHaveAFolderOfTheirOwn: a file may be mounted alone into the folder of a volume, or into the root, and a folder may not.
func TestFilesBesideModelsHaveAFolderOfTheirOwn(t *testing.T) {
	for folder, want := range map[string]string{"/models/": "", "/": "", "/config/": "/config"} {
		text := serverOf("--model_config_file="+folder+"models.config",
			"{name: config, mountPath: "+folder+"models.config, subPath: models.config}, {name: models, mountPath: /models}, "+
				"{name: gcs, mountPath: "+folder+"key.json, subPath: key}",
			"{name: config, configMap: {name: config}}, {name: models, persistentVolumeClaim: {claimName: models}}, {name: gcs, secret: {secretName: s}}",
		) + `
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: ns}
data:
  models.config: 'model_config_list { config { name: "a" base_path: "/models/a" model_platform: "tensorflow" } }'
`
		text = strings.Replace(text, "volumeMounts:", "env: [{name: GOOGLE_APPLICATION_CREDENTIALS, value: "+folder+"key.json}], volumeMounts:", 1)
		r := Convert(objects(t, text), Options{Suffix: "-tfs"})
		if len(r.Tfservs) != 1 || len(r.Warnings) > 0 {
			t.Fatalf("%s:\n%s", folder, printed(t, r))
		}
		// Both files are in the one folder, which only one of them can have.
		if s := r.Tfservs[0].Spec; s.ConfigFileLocation != want || s.SecretFileLocation != "" || s.ModelVolume.MountPath != "/models" {
			t.Errorf("%s: the config is in %q, the credentials in %q, the models at %q", folder, s.ConfigFileLocation, s.SecretFileLocation, s.ModelVolume.MountPath)
		}
	}
}

// TestAConfigOfANewerServer is converted as it is, unless MLKeeper would have to print it anew.
func TestAConfigOfANewerServer(t *testing.T) {
	for base, want := range map[string]int{"gs://b/a": 1, "s3://b/a": 0} {
		r := Convert(objects(t, serverOf("--model_config_file=/config/models", "{name: config, mountPath: /config}", "{name: config, configMap: {name: config}}")+`
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: ns}
data:
  models: 'model_config_list { config { name: "a" base_path: "`+base+`" model_platform: "tensorflow" of_tomorrow: 1 } }'
`), Options{Suffix: "-tfs", Downloader: "downloader"})
		warned := slices.ContainsFunc(r.Warnings, func(m Message) bool { return strings.Contains(m.Text, "of_tomorrow") })
		if len(r.Tfservs) != want || (len(r.Errors) > 0) != (want == 0) || !warned {
			t.Errorf("%s:\n%s", base, printed(t, r))
		}
	}
}

// TestKnativeWithoutALimitIsTold: the Tfserv would have one pod for what had dozens under load.
func TestKnativeWithoutALimitIsTold(t *testing.T) {
	const standard = "metadata: {name: m, namespace: ns, annotations: {serving.kserve.io/deploymentMode: Standard}}"
	for fields, warned := range map[string]bool{
		"": true, "    minReplicas: 2\n    maxReplicas: 0\n": true, "    scaleTarget: 10\n": true, "    minReplicas: 2\n    maxReplicas: 2\n": false,
	} {
		for _, mode := range []string{"metadata: {name: m, namespace: ns}", standard} {
			r := Convert(objects(t, strings.Replace(service, "metadata: {name: m, namespace: ns}", mode, 1)+fields), Options{})
			told := slices.ContainsFunc(r.Warnings, func(m Message) bool { return strings.Contains(m.Text, "spec.autoscaling") })
			if told != (warned && mode != standard) || len(r.Tfservs) != 1 {
				t.Errorf("%q of %s:\n%s", fields, mode, printed(t, r))
			}
		}
	}
}

// TestCredentialsKeepTheirKey, whatever the file is called.
func TestCredentialsKeepTheirKey(t *testing.T) {
	for name, c := range map[string]struct{ mount, items, file string }{
		"as it is":     {"mountPath: /gcs", "", "/gcs/key"},
		"another name": {"mountPath: /gcs", ", items: [{key: other, path: o}, {key: key, path: key.json}]", "/gcs/key.json"},
		"a file alone": {"mountPath: /gcs/key.json, subPath: key", "", "/gcs/key.json"},
		"both":         {"mountPath: /gcs/key.json, subPath: k", ", items: [{key: key, path: k}]", "/gcs/key.json"},
	} {
		text := serverOf("--model_base_path=gs://b/m", "{name: gcs, "+c.mount+"}", "{name: gcs, secret: {secretName: s"+c.items+"}}")
		text = strings.Replace(text, "volumeMounts:", "env: [{name: GOOGLE_APPLICATION_CREDENTIALS, value: "+c.file+"}], volumeMounts:", 1)
		r := Convert(objects(t, text), Options{Suffix: "-tfs"})
		if len(r.Tfservs) != 1 {
			t.Fatalf("%s:\n%s", name, printed(t, r))
		}
		if s := r.Tfservs[0].Spec; s.SecretName != "s" || s.SecretFileName != "key" || s.SecretFileLocation != "/gcs" {
			t.Errorf("%s: %s of %s at %s", name, s.SecretFileName, s.SecretName, s.SecretFileLocation)
		}
	}
}

// TestKEDAStaysKEDA: the triggers are those that KServe makes, and zero stays zero where a trigger can be active without a pod.
func TestKEDAStaysKEDA(t *testing.T) {
	const by = "metadata: {name: m, namespace: ns, annotations: {serving.kserve.io/deploymentMode: Standard, serving.kserve.io/autoscalerClass: keda}}"
	keda := func(least, metrics string) *Result {
		return Convert(objects(t, strings.Replace(service, "metadata: {name: m, namespace: ns}", by, 1)+
			"    minReplicas: "+least+"\n    maxReplicas: 5\n    autoScaling:\n      metrics:\n"+metrics), Options{})
	}
	const external = `        - type: External
          external:
            metric: {backend: prometheus, serverAddress: "http://prometheus:9090", query: up}
            target: {type: Value, value: "10"}
            authenticationRef: {authModes: bearer, authenticationRef: {name: auth}}
`
	const resource = "        - {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}\n"
	r := keda("0", external+resource)
	a := r.Tfservs[0].Spec.Autoscaling
	want := &v1alpha1.AutoscalingSpec{MinReplicas: new(int32), MaxReplicas: 5, KEDA: &v1alpha1.KEDASpec{Triggers: []v1alpha1.KEDATrigger{
		{
			Type: "prometheus", AuthenticationRef: &v1alpha1.KEDAAuthenticationRef{Name: "auth"},
			Metadata: map[string]v1alpha1.KEDAValue{"serverAddress": "http://prometheus:9090", "query": "up", "threshold": "10", "authModes": "bearer"},
		},
		{Type: "memory", MetricType: "AverageValue", Metadata: map[string]v1alpha1.KEDAValue{"value": "1Gi"}},
	}}}
	if diff := cmp.Diff(want, a); diff != "" || len(r.Warnings) > 0 || *r.Tfservs[0].Spec.Replicas != 1 {
		t.Errorf("warnings %v (-want +got):\n%s", r.Warnings, diff)
	}
	// Nobody measures the memory of no pod.
	r = keda("0", resource)
	if got := *r.Tfservs[0].Spec.Autoscaling.MinReplicas; got != 1 || len(r.Warnings) != 1 {
		t.Errorf("%d pods at least, warnings %v", got, r.Warnings)
	}
	// What cannot be converted is told, and CPU is left.
	r = keda("1", "        - {type: PodMetric, podmetric: {metric: {backend: opentelemetry, query: q}, target: {type: Value, value: 4}}}\n")
	if a := r.Tfservs[0].Spec.Autoscaling; a == nil || a.KEDA != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0].String(), "OpenTelemetry") {
		t.Errorf("%+v, warnings %v", a, r.Warnings)
	}
}

// TestASecondAutoscalerIsTold: whichever of them counts, the other would be missed.
func TestASecondAutoscalerIsTold(t *testing.T) {
	const hpa = `
---
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: NAME, namespace: ns}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: TARGET}, minReplicas: 0, maxReplicas: 4, targetCPUUtilizationPercentage: 60}
`
	of := func(name, target string) string {
		return strings.NewReplacer("NAME", name, "TARGET", target).Replace(hpa)
	}
	r := Convert(objects(t, serverOf("--model_base_path=gs://b/m", "", "")+of("other", "e")+of("first", "d")+of("second", "d")), Options{Suffix: "-tfs"})
	a := r.Tfservs[0].Spec.Autoscaling
	if a == nil || *a.MinReplicas != 1 || a.MaxReplicas != 4 || *a.TargetCPUUtilizationPercentage != 60 {
		t.Errorf("%+v", a)
	}
	text := printed(t, r)
	for _, want := range []string{
		"HorizontalPodAutoscaler ns/second: is not converted: a Tfserv has one autoscaler, which is converted from HorizontalPodAutoscaler ns/first",
		"HorizontalPodAutoscaler ns/first: spec.minReplicas: 0 is not converted", "HorizontalPodAutoscaler ns/other: is not converted",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not told: %s\n%s", want, text)
		}
	}
}

// TestAdviceIsNotRefused: nobody is sent to spec.server.extraArgs with a flag that it refuses.
func TestAdviceIsNotRefused(t *testing.T) {
	raw, err := os.ReadFile("../../../api/tfserving/v1alpha1/server.go")
	if err != nil {
		t.Fatal(err)
	}
	refused := regexp.MustCompile(`!self\.exists\(a, a\.matches\('\^--\(([a-z_|]+)\)`).FindSubmatch(raw)
	if refused == nil {
		t.Fatal("spec.server.extraArgs refuses nothing")
	}
	flags := strings.Split(string(refused[1]), "|")
	if !slices.Contains(flags, "tensorflow_session_parallelism") {
		t.Fatalf("%v", flags)
	}
	for _, name := range flags {
		for _, value := range []string{"", "=odd", "=4"} {
			flag := "--" + name + value
			kserve := strings.Replace(service, `"gs://b/m"}`, `"gs://b/m", args: ["`+flag+`"]}`, 1)
			for _, text := range []string{kserve, serverOf("--model_base_path=gs://b/m, "+flag, "", "")} {
				r := Convert(objects(t, text), Options{Suffix: "-tfs"})
				if got := printed(t, r); strings.Contains(got, "extraArgs") || len(r.Tfservs)+len(r.Errors) == 0 {
					t.Errorf("%s:\n%s", flag, got)
				}
			}
		}
	}
}

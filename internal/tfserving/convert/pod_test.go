package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

// podOf is serverOf with fields of the Deployment's spec, of its pods' metadata and spec, and variables.
func podOf(spec, metadata, pod, env string) string {
	text := serverOf("--model_base_path=gs://b/m", "", "")
	text = strings.Replace(text, "spec:\n  template:", "spec:\n"+spec+"  template:", 1)
	text = strings.Replace(text, "metadata: {labels: {app: d}}", "metadata: {"+metadata+"}", 1)
	text = strings.Replace(text, "      priorityClassName: high\n", pod, 1)
	return strings.Replace(text, "volumeMounts:", "env: ["+env+"], volumeMounts:", 1)
}

func converted(t *testing.T, text string) (*v1alpha1.TfservSpec, string) {
	t.Helper()
	r := Convert(objects(t, text), Options{Suffix: "-tfs"})
	if len(r.Tfservs) != 1 {
		t.Fatal(printed(t, r))
	}
	return &r.Tfservs[0].Spec, printed(t, &Result{Errors: r.Errors, Warnings: r.Warnings, Notes: r.Notes})
}

// TestNewPodsAreNotSelectedAsTheOldOnes: an old Service would send requests to them, and two PodDisruptionBudgets of a pod forbid every eviction.
func TestNewPodsAreNotSelectedAsTheOldOnes(t *testing.T) {
	spec, text := converted(t, podOf("  selector: {matchLabels: {app: d}, matchExpressions: [{key: tier, operator: Exists}]}\n",
		"labels: {app: d, tier: web, role: server, team: search, part: d, tfsName: d, pod-template-hash: x}, "+
			"annotations: {example.com/a: b, kubectl.kubernetes.io/restartedAt: now, servapi.dev-state.com/config-hash: x}", "", "")+`
---
apiVersion: v1
kind: Service
metadata: {name: d, namespace: ns}
spec: {selector: {role: server}, ports: [{port: 8500}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: d, namespace: ns}
spec: {minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {part: d}}}
---
apiVersion: v1
kind: Service
metadata: {name: others, namespace: ns}
spec: {selector: {team: other}}
`)
	if diff := cmp.Diff(map[string]v1alpha1.LabelValue{"team": "search"}, spec.PodLabels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]v1alpha1.AnnotationValue{"example.com/a": "b"}, spec.PodAnnotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	for _, word := range []string{"(app, part, role, tier)", "tfsName is not converted", "pod-template-hash is not converted", "restartedAt", "config-hash"} {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not told:\n%s", word, text)
		}
	}
	if strings.Contains(text, "unhealthyPodEvictionPolicy") {
		t.Errorf("what a Tfserv has anyway is told:\n%s", text)
	}
}

// TestHowPodsEndAndAreReplaced: what the API server adds by default is no decision of the owner.
func TestHowPodsEndAndAreReplaced(t *testing.T) {
	for _, c := range []struct {
		spec, pod string
		strategy  *v1alpha1.StrategySpec
		grace     *int64
		told      string
	}{
		{"", "", nil, nil, ""},
		{"  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}\n", "", nil, nil, "spec.strategy: is Kubernetes' default"},
		{"  strategy: {type: Recreate}\n", "", &v1alpha1.StrategySpec{Type: "Recreate"}, nil, ""},
		{"  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 0}}\n", "", &v1alpha1.StrategySpec{
			Type:          "RollingUpdate",
			RollingUpdate: &v1alpha1.RollingUpdateSpec{MaxSurge: ptr.To(intstr.FromString("25%")), MaxUnavailable: ptr.To(intstr.FromInt32(0))},
		}, nil, ""},
		{"", "      terminationGracePeriodSeconds: 30\n", nil, nil, "30 is Kubernetes' default"},
		{"", "      terminationGracePeriodSeconds: 0\n", nil, nil, "0 is not converted: a Tfserv may have 10 to 86400"},
		{"", "      terminationGracePeriodSeconds: 310\n", nil, ptr.To(int64(310)), ""},
	} {
		spec, text := converted(t, podOf(c.spec, "", c.pod, ""))
		if diff := cmp.Diff(c.strategy, spec.Strategy); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.spec, diff)
		}
		if ptr.Deref(spec.TerminationGracePeriodSeconds, 0) != ptr.Deref(c.grace, 0) {
			t.Errorf("%s: %v", c.pod, spec.TerminationGracePeriodSeconds)
		}
		if !strings.Contains(text, c.told) || c.told == "" && (strings.Contains(text, "strategy") || strings.Contains(text, "Grace")) {
			t.Errorf("%s%s:\n%s", c.spec, c.pod, text)
		}
	}
}

// TestVariablesStay, but for those that no Tfserv can have: these are told.
func TestVariablesStay(t *testing.T) {
	spec, text := converted(t, podOf("", "", "", `{name: A, value: "1"}, {name: 0B, value: x}, {name: A, value: "2"}, {name: C, valueFrom: {fileKeyRef: {key: k}}}, `+
		`{name: D, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}, {name: MODEL_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: E}`))
	want := []v1alpha1.EnvVar{
		{Name: "A", Value: "2"},
		{Name: "D", ValueFrom: &v1alpha1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}},
		{Name: "E"},
	}
	if diff := cmp.Diff(want, spec.Env); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, word := range []string{`"0B" is not converted`, "A is there twice", `"C" is not converted`, "MODEL_NAME is not converted"} {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not told:\n%s", word, text)
		}
	}
	var many []string
	for i := range maxVariables + 1 {
		many = append(many, fmt.Sprintf("{name: V%d}", i))
	}
	spec, text = converted(t, podOf("", "", "", strings.Join(many, ", ")))
	if len(spec.Env) != maxVariables || !strings.Contains(text, "V64 is not converted: a Tfserv has 64 variables at most") {
		t.Errorf("%d variables:\n%s", len(spec.Env), text)
	}
}

// TestVariablesOfAStore: the downloader, and not the server, reads s3://.
func TestVariablesOfAStore(t *testing.T) {
	key := func(name, secret string) string {
		return "{name: " + name + ", valueFrom: {secretKeyRef: {name: " + secret + ", key: " + name + "}}}"
	}
	for env, want := range map[string]struct {
		s3   v1alpha1.S3Spec
		told []string
	}{
		key("AWS_ACCESS_KEY_ID", "s") + "," + key("AWS_SECRET_ACCESS_KEY", "s") + ",{name: AWS_REGION, value: r}, {name: AWS_ENDPOINT_URL, value: 'http://h:9'}": {
			v1alpha1.S3Spec{SecretName: "s", Region: "r", Endpoint: "h:9", Insecure: true}, nil,
		},
		key("AWS_ACCESS_KEY_ID", "s") + "," + key("AWS_SECRET_ACCESS_KEY", "t") + ",{name: S3_ENDPOINT, value: h}, {name: S3_USE_HTTPS, value: '0'}": {
			v1alpha1.S3Spec{SecretName: "s", Endpoint: "h", Insecure: true}, []string{"AWS_SECRET_ACCESS_KEY is not converted"},
		},
		"{name: AWS_ACCESS_KEY_ID, value: plain}": {v1alpha1.S3Spec{}, []string{"AWS_ACCESS_KEY_ID is not converted", "spec.s3.secretName"}},
	} {
		spec, text := converted(t, strings.Replace(podOf("", "", "", env+", {name: OTHER}"), "gs://", "s3://", 1))
		want.s3.Downloader = &v1alpha1.DownloaderSpec{}
		if diff := cmp.Diff(&want.s3, spec.S3); diff != "" || len(spec.Env) != 1 {
			t.Errorf("%s: %v (-want +got):\n%s", env, spec.Env, diff)
		}
		for _, word := range append(want.told, "") {
			if !strings.Contains(text, word) || len(want.told) == 0 && strings.Contains(text, "# warning") {
				t.Errorf("%s, not %q:\n%s", env, word, text)
			}
		}
		if strings.Contains(text, "plain") {
			t.Errorf("a key is quoted:\n%s", text)
		}
	}
}

// TestFilesOfParameters: what TensorFlow Serving reads of them is in the Tfserv, and what is not is told.
func TestFilesOfParameters(t *testing.T) {
	for file, want := range map[string]struct {
		batching *v1alpha1.BatchingSpec
		told     string
	}{
		"max_batch_size { value: 8 } pad_variable_length_inputs: true": {&v1alpha1.BatchingSpec{MaxBatchSize: ptr.To(int64(8)), PadVariableLengthInputs: true}, ""},
		"allowed_batch_sizes: [10, 1000]":                              {&v1alpha1.BatchingSpec{MaxBatchSize: ptr.To(int64(1000)), AllowedBatchSizes: []int64{10, 1000}}, ""},
		"allowed_batch_sizes: [10, 20]":                                {&v1alpha1.BatchingSpec{}, "allowed_batch_sizes in the file"},
		"max_enqueued_batches { value: 0 }":                            {&v1alpha1.BatchingSpec{}, "max_enqueued_batches in the file"},
		"num_batch_threads { value: 4 } of_tomorrow: 3":                {&v1alpha1.BatchingSpec{NumBatchThreads: ptr.To(int64(4))}, "unknown field: of_tomorrow"},
		"max_batch_size: 8":                                            {&v1alpha1.BatchingSpec{}, "TensorFlow Serving would refuse the key batching"},
	} {
		text := serverOf("--model_base_path=gs://b/m, --enable_batching, --batching_parameters_file=/c/batching",
			"{name: c, mountPath: /c}", "{name: c, configMap: {name: c}}")
		spec, said := converted(t, text+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: ns}\ndata: {batching: '"+file+"'}\n")
		if diff := cmp.Diff(want.batching, spec.Batching); diff != "" || !strings.Contains(said, want.told) || want.told == "" && strings.Contains(said, "# warning") {
			t.Errorf("%s (-want +got):\n%s\n%s", file, diff, said)
		}
		// Nobody knows a ConfigMap that is not there.
		spec, said = converted(t, text)
		if diff := cmp.Diff(&v1alpha1.BatchingSpec{}, spec.Batching); diff != "" || !strings.Contains(said, "the ConfigMap c is not among the objects") {
			t.Errorf("%s\n%s", diff, said)
		}
	}
	for file, want := range map[string]*v1alpha1.MonitoringSpec{
		`prometheus_config { enable: true path: "/m" }`: {Path: "/m"}, "prometheus_config { enable: true }": {}, "prometheus_config {}": nil, "": nil,
		`prometheus_config { enable: true path: "/m?" }`: {},
	} {
		spec, said := converted(t, serverOf("--model_base_path=gs://b/m, --monitoring_config_file=/c/m", "{name: c, mountPath: /c}", "{name: c, configMap: {name: c}}")+
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: ns}\ndata: {m: '"+file+"'}\n")
		if diff := cmp.Diff(want, spec.Monitoring); diff != "" || strings.Contains(said, "# warning") != strings.Contains(file, "?") {
			t.Errorf("%s (-want +got):\n%s\n%s", file, diff, said)
		}
	}
}

// TestTLSIsNotLost: a Tfserv without it would serve to everybody who reaches the port.
func TestTLSIsNotLost(t *testing.T) {
	const flags = "--model_base_path=gs://b/m, --ssl_config_file=/tls/ssl.pbtxt"
	spec, text := converted(t, serverOf(flags, "{name: tls, mountPath: /tls}", "{name: tls, secret: {secretName: s, items: [{key: ssl, path: ssl.pbtxt}]}}"))
	if want := (&v1alpha1.ServerTLSSpec{SecretName: "s", Key: "ssl"}); spec.Server == nil || *spec.Server.TLS != *want || strings.Contains(text, "# warning") {
		t.Errorf("%+v\n%s", spec.Server, text)
	}
	r := Convert(objects(t, serverOf(flags, "{name: tls, mountPath: /tls}", "{name: tls, emptyDir: {}}")), Options{})
	if len(r.Tfservs) > 0 || len(r.Errors) != 1 || !strings.Contains(r.Errors[0].Text, "put it into one") {
		t.Error(printed(t, r))
	}
}

// TestBatchingOfEachModelNeedsBatching, which the schema asks for.
func TestBatchingOfEachModelNeedsBatching(t *testing.T) {
	for flags, want := range map[string]bool{"": false, ", --enable_batching": true} {
		spec, text := converted(t, serverOf("--model_base_path=gs://b/m, --enable_per_model_batching_parameters"+flags, "", ""))
		if spec.Server.PerModelBatching != want || strings.Contains(text, "has no effect without --enable_batching") == want {
			t.Errorf("%+v\n%s", spec.Server, text)
		}
	}
}

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

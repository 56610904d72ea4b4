package tfserving

import (
	"bytes"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
)

// withClaim is a cluster with the claim models.
func withClaim(t testing.TB, modes string) *controllertest.Cluster {
	t.Helper()
	c := controllertest.New(testNow)
	c.Put(controllertest.Parse(t, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: models, namespace: ns}
spec: {accessModes: [`+modes+`]}
`))
	return c
}

// TestARolloutFindsRoomForItsPods: an additional pod is no good where all GPUs are in use, or the volume is on another node (finding R5).
func TestARolloutFindsRoomForItsPods(t *testing.T) {
	for name, c := range map[string]struct{ spec, modes, want string }{
		"as ever":                     {"", "", "1/0"},
		"NVIDIA":                      {"resources: {limits: {nvidia.com/gpu: 1}}", "", "0/1"},
		"no GPUs":                     {"resources: {limits: {nvidia.com/gpu: 0}}", "", "1/0"},
		"a part of a GPU":             {"resources: {limits: {nvidia.com/mig-1g.5gb: 1}}", "", "0/1"},
		"AMD":                         {"resources: {limits: {amd.com/gpu: 1}}", "", "0/1"},
		"a claim of one node":         {"replicas: 2\n  modelVolume: {claimName: models}", "ReadWriteOnce", "0/1"},
		"one pod with it":             {"modelVolume: {claimName: models}", "ReadWriteOnce", "Recreate"},
		"one pod that may become two": {"modelVolume: {claimName: models}\n  autoscaling: {maxReplicas: 2}", "ReadWriteOnce", "0/1"},
		"a claim of one pod":          {"modelVolume: {claimName: models}", "ReadWriteOncePod", "Recreate"},
		"a claim of many nodes":       {"modelVolume: {claimName: models}", "ReadWriteOnce, ReadOnlyMany", "1/0"},
		"a claim that says nothing":   {"modelVolume: {claimName: models}", "", "1/0"},
		"Recreate":                    {"strategy: {type: Recreate}", "", "Recreate"},
		"the type alone":              {"strategy: {type: RollingUpdate}\n  modelVolume: {claimName: models}", "ReadWriteOnce", "0/1"},
		"both":                        {"strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 2}}", "", "25%/2"},
		"surge":                       {"strategy: {rollingUpdate: {maxSurge: 3}}", "", "3/0"},
		"no surge":                    {"strategy: {rollingUpdate: {maxSurge: 0%}}", "", "0%/1"},
		"unavailable":                 {"strategy: {rollingUpdate: {maxUnavailable: 2}}", "", "1/2"},
		"never fewer":                 {"strategy: {rollingUpdate: {maxUnavailable: 0}}\n  resources: {limits: {nvidia.com/gpu: 1}}", "", "1/0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, p := gatherAndRender(t, withClaim(t, c.modes), custom(t, inline+"  "+c.spec+"\n"))
			got := deployed(t, p, "tfs").Spec.Strategy
			text := string(got.Type)
			if got.Type == appsv1.RollingUpdateDeploymentStrategyType {
				text = got.RollingUpdate.MaxSurge.String() + "/" + got.RollingUpdate.MaxUnavailable.String()
			} else if got.RollingUpdate != nil {
				t.Error("the API server refuses rollingUpdate with another type")
			}
			if text != c.want {
				t.Errorf("%s, not %s", text, c.want)
			}
		})
	}
}

func TestServersThatCannotShareTheirClaimAreWarnedOf(t *testing.T) {
	cr := custom(t, inline+"  replicas: 2\n  modelVolume: {claimName: models}\n")
	for modes, want := range map[string]string{"ReadWriteOnce": "on one node", "ReadWriteOncePod": "one pod only", "ReadOnlyMany": ""} {
		_, p := gatherAndRender(t, withClaim(t, modes), cr)
		if got := strings.Join(p.Warnings, " "); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: warnings %q", modes, got)
		}
	}
}

// TestPodsReadACopyOfTheConfigThatWasChecked: the owner's ConfigMap may be broken later, when a pod starts (finding R9).
func TestPodsReadACopyOfTheConfigThatWasChecked(t *testing.T) {
	c, cr := seed(t)
	text := c.Get(key("ConfigMap", cr.Spec.ConfigMap)).Object["data"].(map[string]any)["models.conf"]
	cr.Spec.Batching, cr.Spec.Monitoring = &v1alpha1.BatchingSpec{}, &v1alpha1.MonitoringSpec{}
	_, p := gatherAndRender(t, c, cr)
	name := volume(t, p, cr.Name, configVolume).ConfigMap.Name
	copied := controllertest.MustFind(t, p, "ConfigMap", name)
	data, _, _ := unstructured.NestedMap(copied.Object, "data")
	if immutable, _, _ := unstructured.NestedBool(copied.Object, "immutable"); data["models.conf"] != text || !immutable {
		t.Errorf("the pods read %s: %v", name, copied.Object)
	}
	if got := volume(t, p, cr.Name, parametersVolume).ConfigMap.Name; got != name || data[batchingFile] == nil || data[monitoringFile] == nil {
		t.Errorf("batching and monitoring are read from %s", got)
	}
	cr.Spec.ConfigFileName = batchingFile
	c.Get(key("ConfigMap", cr.Spec.ConfigMap)).Object["data"] = map[string]any{batchingFile: text}
	if _, p = gatherAndRender(t, c, cr); controllertest.Reasons(p) != "Terminal PathTaken" {
		t.Errorf("two files of one name: %q", controllertest.Reasons(p))
	}
}

// TestAnUpgradeRestartsNoPod: what an earlier version has rendered stays as it is, byte for byte, until it changes anyway.
func TestAnUpgradeRestartsNoPod(t *testing.T) {
	earlier, err := os.ReadFile("testdata/golden/seed-earlier.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, cr := seed(t)
	var was plan.Plan
	for _, text := range strings.Split(string(earlier), "---\n")[1:] {
		was.Stages = append(was.Stages, plan.Stage{Objects: []plan.Object{{Desired: controllertest.Parse(t, text)}}})
	}
	rolledOut(t, c, cr, was, true)
	_, now := gatherAndRender(t, c, cr)
	if got := controllertest.Print(t, now); !bytes.Equal(got, earlier) {
		t.Errorf("an upgrade changes what runs to\n%s", got)
	}
	data := c.Get(key("ConfigMap", cr.Spec.ConfigMap)).Object["data"].(map[string]any)
	data["models.conf"] = strings.Replace(data["models.conf"].(string), "1538687457", "1538687458", 1)
	_, now = gatherAndRender(t, c, cr)
	if volume(t, now, cr.Name, configVolume).ConfigMap.Name == cr.Spec.ConfigMap {
		t.Error("pods that are replaced anyway read the owner's ConfigMap")
	}
}

// TestALostMarkRestartsNoPod: somebody takes one of the annotations of the Deployment away, which tells of no earlier version.
func TestALostMarkRestartsNoPod(t *testing.T) {
	for _, mark := range []string{templateAnnotation, inputsAnnotation} {
		c, cr := seed(t)
		_, p := gatherAndRender(t, c, cr)
		rolledOut(t, c, cr, p, true)
		_, p = gatherAndRender(t, c, cr)
		want := deployed(t, p, cr.Name).Spec.Template
		live := c.Children[key("Deployment", cr.Name)]
		marks := live.GetAnnotations()
		if marks[mark] == "" {
			t.Fatalf("the Deployment has no %s", mark)
		}
		delete(marks, mark)
		live.SetAnnotations(marks)
		_, p = gatherAndRender(t, c, cr)
		if got := deployed(t, p, cr.Name).Spec.Template; !reflect.DeepEqual(got, want) {
			t.Errorf("without %s the pods are replaced by %+v", mark, got)
		}
	}
}

// TestWhatUsersChangeIsRecorded: a manager that starts tells by it whether a user or the operator has changed what the pods follow from.
func TestWhatUsersChangeIsRecorded(t *testing.T) {
	c, cr := seed(t)
	_, p := gatherAndRender(t, c, cr)
	if p.Inputs == "" || p.AppliedInputs != "" {
		t.Fatalf("inputs %q, applied %q", p.Inputs, p.AppliedInputs)
	}
	rolledOut(t, c, cr, p, true)
	_, same := gatherAndRender(t, c, cr)
	if same.Inputs != p.Inputs || same.AppliedInputs != p.Inputs {
		t.Errorf("inputs %q, applied %q", same.Inputs, same.AppliedInputs)
	}
	seen := map[string]bool{p.Inputs: true}
	for _, change := range []func(){
		func() {
			data := c.Get(key("ConfigMap", cr.Spec.ConfigMap)).Object["data"].(map[string]any)
			data["models.conf"] = strings.Replace(data["models.conf"].(string), "1538687457", "1538687458", 1)
		},
		func() {
			c.Get(key("Secret", "tfs-secret")).Object["data"] = map[string]any{"test-apps-model-viewer.json": "W10="}
		},
	} {
		change()
		_, other := gatherAndRender(t, c, cr)
		if seen[other.Inputs] || other.AppliedInputs != p.Inputs {
			t.Error("what a user has changed counts as the operator's")
		}
		seen[other.Inputs] = true
	}
}

const polling = `
metadata: {name: tfs}
spec:
  configReload: Poll
  models:
    - name: ranker
      basePath: /models/ranker
      versionPolicy: {specific: {versions: [41, 42]}}
      versionLabels: {stable: 41}
`

// TestPollReplacesNoPodForAnotherModel (finding R27).
func TestPollReplacesNoPodForAnotherModel(t *testing.T) {
	c, cr := controllertest.New(testNow), custom(t, polling)
	_, before := gatherAndRender(t, c, cr)
	d := deployed(t, before, "tfs")
	args := strings.Join(d.Spec.Template.Spec.Containers[0].Args, " ")
	for _, want := range []string{
		"--model_config_file_poll_wait_seconds=10", "--allow_version_labels_for_unavailable_models=true", "--enable_grpc_healthcheck_service=true",
	} {
		if !strings.Contains(args, want) {
			t.Errorf("%s lacks %s", args, want)
		}
	}
	if mount := d.Spec.Template.Spec.Containers[0].VolumeMounts[0]; mount.SubPath != "" {
		t.Error("a file that is mounted alone never changes")
	}
	live := controllertest.MustFind(t, before, "ConfigMap", "tfs-config-live")
	if immutable, _, _ := unstructured.NestedBool(live.Object, "immutable"); immutable || volume(t, before, "tfs", configVolume).ConfigMap.Name != "tfs-config-live" {
		t.Error("the servers read a file that cannot change")
	}
	cr.Spec.Models[0].Name, cr.Spec.Models[0].VersionLabels = "other", nil
	_, after := gatherAndRender(t, c, cr)
	if got := deployed(t, after, "tfs"); !reflect.DeepEqual(got.Spec, d.Spec) {
		t.Errorf("another model replaces the pods: %+v", got.Spec.Template)
	}
	if !strings.Contains(printed(t, controllertest.MustFind(t, after, "ConfigMap", "tfs-config-live").Object), "other") {
		t.Error("the servers never read of the other model")
	}
	cr.Spec.Batching = &v1alpha1.BatchingSpec{}
	_, batched := gatherAndRender(t, c, cr)
	if reflect.DeepEqual(deployed(t, batched, "tfs").Spec.Template, d.Spec.Template) || volume(t, batched, "tfs", parametersVolume).ConfigMap.Name == "tfs-config-live" {
		t.Error("what a server reads once needs another pod")
	}
}

func TestDownloadsNeedAnotherPod(t *testing.T) {
	cr := custom(t, strings.Replace(inline, "gs://", "s3://", 1)+"  configReload: Poll\n  s3: {downloader: {image: dl}}\n")
	_, p := gatherAndRender(t, controllertest.New(testNow), cr)
	if controllertest.Find(p, "ConfigMap", "tfs-config-live") != nil || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "is used as Restart") {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// TestALabelMovesInTwoSteps: TensorFlow Serving refuses a config in which a label moves to a version that is not available (finding R26).
func TestALabelMovesInTwoSteps(t *testing.T) {
	c, cr := controllertest.New(testNow), custom(t, polling)
	_, p := gatherAndRender(t, c, cr)
	c.Written(p, ownerOf(cr))
	rolledOut(t, c, cr, p, true)
	cr.Spec.Models[0].VersionPolicy.Specific.Versions, cr.Spec.Models[0].VersionLabels["stable"] = []int64{43}, 43
	step := func() (string, plan.Plan) {
		t.Helper()
		facts, p := gatherAndRender(t, c, cr)
		c.Own(controllertest.MustFind(t, p, "ConfigMap", "tfs-config-live").DeepCopy(), ownerOf(cr))
		return strings.Join(strings.Fields(facts.ConfigText), " "), p
	}
	const held = "specific { versions: 43 versions: 41 } } version_labels { key: \"stable\" value: 41 }"
	for range 2 {
		text, p := step()
		if !strings.Contains(text, held) || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], `"stable" of model "ranker" stays at version 41`) {
			t.Fatalf("%s, warnings %q", text, p.Warnings)
		}
	}
	c.Asked = nil
	gatherAndRender(t, c, cr)
	question := c.Asked[0].Name
	for _, serves := range []string{"42", "41"} {
		c.Answers[question] = askedAt(t, c, cr, says(serves+" AVAILABLE"))
		text, p := step()
		if !strings.Contains(text, held) {
			t.Fatalf("the label has moved to a version that is not available: %s", text)
		}
		lacks := slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, "names version 41, which not every") })
		if lacks == (serves == "41") {
			t.Errorf("the label is at version 41, the servers have %s, and the warnings are %q", serves, p.Warnings)
		}
	}
	c.Answers[question] = askedAt(t, c, cr, says("43 AVAILABLE"))
	text, p := step()
	if !strings.Contains(text, "specific { versions: 43 } } version_labels { key: \"stable\" value: 43 }") || len(p.Warnings) > 0 {
		t.Errorf("the label has not moved: %s, warnings %q", text, p.Warnings)
	}
	c.Asked = nil
	gatherAndRender(t, c, cr)
	if c.Asked[0].Name == question {
		t.Error("the servers are not asked about the other config")
	}
}

// askedAt is what a question that is asked now finds out, where each server answers as given.
func askedAt(t *testing.T, c *controllertest.Cluster, cr *v1alpha1.Tfserv, answers http.HandlerFunc) any {
	t.Helper()
	s := testSystem()
	s.settings.HTTP, c.Asked = fleet(map[string]http.HandlerFunc{"10.0.0.1": answers}), nil
	if _, err := s.Gather(t.Context(), c, cr); err != nil {
		t.Fatal(err)
	}
	if len(c.Asked) == 0 {
		t.Fatal("nobody is asked")
	}
	return c.Asked[0].Job(t.Context(), pods{pod("10.0.0.1", true, false)})
}

func TestSettingsOfTheServer(t *testing.T) {
	c := controllertest.New(testNow)
	putTLS(t, c, "Opaque", map[string]string{"ssl.conf": sslConfigOf(certificate(t, "one"))})
	cr := custom(t, inline+`  server:
    gpuMemoryPercent: 45
    restThreads: 8
    grpcMaxConnectionAgeSeconds: 30
    loadRetrySeconds: 2
    versionPollSeconds: 5
    warmup: false
    profiler: false
    tls: {secretName: tls}
    extraArgs: [--flush_filesystem_caches=false]
`)
	_, p := gatherAndRender(t, c, cr)
	main := deployed(t, p, "tfs").Spec.Template.Spec.Containers[0]
	want := []string{
		"--per_process_gpu_memory_fraction=0.45", "--rest_api_num_threads=8", "--grpc_channel_arguments=grpc.max_connection_age_ms=30000",
		"--load_retry_interval_micros=2000000", "--file_system_poll_wait_seconds=5", "--enable_model_warmup=false", "--enable_profiler=false",
		"--ssl_config_file=/var/tfserving-tls/ssl.conf", "--flush_filesystem_caches=false",
	}
	if got := main.Args[3:]; !reflect.DeepEqual(got, want) {
		t.Errorf("arguments %q, not %q", got, want)
	}
	if volume(t, p, "tfs", tlsVolume).Secret.SecretName != "tls" {
		t.Error("the server cannot read its certificate")
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "--flush_filesystem_caches") {
		t.Errorf("warnings %q", p.Warnings)
	}
	before := deployed(t, p, "tfs").Spec.Template.Annotations
	putTLS(t, c, "Opaque", map[string]string{"ssl.conf": sslConfigOf(certificate(t, "another"))})
	if _, p = gatherAndRender(t, c, cr); reflect.DeepEqual(deployed(t, p, "tfs").Spec.Template.Annotations, before) {
		t.Error("another certificate does not replace the pods")
	}
	c.Get(key("Secret", "tls")).Object["data"] = map[string]any{}
	if _, p = gatherAndRender(t, c, cr); controllertest.Reasons(p) != "Waiting SecretKeyNotFound" {
		t.Errorf("problems %q", controllertest.Reasons(p))
	}
	c.Remove(key("Secret", "tls"))
	if _, p = gatherAndRender(t, c, cr); controllertest.Reasons(p) != "Waiting SecretNotFound" {
		t.Errorf("problems %q", controllertest.Reasons(p))
	}
}

func TestWhatAServiceHas(t *testing.T) {
	cr := custom(t, inline+`  serviceType: LoadBalancer
  priorityClassName: high
  runtimeClassName: nvidia
  service:
    annotations: {cloud/kind: internal, keeper.mlkeeper.dev/owner: mine}
    loadBalancerClass: example.com/nlb
    loadBalancerSourceRanges: [10.0.0.0/8]
    externalTrafficPolicy: Local
    headless: true
`)
	_, p := gatherAndRender(t, controllertest.New(testNow), cr)
	s := served(t, p, "tfs-service")
	if len(s.Annotations) != 1 || len(p.Warnings) != 1 {
		t.Errorf("annotations %v, warnings %q", s.Annotations, p.Warnings)
	}
	if s.Annotations["cloud/kind"] != "internal" || *s.Spec.LoadBalancerClass != "example.com/nlb" || len(s.Spec.LoadBalancerSourceRanges) != 1 ||
		s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		t.Errorf("%+v", s)
	}
	if h := served(t, p, "tfs-grpc"); h.Spec.ClusterIP != corev1.ClusterIPNone || h.Spec.Type != "" || len(h.Spec.Ports) != 1 || len(h.Annotations) > 0 {
		t.Errorf("%+v", h.Spec)
	}
	if pod := deployed(t, p, "tfs").Spec.Template.Spec; pod.PriorityClassName != "high" || *pod.RuntimeClassName != "nvidia" {
		t.Errorf("%+v", pod)
	}
	cr.Spec.ServiceType = corev1.ServiceTypeClusterIP
	_, p = gatherAndRender(t, controllertest.New(testNow), cr)
	if s := served(t, p, "tfs-service").Spec; s.LoadBalancerClass != nil || s.LoadBalancerSourceRanges != nil || s.ExternalTrafficPolicy != "" {
		t.Errorf("the API server refuses this without a load balancer: %+v", s)
	}
}

func TestAnyMetricScalesAndZeroPauses(t *testing.T) {
	cr := custom(t, inline+`  replicas: 0
  autoscaling:
    maxReplicas: 5
    metrics:
      - type: Pods
        pods: {metric: {name: gpu_duty_cycle}, target: {type: AverageValue, averageValue: "70"}}
    behavior: {scaleDown: {stabilizationWindowSeconds: 60}}
`)
	_, p := gatherAndRender(t, controllertest.New(testNow), cr)
	text := printed(t, controllertest.MustFind(t, p, "HorizontalPodAutoscaler", "tfs").Object)
	if !strings.Contains(text, "gpu_duty_cycle") || strings.Contains(text, "name: cpu") || !strings.Contains(text, "stabilizationWindowSeconds: 60") {
		t.Errorf("%s", text)
	}
	own := func() bool {
		for _, o := range p.Stages[0].Objects {
			if o.Desired.GetKind() == "Deployment" {
				return o.Replicas == plan.ReplicasDeclared
			}
		}
		return false
	}
	if *deployed(t, p, "tfs").Spec.Replicas != 0 || !own() || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "pauses spec.autoscaling") {
		t.Errorf("0 does not pause; warnings %q", p.Warnings)
	}
	three := int32(3)
	cr.Spec.Replicas = &three
	if _, p = gatherAndRender(t, controllertest.New(testNow), cr); *deployed(t, p, "tfs").Spec.Replicas != 3 || own() || len(p.Warnings) > 0 {
		t.Errorf("it is not resumed; warnings %q", p.Warnings)
	}
}

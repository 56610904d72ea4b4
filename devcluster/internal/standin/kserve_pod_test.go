package standin

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// deploymentOf is the Deployment of a component of a service as a user writes it.
func deploymentOf(t *testing.T, component, text string, more ...servingRuntime) *appsv1.Deployment {
	t.Helper()
	obj := inferenceService(t, text)
	obj.SetNamespace(cmp.Or(obj.GetNamespace(), "ns"))
	defaultInferenceService(obj)
	s := statusOf(obj, modeOf(obj), "now")
	if err := s.runOn(append(more, builtin...)); err != nil {
		t.Fatal(err)
	}
	u, err := s.child(component)
	if err != nil {
		t.Fatal(err)
	}
	out := &appsv1.Deployment{}
	if err := decode(u.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWhatTheUserSaysIsThePods: every part of the spec that decides whether a pod can run reaches the pod.
func TestWhatTheUserSaysIsThePods(t *testing.T) {
	d := deploymentOf(t, "predictor", `
metadata: {name: m, labels: {own: label}, annotations: {own: annotation, kubectl.kubernetes.io/last-applied-configuration: x}}
spec:
  predictor:
    serviceAccountName: reader
    nodeSelector: {disk: fast}
    tolerations: [{key: gpu, operator: Exists}]
    volumes: [{name: v, secret: {secretName: missing}}]
    imagePullSecrets: [{name: pull}]
    labels: {component: predictor, more: label}
    deploymentStrategy: {type: Recreate}
    model:
      modelFormat: {name: sklearn}
      image: registry.test/server:1
      args: [--workers=2]
      env: [{name: E, valueFrom: {secretKeyRef: {name: s, key: k}}}]
      volumeMounts: [{name: v, mountPath: /v}]
      resources: {requests: {memory: 3Gi}, limits: {memory: 4Gi, nvidia.com/gpu: 2}}`)
	spec := d.Spec.Template.Spec
	c := spec.Containers[0]
	cpu, memory, gpu := c.Resources.Requests[corev1.ResourceCPU], c.Resources.Requests[corev1.ResourceMemory], c.Resources.Limits["nvidia.com/gpu"]
	for what, ok := range map[string]bool{
		"service account": spec.ServiceAccountName == "reader", "node selector": spec.NodeSelector["disk"] == "fast",
		"tolerations": len(spec.Tolerations) == 1 && spec.Tolerations[0].Key == "gpu", "pull secret": spec.ImagePullSecrets[0].Name == "pull",
		"volume": spec.Volumes[0].Secret.SecretName == "missing", "mount": c.VolumeMounts[0].MountPath == "/v",
		"image": c.Image == "registry.test/server:1", "name": c.Name == kserveContainer,
		"arguments":        slices.Equal(c.Args, []string{"--model_name=m", "--model_dir=/mnt/models", "--http_port=8080", "--workers=2"}),
		"environment":      c.Env[0].ValueFrom.SecretKeyRef.Name == "s" && envOf(&c, "INFERENCE_SERVICE_NAME").Value == "m",
		"security":         *c.SecurityContext.RunAsNonRoot,
		"requests":         cpu.String() == "1" && memory.String() == "3Gi",
		"GPUs":             gpu.Value() == 2,
		"probe":            c.ReadinessProbe.TCPSocket.Port.IntValue() == 8080,
		"strategy":         d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType,
		"labels":           d.Spec.Template.Labels["own"] == "label" && d.Spec.Template.Labels["more"] == "label" && d.Spec.Template.Labels["app"] == "isvc.m-predictor",
		"own annotations":  d.Spec.Template.Annotations["own"] == "annotation" && d.Spec.Template.Annotations["prometheus.kserve.io/port"] == "8080",
		"no others":        d.Spec.Template.Annotations["kubectl.kubernetes.io/last-applied-configuration"] == "" && d.Spec.Template.Annotations["modelFormat"] == "",
		"no other volumes": len(spec.Volumes) == 1 && len(spec.InitContainers) == 0,
	} {
		if !ok {
			t.Errorf("%s: %+v", what, d.Spec)
		}
	}
}

// TestAModelIsFetchedOrMounted: from a claim it is mounted, from elsewhere an init container brings it.
func TestAModelIsFetchedOrMounted(t *testing.T) {
	service := func(model string) corev1.PodSpec {
		return deploymentOf(t, "predictor", `{metadata: {name: m}, spec: {predictor: {model: {modelFormat: {name: sklearn}, `+model+`}}}}`).Spec.Template.Spec
	}
	p := service("storageUri: s3://bucket/model")
	if c := p.InitContainers[0]; c.Name != "storage-initializer" || !slices.Equal(c.Args, []string{"s3://bucket/model", modelPath}) ||
		c.VolumeMounts[0].ReadOnly || !p.Containers[0].VolumeMounts[0].ReadOnly || p.Volumes[0].EmptyDir == nil {
		t.Errorf("fetched: %+v", p)
	}
	p = service("storageUri: pvc://claim/a/b")
	if len(p.InitContainers) != 0 || p.Volumes[0].PersistentVolumeClaim.ClaimName != "claim" || p.Containers[0].VolumeMounts[0].SubPath != "a/b" {
		t.Errorf("mounted: %+v", p)
	}
	p = service("storage: {key: k, path: /m}")
	if ref := p.InitContainers[0].Env[0].ValueFrom.SecretKeyRef; ref.Name != "storage-config" || ref.Key != "k" {
		t.Errorf("with credentials: %+v", p)
	}
}

// TestTheRuntimeIsThePods: a runtime of the user's with more than a server.
func TestTheRuntimeIsThePods(t *testing.T) {
	own := runtimeOf(inferenceService(t, `
metadata: {name: mine}
spec:
  supportedModelFormats: [{name: sklearn, version: "1", autoSelect: true}]
  nodeSelector: {from: runtime}
  tolerations: [{key: theirs}]
  labels: {from: runtime, component: no}
  containers:
  - {name: beside, image: b}
  - {name: kserve-container, image: "server:1", args: ["--name={{.Name}}", "--label={{.Labels.l}}"], env: [{name: E, value: theirs}, {name: F, value: f}]}`), false)
	d := deploymentOf(t, "predictor", `
metadata: {name: m, labels: {l: v}}
spec: {predictor: {nodeSelector: {and: user}, containers: [{name: transformer-container, image: t}],
  model: {modelFormat: {name: sklearn}, runtimeVersion: "2", env: [{name: E, value: mine}]}}}`, own)
	spec := d.Spec.Template.Spec
	var names []string
	for _, c := range spec.Containers {
		names = append(names, c.Name)
	}
	c := spec.Containers[0]
	if !slices.Equal(names, []string{kserveContainer, transformerContainer, "beside"}) || c.Image != "server:2" ||
		!slices.Equal(c.Args, []string{"--name=m", "--label=v"}) || envOf(&c, "E").Value != "mine" || envOf(&c, "F").Value != "f" {
		t.Errorf("the containers: %+v", spec.Containers)
	}
	if spec.NodeSelector["from"] != "runtime" || spec.NodeSelector["and"] != "user" || spec.Tolerations[0].Key != "theirs" ||
		d.Spec.Template.Labels["from"] != "runtime" || d.Spec.Template.Labels["component"] != "predictor" {
		t.Errorf("the pod: %+v", d.Spec.Template)
	}
}

// TestARuntimeWithoutAServerIsInvalid: what KServe says of it.
func TestARuntimeWithoutAServerIsInvalid(t *testing.T) {
	for runtime, want := range map[string]string{
		"containers: []":          noRuntimeContainer,
		"containers: [{name: a}]": "failed to find kserve-container in ServingRuntime containers",
		`containers: [{name: kserve-container, args: ["{{.Nothing}}"]}]`: "failed to replace placeholders in serving runtime mine Container kserve-container",
	} {
		obj := inferenceService(t, `{metadata: {name: m}, spec: {predictor: {model: {modelFormat: {name: f}}}}}`)
		s := statusOf(obj, standard, "now")
		err := s.runOn([]servingRuntime{runtimeOf(inferenceService(t, `
metadata: {name: mine}
spec: {supportedModelFormats: [{name: f, autoSelect: true}], `+runtime+`}`), true)})
		if err == nil {
			_, err = s.child("predictor")
		}
		got, _ := valueAt(s.fields, "modelStatus", "lastFailureInfo", "message").(string)
		if err == nil || got != want {
			t.Errorf("%s: %v, told is %q", runtime, err, got)
		}
	}
}

// TestServersAreToldMore: what SetRuntimeDefaults and UpdateImageTag add for some of KServe's own runtimes.
func TestServersAreToldMore(t *testing.T) {
	pod := func(model string) corev1.Container {
		return deploymentOf(t, "predictor", `{metadata: {name: m}, spec: {predictor: {model: {`+model+`}}}}`).Spec.Template.Spec.Containers[0]
	}
	c := pod("modelFormat: {name: xgboost}, protocolVersion: v2, storageUri: s3://m")
	if envOf(&c, "MLSERVER_MODEL_IMPLEMENTATION").Value != "mlserver_xgboost.XGBoostModel" || envOf(&c, "MLSERVER_MODEL_NAME").Value != "m" {
		t.Errorf("mlserver: %+v", c)
	}
	c = pod("modelFormat: {name: onnx}, protocolVersion: v2")
	if !slices.Contains(c.Args, "--model-control-mode=explicit") {
		t.Errorf("triton: %+v", c)
	}
	c = pod("modelFormat: {name: pytorch}, storageUri: s3://m, resources: {limits: {nvidia.com/gpu: 1}}")
	if !strings.HasSuffix(c.Image, "-gpu") || envOf(&c, "TS_SERVICE_ENVELOPE").Value != "kserve" || envOf(&c, "PROTOCOL_VERSION").Value != "v1" {
		t.Errorf("torchserve: %+v", c)
	}
}

// TestATransformerKnowsThePredictor: it is told where that is, unless the user says so.
func TestATransformerKnowsThePredictor(t *testing.T) {
	const text = `{metadata: {name: m}, spec: {predictor: {containers: [{image: p}]},
		transformer: {serviceAccountName: sa, containers: [{name: t, image: i, args: [--predictor_host=mine]}]}}}`
	d := deploymentOf(t, "transformer", text)
	spec := d.Spec.Template.Spec
	if got := spec.Containers[0].Args; !slices.Equal(got, []string{"--predictor_host=mine", "--model_name", "m", "--http_port", "8080"}) ||
		spec.ServiceAccountName != "sa" || d.Name != "m-transformer" {
		t.Errorf("%+v", d)
	}
	cpu := deploymentOf(t, "predictor", text).Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]
	if cpu.String() != "1" {
		t.Errorf("a container of the user's own requests %s, and not what inferenceservice-config says", cpu.String())
	}
}

// TestALoggerBringsTheAgent: beside the server is the agent, which knows where the server is, where payloads go, and by what to verify
// their receiver; without a logger there is none.
func TestALoggerBringsTheAgent(t *testing.T) {
	const text = `{metadata: {name: m}, spec: {predictor: {%s model: {modelFormat: {name: sklearn}, storageUri: s3://a}}}}`
	with := func(more string) corev1.PodSpec {
		return deploymentOf(t, "predictor", strings.Replace(text, "%s", more, 1)).Spec.Template.Spec
	}
	if spec := with(""); len(spec.Containers) != 1 || len(spec.Volumes) != 1 {
		t.Errorf("without a logger: %+v", spec)
	}
	spec := with("logger: {mode: all, url: https://there},")
	agent := spec.Containers[len(spec.Containers)-1]
	args := strings.Join(agent.Args, " ")
	for _, want := range []string{
		"--log-url https://there ", "--log-mode all --inference-service m --namespace ns ", "--component predictor ",
		"--logger-ca-cert-file service-ca.crt --logger-tls-skip-verify false --component-port 8080",
	} {
		if !strings.Contains(args, want) {
			t.Errorf("it is not told %s: %s", want, args)
		}
	}
	volume := spec.Volumes[len(spec.Volumes)-1]
	if agent.Name != "agent" || len(agent.Env) != 1 || !strings.Contains(agent.Env[0].Value, "tcpSocket") || agent.Ports[0].ContainerPort != 9081 ||
		agent.VolumeMounts[0].Name != volume.Name || agent.VolumeMounts[0].MountPath != "/etc/tls/logger" ||
		volume.ConfigMap.Name != "kserve-logger-ca-bundle" || !*volume.ConfigMap.Optional {
		t.Errorf("the agent is %+v, its volume %+v", agent, volume)
	}
	if got := with("batcher: {maxBatchSize: 8},").Containers[1].Args; !slices.Equal(got[:3], []string{"--enable-batcher", "--max-batchsize", "8"}) {
		t.Errorf("a batcher is told %v", got)
	}
}

// TestOnlyWhatIsThePodsMakesAnotherTemplate: scaling restarts nothing, another model or logger does.
func TestOnlyWhatIsThePodsMakesAnotherTemplate(t *testing.T) {
	const text = `{metadata: {name: m}, spec: {predictor: {%s model: {modelFormat: {name: sklearn}, storageUri: s3://a}}}}`
	with := func(more string) string {
		return deploymentOf(t, "predictor", strings.Replace(text, "%s", more, 1)).Annotations[templateAnnotation]
	}
	before := with("")
	for _, same := range []string{"minReplicas: 3,", "maxReplicas: 5,", "scaleTarget: 7, scaleMetric: cpu,"} {
		if with(same) != before {
			t.Errorf("%s makes another template", same)
		}
	}
	for _, other := range []string{"nodeSelector: {a: b},", "logger: {mode: all, url: http://there},", "deploymentStrategy: {type: Recreate},"} {
		if with(other) == before {
			t.Errorf("%s makes the same template", other)
		}
	}
	moved := deploymentOf(t, "predictor", strings.NewReplacer("%s", "", "s3://a", "s3://b").Replace(text))
	if moved.Annotations[templateAnnotation] == before {
		t.Error("another model makes the same template")
	}
}

// TestARefusedChildIsTold: a child that the API server refuses leaves its component not ready, with the reason.
func TestARefusedChildIsTold(t *testing.T) {
	s := statusOf(object(), standard, "now")
	s.refused("predictor", errors.New("not allowed"))
	if got := s.get(readyCondition); got != (condition{isFalse, "ReconcileFailed", "fails to reconcile predictor: not allowed"}) {
		t.Errorf("Ready is %+v", got)
	}
}

// TestShippedRuntimesServe: each has the server that is merged with the model.
func TestShippedRuntimesServe(t *testing.T) {
	if len(builtin) != 11 {
		t.Errorf("there are %d runtimes", len(builtin))
	}
	for _, r := range builtin {
		if len(r.pod.Containers) != 1 || r.pod.Containers[0].Name != kserveContainer || !strings.HasPrefix(r.pod.Containers[0].Image, domain+"/") || len(r.formats) == 0 {
			t.Errorf("%s: %+v", r.name, r.pod)
		}
	}
}

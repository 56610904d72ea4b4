package standin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// The pods of a component are those that KServe 0.17.0 makes (pkg/controller/v1beta1/inferenceservice/components and utils/utils.go): of
// the runtime with what the user says merged over it. Left out are the containers of several nodes and of OCI images.

const (
	internalPrefix = "internal.serving.kserve.io/"
	// transformerContainer is the container of a transformer beside the predictor, in its pods.
	transformerContainer = "transformer-container"
	// noRuntimeContainer is ErrNoContainerFound.
	noRuntimeContainer = "no container configuration found in selected serving runtime"
)

// componentSpec is what of a component makes its pods.
type componentSpec struct {
	corev1.PodSpec `json:",inline"`

	Labels               map[string]string `json:"labels"`
	Annotations          map[string]string `json:"annotations"`
	Model                *modelSpec        `json:"model"`
	ART                  *corev1.Container `json:"art"`
	ContainerConcurrency *int64            `json:"containerConcurrency"`
	StorageURIs          []storageURI      `json:"storageUris"`
	Logger               *struct {
		URL                 *string  `json:"url"`
		Mode                string   `json:"mode"`
		MetadataHeaders     []string `json:"metadataHeaders"`
		MetadataAnnotations []string `json:"metadataAnnotations"`
	} `json:"logger"`
	// Batcher collects requests before they are passed on.
	Batcher *struct {
		MaxBatchSize *int `json:"maxBatchSize"`
		MaxLatency   *int `json:"maxLatency"`
	} `json:"batcher"`
}

// modelSpec is a model: a container, and what says which runtime fills in the rest of it.
type modelSpec struct {
	corev1.Container `json:",inline"`

	ModelFormat struct {
		Name string `json:"name"`
	} `json:"modelFormat"`
	RuntimeVersion  *string       `json:"runtimeVersion"`
	StorageURI      *string       `json:"storageUri"`
	Storage         *modelStorage `json:"storage"`
	ProtocolVersion string        `json:"protocolVersion"`
}

type storageURI struct {
	URI       string `json:"uri"`
	MountPath string `json:"mountPath"`
}

// modelStorage names an entry of the Secret with the storages of a namespace.
type modelStorage struct {
	Key        *string           `json:"key"`
	Path       *string           `json:"path"`
	Parameters map[string]string `json:"parameters"`
}

// decode reads a part of an object into its type.
func decode(in, out any) error {
	text, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	return err
}

// madePod is what the template of a component's pods becomes.
type madePod struct {
	meta metav1.ObjectMeta
	spec corev1.PodSpec
}

// template is the template of a component's pods. What is wrong with a predictor is told as of an invalid spec; the error ends the
// reconcile.
func (s *serviceStatus) template(component string) (map[string]any, error) {
	declared, _, _ := unstructured.NestedMap(s.service.Object, "spec", component)
	spec := componentSpec{}
	if err := decode(declared, &spec); err != nil {
		return nil, err
	}
	made := madePod{
		meta: metav1.ObjectMeta{
			Name: s.service.GetName(), Namespace: s.service.GetNamespace(), Labels: maps.Clone(s.service.GetLabels()), Annotations: s.service.GetAnnotations(),
		},
		spec: spec.PodSpec,
	}
	if made.meta.Labels == nil {
		made.meta.Labels = map[string]string{}
	}
	uris := spec.StorageURIs
	switch {
	case component == "predictor" && spec.Model != nil:
		if err := s.modelPod(&made, &spec); err != nil {
			return nil, err
		}
		if uri := spec.Model.uri(); uri != "" {
			uris = append(uris, storageURI{uri, modelPath})
		}
	case component == "predictor":
		ownContainer(&made.spec, kserveContainer)
	default:
		besidePod(&made, &spec, component)
	}
	if len(made.spec.Containers) == 0 {
		return nil, errors.New(exactlyOne[component])
	}
	if component != "predictor" || spec.Model == nil {
		if uri := envOf(&made.spec.Containers[0], "STORAGE_URI"); uri != nil && uri.Value != "" {
			uris, uri.Value = append(uris, storageURI{uri.Value, modelPath}), modelPath
		}
	}
	nameService(&made, component)
	provide(&made, uris, spec.Model)
	if s.mode == standard {
		probe(&made.spec)
		if err := injectAgent(&made, &spec, component); err != nil {
			return nil, err
		}
	}
	return s.render(&made, &spec, component)
}

// modelPod merges what the user says of a model over its runtime (predictor.go, buildPodSpec).
func (s *serviceStatus) modelPod(made *madePod, spec *componentSpec) error {
	model, own := spec.Model, spec.PodSpec
	s.runtime.defaults(model, made.meta.Name, made.meta.Labels)
	at := slices.IndexFunc(s.runtime.pod.Containers, func(c corev1.Container) bool { return c.Name == kserveContainer })
	if at < 0 {
		message := "failed to find " + kserveContainer + " in ServingRuntime containers"
		if len(s.runtime.pod.Containers) == 0 {
			message = noRuntimeContainer
		}
		return s.invalidPredictor(message)
	}
	var merged corev1.PodSpec
	containers, err := s.runtime.containers(at, model.Container, own.Containers)
	if err == nil {
		own.Containers = nil
		merged, err = mergeOver(s.runtime.podSpec(), own)
	}
	if err != nil {
		return s.invalidPredictor("failed to merge container. Detail: " + err.Error())
	}
	for i := range containers[:min(2, len(containers))] {
		if err := fillIn(&containers[i], made.meta); err != nil {
			return s.invalidPredictor(fmt.Sprintf("failed to replace placeholders in serving runtime %s Container %s", s.runtime.name, containers[i].Name))
		}
	}
	retag(&containers[0], model.RuntimeVersion, s.runtime.name)
	merged.Containers = containers
	made.spec = merged
	return nil
}

// containers are those of a predictor: the runtime's for the model, that of a transformer beside it, those of the runtime, and those
// of the user.
func (r *servingRuntime) containers(at int, model corev1.Container, own []corev1.Container) ([]corev1.Container, error) {
	first, err := mergeContainer(r.pod.Containers[at], model)
	if err != nil {
		return nil, err
	}
	isTransformer := func(c corev1.Container) bool { return c.Name == transformerContainer }
	out := []corev1.Container{first}
	theirs, users := slices.IndexFunc(r.pod.Containers, isTransformer), slices.IndexFunc(own, isTransformer)
	switch {
	case theirs >= 0 && users >= 0:
		beside, err := mergeContainer(r.pod.Containers[theirs], own[users])
		if err != nil {
			return nil, err
		}
		out = append(out, beside)
	case theirs >= 0:
		out = append(out, r.pod.Containers[theirs])
	case users >= 0:
		out = append(out, own[users])
	}
	for _, c := range r.pod.Containers {
		if c.Name != kserveContainer && c.Name != transformerContainer {
			out = append(out, c)
		}
	}
	for _, c := range own {
		if c.Name != transformerContainer {
			out = append(out, c)
		}
	}
	return out, nil
}

// mergeContainer is MergeRuntimeContainers: a strategic merge, but that arguments are added.
func mergeContainer(runtime, over corev1.Container) (corev1.Container, error) {
	out, err := mergeOver(runtime, over)
	if out.Name == "" {
		out.Name = runtime.Name
	}
	out.Args = slices.Concat(runtime.Args, over.Args)
	return out, err
}

func mergeOver[T any](base, over T) (T, error) {
	var out T
	a, err := json.Marshal(base)
	if err != nil {
		return out, err
	}
	b, err := json.Marshal(over)
	if err != nil {
		return out, err
	}
	merged, err := strategicpatch.StrategicMergePatch(a, b, out)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(merged, &out)
}

// defaults is SetRuntimeDefaults: what some servers are told beside what the runtime says.
func (r *servingRuntime) defaults(model *modelSpec, name string, labels map[string]string) {
	stored := model.StorageURI != nil || model.Storage != nil
	set := func(key, value string) {
		if envOf(&model.Container, key) == nil {
			model.Env = append(model.Env, corev1.EnvVar{Name: key, Value: value})
		}
	}
	switch r.serverType {
	case "mlserver":
		if stored {
			set("MLSERVER_MODEL_NAME", name)
			set("MLSERVER_MODEL_URI", modelPath)
		} else {
			set("MLSERVER_LOAD_MODELS_AT_STARTUP", "false")
		}
		labels["modelClass"] = map[string]string{
			"xgboost": "mlserver_xgboost.XGBoostModel", "lightgbm": "mlserver_lightgbm.LightGBMModel", "mlflow": "mlserver_mlflow.MLflowRuntime",
		}[model.ModelFormat.Name]
		if labels["modelClass"] == "" {
			labels["modelClass"] = "mlserver_sklearn.SKLearnModel"
		}
	case "tritonserver":
		if !stored {
			model.Args = append(model.Args, "--model-control-mode=explicit")
		}
	case "torchserve":
		if model.ProtocolVersion == "" {
			model.ProtocolVersion = "v1"
		}
		labels["serviceEnvelope"] = "kserve"
		if model.ProtocolVersion == "v2" || model.ProtocolVersion == "grpc-v2" {
			labels["serviceEnvelope"] = "kservev2"
		}
		model.Env = append(model.Env, corev1.EnvVar{Name: "PROTOCOL_VERSION", Value: model.ProtocolVersion})
	}
}

// podSpec is what MergePodSpec takes of a runtime.
func (r *servingRuntime) podSpec() corev1.PodSpec {
	p := r.pod
	return corev1.PodSpec{
		NodeSelector: p.NodeSelector, Affinity: p.Affinity, Tolerations: p.Tolerations, Volumes: p.Volumes,
		ImagePullSecrets: p.ImagePullSecrets, SchedulerName: p.SchedulerName,
	}
}

// fillIn is ReplacePlaceholders.
func fillIn(c *corev1.Container, meta metav1.ObjectMeta) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	filler, err := template.New("container").Parse(string(text))
	if err != nil {
		return err
	}
	out := bytes.Buffer{}
	if err := filler.Execute(&out, meta); err != nil {
		return err
	}
	*c = corev1.Container{}
	return json.Unmarshal(out.Bytes(), c)
}

var imageTag = regexp.MustCompile(`(:([\w.\-_]*))$`)

// retag is UpdateImageTag: the version that the user asks for, or the image for a GPU of the runtimes that have one.
func retag(c *corev1.Container, version *string, runtime string) {
	tagged := imageTag.MatchString(c.Image)
	gpu := slices.ContainsFunc(slices.Collect(maps.Keys(c.Resources.Limits)), func(name corev1.ResourceName) bool {
		return name == "nvidia.com/gpu" || strings.HasPrefix(string(name), "nvidia.com/mig")
	})
	forGPU := []string{"kserve-tensorflow-serving", "kserve-torchserve", "kserve-huggingfaceserver"}
	switch {
	case strings.Contains(c.Image, "@sha256:"):
	case version != nil && tagged:
		c.Image = imageTag.ReplaceAllString(c.Image, ":"+*version)
	case version != nil:
		c.Image += ":" + *version
	case gpu && tagged && slices.Contains(forGPU, runtime) && !strings.HasSuffix(c.Image, "-gpu"):
		c.Image += "-gpu"
	}
}

// ownContainer makes the container of a name the first, in place of the one that is (predictor.go, Reconcile).
func ownContainer(spec *corev1.PodSpec, name string) {
	for i := range spec.Containers {
		if spec.Containers[i].Name == name {
			spec.Containers[0] = spec.Containers[i]
			return
		}
	}
}

// besidePod is the pod of a transformer or an explainer, whose server is told where the predictor is (transformer_custom.go,
// explainer_custom.go and explainer_art.go, GetContainer).
func besidePod(made *madePod, spec *componentSpec, component string) {
	if spec.ART != nil && len(made.spec.Containers) == 0 {
		c := *spec.ART
		c.Name = kserveContainer
		made.spec.Containers = []corev1.Container{c}
	}
	if len(made.spec.Containers) == 0 {
		return
	}
	c := &made.spec.Containers[0]
	told := func(name string) bool {
		return slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, name) })
	}
	for _, arg := range [][2]string{
		{"--model_name", made.meta.Name},
		{"--predictor_host", made.meta.Name + "-predictor." + made.meta.Namespace},
		{"--http_port", "8080"},
	} {
		if !told(arg[0]) || component == "explainer" && arg[0] == "--http_port" {
			c.Args = append(c.Args, arg[0], arg[1])
		}
	}
	if !told("--workers") && spec.ContainerConcurrency != nil {
		c.Args = append(c.Args, "--workers", strconv.FormatInt(*spec.ContainerConcurrency, 10))
	}
}

// nameService tells the containers which service is theirs: all of a predictor, and the first of a transformer.
func nameService(made *madePod, component string) {
	to := made.spec.Containers
	switch component {
	case "transformer":
		to = to[:1]
	case "explainer":
		return
	}
	const key = "INFERENCE_SERVICE_NAME"
	for i := range to {
		if env := envOf(&to[i], key); env != nil {
			env.Value = made.meta.Name
		} else {
			to[i].Env = append(to[i].Env, corev1.EnvVar{Name: key, Value: made.meta.Name})
		}
	}
}

// envOf is a variable of a container, nil where there is none.
func envOf(c *corev1.Container, name string) *corev1.EnvVar {
	for i := range c.Env {
		if c.Env[i].Name == name {
			return &c.Env[i]
		}
	}
	return nil
}

// probe gives the containers that serve a readiness probe where they have none (deployment_reconciler.go, setDefaultPodSpec).
func probe(spec *corev1.PodSpec) {
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if c.ReadinessProbe != nil || c.Name != kserveContainer && c.Name != transformerContainer {
			continue
		}
		port := int32(8080)
		if len(c.Ports) > 0 {
			port = c.Ports[0].ContainerPort
		}
		c.ReadinessProbe = &corev1.Probe{
			ProbeHandler:   corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}},
			TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
		}
	}
}

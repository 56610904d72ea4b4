package convert

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

const (
	// tensorflowRuntime is the runtime of KServe that runs TensorFlow Serving, and tensorflowFormat the format that chooses it.
	tensorflowRuntime, tensorflowFormat = "kserve-tensorflow-serving", "tensorflow"
	// The ports of that runtime.
	kserveRESTPort, kserveGRPCPort = 8080, 9000
	// modelPath is where a volume with a model is mounted.
	modelPath = "/models"
)

// inferenceService converts one of KServe.
func (c *conversion) inferenceService() {
	path := c.framework()
	if path == nil {
		return
	}
	c.out.Spec.RestPort, c.out.Spec.GrpcPort = ptr.To(int32(kserveRESTPort)), ptr.To(int32(kserveGRPCPort))
	c.out.Spec.ServiceType = corev1.ServiceTypeClusterIP
	version := c.text(append(path, "runtimeVersion")...)
	c.container(path...)
	if c.out.Spec.Image == "" && version != "" {
		c.out.Spec.Image = "tensorflow/serving:" + version
	}
	c.variables(append(path, "env"))
	c.storage(path)
	c.frameworkRest(path)
	c.pod("spec", "predictor")
	if labels, ok := decode[map[string]string](c, "spec", "predictor", "labels"); ok {
		c.podLabels("spec.predictor.labels", *labels, nil)
	}
	c.podAnnotations("spec", "predictor", "annotations")
	c.kserveScale()
	c.batcher()
	c.kserveAnnotations()
	if _, found := c.left.take("spec", "predictor", "canaryTrafficPercent"); found {
		c.warn("spec.predictor.canaryTrafficPercent", "is not converted: KServe splits between two revisions of the InferenceService, of which "+
			"this is one; put both versions into one base path, and give one of them a share with spec.canary")
	}
	if c.out.Spec.ServiceAccountName != "" && len(c.out.Spec.Models) > 0 && strings.HasPrefix(c.out.Spec.Models[0].BasePath, "gs://") {
		c.warn("spec.predictor.serviceAccountName", "name the Secret with the key of Google Cloud Storage in spec.secretName, unless the "+
			"ServiceAccount has a cloud identity: MLKeeper does not read the Secrets of a ServiceAccount")
	}
}

// framework is the path of what says which model is served; nil where it is none of TensorFlow's.
func (c *conversion) framework() []string {
	predictor, _ := c.left.object["spec"].(map[string]any)
	inner, _ := predictor["predictor"].(map[string]any)
	if _, found := inner["tensorflow"].(map[string]any); found {
		return []string{"spec", "predictor", "tensorflow"}
	}
	path := []string{"spec", "predictor", "model"}
	if _, found := inner["model"].(map[string]any); !found {
		c.fail("spec.predictor", "has neither tensorflow nor model: only models of TensorFlow can be converted")
		return nil
	}
	format := c.text(append(path, "modelFormat", "name")...)
	// The version of the format chooses among runtimes only.
	c.left.drop(append(path, "modelFormat", "version")...)
	runtime := c.text(append(path, "runtime")...)
	switch {
	case format != tensorflowFormat:
		c.fail("spec.predictor.model.modelFormat.name", "is %q: only models of the format %q can be converted", format, tensorflowFormat)
		return nil
	case runtime != "" && runtime != tensorflowRuntime:
		c.warn("spec.predictor.model.runtime", "%q is a runtime of yours, whose image, arguments and resources are not known here", runtime)
	}
	return path
}

// storage converts where the model is.
func (c *conversion) storage(path []string) {
	field := slices.Concat(path, []string{"storageUri"})
	uri := c.text(field...)
	model := v1alpha1.Model{Name: strings.TrimSuffix(c.out.Name, c.options.Suffix)}
	switch {
	case uri == "":
		if _, found := c.left.take(append(path, "storage")...); found {
			c.fail(join(append(path, "storage")), "the Secret storage-config has the URI: write it into storageUri")
			return
		}
		c.fail(join(field), "is missing: only a model in a storage can be converted")
		return
	case strings.HasPrefix(uri, "pvc://"):
		claim, folder, _ := strings.Cut(strings.TrimPrefix(uri, "pvc://"), "/")
		c.out.Spec.ModelVolume = &v1alpha1.ModelVolumeSpec{ClaimName: claim, SubPath: strings.Trim(folder, "/")}
		model.BasePath = modelPath
	case strings.HasPrefix(uri, "gs://"):
		model.BasePath = uri
	case strings.HasPrefix(uri, "s3://"):
		model.BasePath = uri
		c.s3(join(field))
	default:
		c.fail(join(field), "%q cannot be served: TensorFlow Serving reads gs:// and volumes, and MLKeeper downloads from s3://; put the folder "+
			"above the version folders into one of these", uri)
		return
	}
	c.out.Spec.Models = []v1alpha1.Model{model}
}

// frameworkRest converts what else the server has.
func (c *conversion) frameworkRest(path []string) {
	if v, found := c.left.take(append(path, "protocolVersion")...); found && v != "v1" && v != "grpc-v1" {
		c.warn(join(append(path, "protocolVersion")), "%v is not spoken by TensorFlow Serving, which has v1 and grpc-v1", v)
	}
	if _, found := c.left.take(append(path, "ports")...); found {
		c.note(join(append(path, "ports")), "a Tfserv always has both ports: %d for REST and %d for gRPC", kserveRESTPort, kserveGRPCPort)
	}
	c.arguments(append(path, "args"), c.common())
	c.perModelBatching(join(append(path, "args")))
}

// kserveScale converts the number of pods.
func (c *conversion) kserveScale() {
	at := func(field string) []string { return []string{"spec", "predictor", field} }
	least, hasLeast := c.number(at("minReplicas")...)
	most, hasMost := c.number(at("maxReplicas")...)
	target, hasTarget := c.number(at("scaleTarget")...)
	metric := c.text(at("scaleMetric")...)
	raw, triggers := c.rawDeployment(), c.kserveTriggers()
	switch {
	case hasLeast && least == 0 && measurable(triggers):
	case hasLeast && least == 0:
		c.warn(join(at("minReplicas")), "0 is not converted, since nothing would start the first pod again: 1 is used")
		least = 1
	case !hasLeast:
		least = 1
	}
	if len(triggers) > 0 {
		c.kedaScale(triggers, c.within(join(at("minReplicas")), least), c.within(join(at("maxReplicas")), most))
		return
	}
	c.out.Spec.Replicas = ptr.To(c.within(join(at("minReplicas")), least))
	if !raw && most == 0 {
		// KServe sets the annotation max-scale for another number only (ksvc_reconciler.go), and without it Knative has no limit.
		c.warn(join(at("maxReplicas")), "is not set, so that Knative adds pods without a limit under load, and the Tfserv has %d: say in "+
			"spec.autoscaling how many it may have", *c.out.Spec.Replicas)
		return
	}
	if !hasMost || most <= least {
		if hasTarget || metric != "" {
			c.note("spec.predictor", "scaleTarget and scaleMetric have no effect, since the number of pods is fixed")
		}
		return
	}
	if metric != "cpu" && (metric != "" || !raw) {
		c.warn(join(at("scaleMetric")), "%q is not converted: the HorizontalPodAutoscaler goes by CPU", cmp.Or(metric, "concurrency"))
		hasTarget = false
	}
	a := &v1alpha1.AutoscalingSpec{MinReplicas: c.out.Spec.Replicas, MaxReplicas: c.within(join(at("maxReplicas")), most)}
	if hasTarget {
		a.TargetCPUUtilizationPercentage = ptr.To(c.within(join(at("scaleTarget")), max(target, 1)))
	}
	c.out.Spec.Autoscaling = a
	c.left.dropEqual("Utilization", at("scaleMetricType")...)
}

// rawDeployment says that KServe runs the predictor as a Deployment, and not by Knative.
func (c *conversion) rawDeployment() bool {
	switch c.annotation("serving.kserve.io/deploymentMode") {
	case "RawDeployment", "Standard":
		return true
	}
	return false
}

// annotation takes an annotation out.
func (c *conversion) annotation(name string) string {
	return c.text("metadata", "annotations", name)
}

// batcher converts KServe's batching, which its agent does, to that of the server.
func (c *conversion) batcher() {
	at := func(field string) []string { return []string{"spec", "predictor", "batcher", field} }
	size, hasSize := c.number(at("maxBatchSize")...)
	latency, hasLatency := c.number(at("maxLatency")...)
	if !hasSize && !hasLatency {
		return
	}
	b := cmp.Or(c.out.Spec.Batching, &v1alpha1.BatchingSpec{})
	if hasSize {
		b.MaxBatchSize = ptr.To(max(size, 1))
	}
	if hasLatency {
		b.BatchTimeoutMicros = ptr.To(max(latency, 0) * 1000)
	}
	c.out.Spec.Batching = b
	c.note("spec.predictor.batcher", "TensorFlow Serving itself joins the requests, for gRPC too")
}

// kserveAnnotations converts annotations that mean something to KServe.
func (c *conversion) kserveAnnotations() {
	scraping := c.annotation("serving.kserve.io/enable-prometheus-scraping")
	aggregated := c.annotation("serving.kserve.io/enable-metric-aggregation")
	if scraping == "true" || aggregated == "true" {
		c.out.Spec.Monitoring = &v1alpha1.MonitoringSpec{}
		c.note("metadata.annotations", "the metrics are those of TensorFlow Serving at its own path, and a ServiceMonitor scrapes them")
	}
}

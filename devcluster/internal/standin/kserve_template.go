package standin

import (
	"errors"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// modelPath is where a container finds its model.
	modelPath = "/mnt/models"
	// storageSecret is the Secret with the storages of a namespace (storageSpecSecretName of inferenceservice-config).
	storageSecret = "storage-config"
)

// disallowed is ServiceAnnotationDisallowedList, without those of Knative's autoscaler.
var disallowed = []string{
	"autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/max-scale", internalPrefix + "storage-initializer-sourceuri",
	"kubectl.kubernetes.io/last-applied-configuration", "modelFormat",
}

// invalidPredictor tells that no pod can be made of a predictor.
func (s *serviceStatus) invalidPredictor(message string) error {
	s.invalid("InvalidPredictorSpec", message)
	return errors.New(message)
}

// uri is where a model is; empty where it comes with its image.
func (m *modelSpec) uri() string {
	switch {
	case m.StorageURI != nil:
		return *m.StorageURI
	case m.Storage != nil && m.Storage.Path != nil:
		// The scheme is that of the Secret's entry (component.go, addStorageSpecAnnotations).
		return "<scheme-placeholder>://" + strings.TrimPrefix(*m.Storage.Path, "/")
	}
	return ""
}

// provide has the model brought to where the containers look for it: a claim is mounted, and from elsewhere an init container
// fetches it (pkg/webhook/admission/pod, storage_initializer_injector.go, CommonStorageInitialization). KServe's webhook of pods adds
// that to the pods, and here it is in their template. Credentials are only looked for where the model names them.
func provide(made *madePod, uris []storageURI, model *modelSpec) {
	readOnly := made.meta.Annotations["storage.kserve.io/readonly"] != "false"
	var args []string
	for _, one := range uris {
		at, isClaim := strings.CutPrefix(one.URI, "pvc://")
		if !isClaim {
			args = append(args, one.URI, one.MountPath)
			continue
		}
		claim, path, _ := strings.Cut(at, "/")
		mount(&made.spec, corev1.VolumeMount{Name: volumeName("kserve-pvc-source", one.MountPath), MountPath: one.MountPath, SubPath: path, ReadOnly: readOnly},
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
	}
	if len(args) == 0 {
		return
	}
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi")}
	fetcher := corev1.Container{
		Name: "storage-initializer", Image: domain + "/storage-initializer", Args: args,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Resources:                corev1.ResourceRequirements{Limits: limits, Requests: requests},
	}
	if model != nil && model.Storage != nil && model.Storage.Key != nil {
		// A key that is not there is an error (pkg/credentials/service_account_credentials.go, CreateStorageSpecSecretEnvs).
		fetcher.Env = append(fetcher.Env, corev1.EnvVar{Name: "STORAGE_CONFIG", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: storageSecret}, Key: *model.Storage.Key},
		}})
	}
	for i := 1; i < len(args); i += 2 {
		at := corev1.VolumeMount{Name: volumeName("kserve-provision-location", args[i]), MountPath: args[i], ReadOnly: readOnly}
		mount(&made.spec, at, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
		at.ReadOnly = false
		fetcher.VolumeMounts = append(fetcher.VolumeMounts, at)
	}
	made.spec.InitContainers = append(made.spec.InitContainers, fetcher)
}

// volumeName is the name of the volume with a model: one for the ordinary place, others by theirs (GetVolumeNameFromPath).
func volumeName(ordinary, path string) string {
	if path == modelPath {
		return ordinary
	}
	return strings.ReplaceAll(strings.Trim(path, "/"), "/", "-")
}

// mount adds a volume to a pod, and mounts it in the containers that serve.
func mount(spec *corev1.PodSpec, at corev1.VolumeMount, source corev1.VolumeSource) {
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: at.Name, VolumeSource: source})
	for i := range spec.Containers {
		if name := spec.Containers[i].Name; name == kserveContainer || name == transformerContainer {
			spec.Containers[i].VolumeMounts = append(spec.Containers[i].VolumeMounts, at)
		}
	}
}

// render is the template with labels and annotations: those of the runtime, of the service and of the component, one over the other
// (predictor.go, buildObjectMeta).
func (s *serviceStatus) render(made *madePod, spec *componentSpec, component string) (map[string]any, error) {
	labels, annotations := map[string]string{}, map[string]string{}
	if component == "predictor" && spec.Model != nil {
		maps.Copy(labels, s.runtime.pod.Labels)
		maps.Copy(annotations, s.runtime.pod.Annotations)
	}
	maps.Copy(labels, made.meta.Labels)
	maps.Copy(labels, spec.Labels)
	maps.Copy(annotations, made.meta.Annotations)
	maps.Copy(annotations, spec.Annotations)
	for _, key := range disallowed {
		delete(annotations, key)
	}
	spec.annotate(annotations)
	labels[serviceLabel], labels[componentLabel], labels["app"] = s.service.GetName(), component, "isvc."+s.service.GetName()+"-"+component
	pod, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&made.spec)
	if err != nil {
		return nil, err
	}
	return map[string]any{"metadata": map[string]any{"labels": anyOf(labels), "annotations": anyOf(annotations)}, "spec": pod}, nil
}

// annotate adds what KServe's webhook of pods goes by (component.go, addLoggerAnnotations and the like).
func (c *componentSpec) annotate(annotations map[string]string) {
	set := func(key, value string) { annotations[internalPrefix+key] = value }
	if l := c.Logger; l != nil {
		set("logger", "true")
		set("logger-mode", l.Mode)
		if l.URL != nil {
			set("logger-sink-url", *l.URL)
		}
		if l.MetadataHeaders != nil {
			set("logger-metadata-headers", strings.Join(l.MetadataHeaders, ","))
		}
		if l.MetadataAnnotations != nil {
			set("logger-metadata-annotations", strings.Join(l.MetadataAnnotations, ","))
		}
	}
	if b := c.Batcher; b != nil {
		set("batcher", "true")
		for key, value := range map[string]*int{"batcher-max-batchsize": b.MaxBatchSize, "batcher-max-latency": b.MaxLatency} {
			if value != nil {
				set(key, strconv.Itoa(*value))
			}
		}
	}
	if m := c.Model; m != nil {
		if uri := m.uri(); uri != "" {
			set("storage-initializer-sourceuri", uri)
		}
		if m.Storage != nil {
			set("storage-spec", "true")
		}
	}
}

package tfserving

import (
	"cmp"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/workload"
)

const (
	// configHashAnnotation and credentialsAnnotation roll the pods when what they read once at their start changes, and restartedAnnotation when
	// they would not read again what they read again and again.
	configHashAnnotation  = "servapi.dev-state.com/config-hash"
	credentialsAnnotation = "servapi.dev-state.com/credentials-digest" //nolint:gosec // The name of an annotation.
	restartedAnnotation   = "servapi.dev-state.com/restart"

	// user runs the server where no constraints of OpenShift choose one; the image has none, and would run as root.
	user = 1000
	// probePeriod is how many seconds are between two probes.
	probePeriod = 5
	// privileged is the first port that needs no privilege.
	privileged = 1024
)

// deployment renders the Deployment of the tutorial under its names.
func (r *renderer) deployment() {
	meta := r.meta(r.cr.Name)
	meta.Annotations = map[string]string{hashAnnotation: r.configs.hash}
	if uses := r.configs.uses(); uses != "" {
		meta.Annotations[configAnnotation] = uses
	}
	if !r.configs.earlier {
		meta.Annotations[templateAnnotation] = templateForm
		meta.Annotations[inputsAnnotation] = r.plan.Inputs
	}
	for name, restart := range map[string]string{restartAnnotation: r.facts.Restart, nextRestartAnnotation: r.facts.NextRestart} {
		if restart != "" {
			meta.Annotations[name] = restart
		}
	}
	mode, autoscaled := r.replicasMode()
	if autoscaled != "" {
		meta.Annotations[autoscaledAnnotation] = autoscaled
	}
	o := plan.Typed(gvkDeployment, &appsv1.Deployment{
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas:                r.replicas(),
			Selector:                &metav1.LabelSelector{MatchLabels: podLabels(r.cr)},
			Strategy:                r.strategy(),
			ProgressDeadlineSeconds: ptr.To(r.progressDeadline()),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: r.templateLabels(), Annotations: r.templateAnnotations()},
				Spec:       r.pod(),
			},
		},
	})
	o.Replicas = mode
	r.add(o)
}

// pod renders the pod, within the restricted Pod Security Standard unless the owner chose otherwise (defect 12).
func (r *renderer) pod() corev1.PodSpec {
	spec := r.cr.Spec
	pod := corev1.PodSpec{
		InitContainers:                append(r.tlsInit(), r.downloads()...),
		Containers:                    []corev1.Container{r.server()},
		Volumes:                       r.volumes(),
		ImagePullSecrets:              spec.ImagePullSecrets,
		ServiceAccountName:            spec.ServiceAccountName,
		PriorityClassName:             spec.PriorityClassName,
		SecurityContext:               r.podSecurity(),
		TerminationGracePeriodSeconds: ptr.To(gracePeriod(r.cr)),
	}
	if spec.RuntimeClassName != "" {
		pod.RuntimeClassName = ptr.To(spec.RuntimeClassName)
	}
	if spec.ServiceAccountName == "" {
		pod.AutomountServiceAccountToken = ptr.To(false)
	}
	workload.Schedule(&pod, spec.Scheduling)
	return pod
}

func (r *renderer) podSecurity() *corev1.PodSecurityContext {
	if own := r.cr.Spec.PodSecurityContext; own != nil {
		return own
	}
	out := workload.RestrictedPod()
	if !r.facts.Constraints {
		out.RunAsUser, out.RunAsGroup, out.FSGroup = ptr.To(int64(user)), ptr.To(int64(user)), ptr.To(int64(user))
		out.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
	}
	if grpcPort(r.cr) < privileged || restPort(r.cr) < privileged {
		out.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
	}
	return out
}

// image is the one of the spec, or the operator's for CPUs or GPUs.
func (r *renderer) image() string {
	if r.cr.Spec.Image != "" {
		return r.cr.Spec.Image
	}
	if usesNVIDIA(r.cr.Spec.Resources) {
		return r.settings.GPUImage
	}
	if usesGPU(r.cr.Spec.Resources) {
		r.warn("spec.image is not set, and the operator's images are none for %s: set spec.image to one that is", amdGPU)
	}
	return r.settings.Image
}

// server renders the container of the tutorial, with its command and arguments first.
func (r *renderer) server() corev1.Container {
	spec := r.cr.Spec
	port := func(n int32) corev1.ContainerPort {
		return corev1.ContainerPort{ContainerPort: n, Protocol: corev1.ProtocolTCP}
	}
	c := corev1.Container{
		Name:            mainContainer,
		Image:           r.image(),
		ImagePullPolicy: cmp.Or(spec.ImagePullPolicy, corev1.PullIfNotPresent),
		Command:         []string{serverCommand},
		Args:            r.args(),
		Env:             r.environment(),
		Ports:           []corev1.ContainerPort{port(grpcPort(r.cr)), port(restPort(r.cr))},
		VolumeMounts:    r.mounts(),
		StartupProbe:    r.startupProbe(),
		ReadinessProbe:  r.readinessProbe(),
		LivenessProbe:   r.livenessProbe(),
		// The endpoints learn of a deletion later than the server.
		Lifecycle:       &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: drain}}},
		SecurityContext: spec.SecurityContext,
	}
	if c.SecurityContext == nil {
		c.SecurityContext = workload.RestrictedContainer()
	}
	if spec.Resources != nil {
		c.Resources = *spec.Resources.DeepCopy()
	}
	c.TerminationMessagePolicy = r.lastWords()
	return c
}

// lastWords has the end of the log of a container that fails in the status of the pod, and so in that of the custom resource.
func (r *renderer) lastWords() corev1.TerminationMessagePolicy {
	if r.configs.earlier {
		return ""
	}
	return corev1.TerminationMessageFallbackToLogsOnError
}

func (r *renderer) args() []string {
	out := []string{
		fmt.Sprintf("--port=%d", grpcPort(r.cr)),
		fmt.Sprintf("--rest_api_port=%d", restPort(r.cr)),
		"--model_config_file=" + join(configPath(r.cr), configFile(r.cr)),
	}
	poll := polls(r.cr, r.facts)
	if poll {
		out = append(out, fmt.Sprintf("--model_config_file_poll_wait_seconds=%d", ptr.Deref(r.cr.Spec.ConfigPollSeconds, defaultConfigPoll)))
	}
	if poll || r.facts.Config.Labelled() {
		// A label may name a version that is loaded together with it, at the start of a pod.
		out = append(out, "--allow_version_labels_for_unavailable_models=true")
	}
	if r.usesHealthService() {
		out = append(out, "--enable_grpc_healthcheck_service=true")
	}
	if r.cr.Spec.Batching != nil {
		out = append(out, "--enable_batching=true", "--batching_parameters_file="+join(r.parametersPath(), batchingFile))
	}
	if r.cr.Spec.Monitoring != nil {
		out = append(out, "--monitoring_config_file="+join(r.parametersPath(), monitoringFile))
	}
	return append(out, r.serverArgs()...)
}

// apart says that batching and monitoring are mounted apart from the model config.
func (r *renderer) apart() bool { return !r.facts.ConfigOwn || polls(r.cr, r.facts) }

// parametersPath is where the files are that MLKeeper writes.
func (r *renderer) parametersPath() string {
	if r.apart() {
		return parametersPath
	}
	return configPath(r.cr)
}

// usesHealthService says that readiness is asked by gRPC, since no model is known that could be asked for, or none that stays.
func (r *renderer) usesHealthService() bool {
	return len(r.facts.Config.Models()) == 0 || polls(r.cr, r.facts)
}

// startupProbe waits until the initial models are loaded: only then the server opens its ports.
func (r *renderer) startupProbe() *corev1.Probe {
	startup := ptr.Deref(r.cr.Spec.StartupTimeoutSeconds, defaultStartup)
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(grpcPort(r.cr))}},
		PeriodSeconds: probePeriod, FailureThreshold: max(1, (startup+probePeriod-1)/probePeriod),
	}
}

// readinessProbe asks for the metadata of the first model, which needs a version that is loaded; the status of a model is
// answered with 200 before (kubeflow #2987).
func (r *renderer) readinessProbe() *corev1.Probe {
	p := &corev1.Probe{PeriodSeconds: probePeriod, TimeoutSeconds: probePeriod, FailureThreshold: 3}
	if r.usesHealthService() && r.tls() != nil {
		// A kubelet has no TLS for gRPC. The ports are open when the initial models are loaded.
		p.TCPSocket = &corev1.TCPSocketAction{Port: intstr.FromInt32(grpcPort(r.cr))}
		return p
	}
	if r.usesHealthService() {
		p.GRPC = &corev1.GRPCAction{Port: grpcPort(r.cr)}
		return p
	}
	first := r.facts.Config.Models()[0].Name
	p.HTTPGet = &corev1.HTTPGetAction{
		Path: "/v1/models/" + inPath(first) + "/metadata", Port: intstr.FromInt32(restPort(r.cr)), Scheme: corev1.URISchemeHTTP,
	}
	return p
}

func (r *renderer) livenessProbe() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(grpcPort(r.cr))}},
		PeriodSeconds: 2 * probePeriod, TimeoutSeconds: probePeriod, FailureThreshold: 6,
	}
}

// s3Environment is how TensorFlow Serving and KServe's storage initializer are told of a store.
func (r *renderer) s3Environment() []corev1.EnvVar {
	s := r.cr.Spec.S3
	var out []corev1.EnvVar
	if s.SecretName != "" {
		for _, key := range []string{accessKey, secretKey, sessionToken} {
			out = append(out, corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: s.SecretName}, Key: key, Optional: ptr.To(key == sessionToken),
			}}})
		}
	}
	if s.Region != "" {
		out = append(out, corev1.EnvVar{Name: "AWS_REGION", Value: s.Region}, corev1.EnvVar{Name: "AWS_DEFAULT_REGION", Value: s.Region})
	}
	if s.Endpoint != "" {
		scheme, https := "https://", "1"
		if s.Insecure {
			scheme, https = "http://", "0"
		}
		out = append(out, corev1.EnvVar{Name: "S3_ENDPOINT", Value: s.Endpoint}, corev1.EnvVar{Name: "AWS_ENDPOINT_URL", Value: scheme + s.Endpoint},
			corev1.EnvVar{Name: "S3_USE_HTTPS", Value: https})
	}
	return out
}

// downloads renders one init container for each model below s3://.
func (r *renderer) downloads() []corev1.Container {
	var out []corev1.Container
	for i, d := range r.facts.Downloads {
		c := corev1.Container{
			Name:            "tfs-download-" + strconv.Itoa(i),
			Image:           r.cr.Spec.S3.Downloader.Image,
			ImagePullPolicy: cmp.Or(r.cr.Spec.ImagePullPolicy, corev1.PullIfNotPresent),
			Args:            []string{d.From, d.To},
			Env:             r.s3Environment(),
			VolumeMounts:    []corev1.VolumeMount{{Name: downloadsVolume, MountPath: downloadsPath}},
			SecurityContext: workload.RestrictedContainer(),
		}
		if res := r.cr.Spec.S3.Downloader.Resources; res != nil {
			c.Resources = *res.DeepCopy()
		}
		c.TerminationMessagePolicy = r.lastWords()
		out = append(out, c)
	}
	return out
}

func (r *renderer) mounts() []corev1.VolumeMount {
	out := []corev1.VolumeMount{{Name: configVolume, MountPath: configPath(r.cr)}}
	if usesSecret(r.cr) {
		out = append(out, corev1.VolumeMount{Name: secretVolume, MountPath: secretPath(r.cr)})
	}
	if r.configs.parameters != "" && r.apart() {
		out = append(out, corev1.VolumeMount{Name: parametersVolume, MountPath: parametersPath})
	}
	out = append(out, r.tlsMounts()...)
	if v := r.cr.Spec.ModelVolume; v != nil {
		out = append(out, corev1.VolumeMount{Name: modelVolume, MountPath: cmp.Or(v.MountPath, defaultModelPath), SubPath: v.SubPath, ReadOnly: true})
	}
	if len(r.facts.Downloads) > 0 {
		out = append(out, corev1.VolumeMount{Name: downloadsVolume, MountPath: downloadsPath, ReadOnly: true})
	}
	return out
}

func (r *renderer) volumes() []corev1.Volume {
	configMap := func(volume, name string) corev1.Volume {
		return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name},
		}}}
	}
	out := []corev1.Volume{configMap(configVolume, r.configs.file)}
	if usesSecret(r.cr) {
		out = append(out, corev1.Volume{Name: secretVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secretName(r.cr)},
		}})
	}
	if r.configs.parameters != "" && r.apart() {
		out = append(out, configMap(parametersVolume, r.configs.parameters))
	}
	out = append(out, r.tlsVolumes()...)
	if v := r.cr.Spec.ModelVolume; v != nil {
		out = append(out, corev1.Volume{Name: modelVolume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.ClaimName, ReadOnly: true},
		}})
	}
	if len(r.facts.Downloads) > 0 {
		out = append(out, corev1.Volume{Name: downloadsVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	return out
}

package standin

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What inferenceservice-config says of loggers, in an installation whose loggers verify whom they send to (logger.caBundle,
// logger.caCertFile), and else as it is shipped.
const (
	agentContainer  = "agent"
	agentPort       = 9081
	loggerDefault   = "http://default-broker"
	loggerBundle    = "kserve-logger-ca-bundle"
	loggerBundleKey = "service-ca.crt"
	// bundleVolume and bundlePath are LoggerCaBundleVolume and LoggerCaCertMountPath.
	bundleVolume, bundlePath = "agent-ca-bundle", "/etc/tls/logger"
)

// injectAgent adds the agent, which passes requests on to the server, and sends what passes to the logger
// (pkg/webhook/admission/pod/agent_injector.go, InjectAgent). KServe's webhook of pods adds it to the pods, and here it is in their
// template. Not played are the puller of several models, and blob storages.
func injectAgent(made *madePod, spec *componentSpec, component string) error {
	if spec.Logger == nil && spec.Batcher == nil {
		return nil
	}
	args := batcherArgs(spec)
	if spec.Logger != nil {
		args = append(args, loggerArgs(made, spec, component)...)
		mountBundle(&made.spec)
	}
	// A transformer beside the predictor is what the agent passes requests on to.
	first, behind := &made.spec.Containers[0], "8080"
	at := slices.IndexFunc(made.spec.Containers, func(c corev1.Container) bool { return c.Name == transformerContainer })
	if at >= 0 {
		first = &made.spec.Containers[at]
	}
	for i, c := range made.spec.Containers {
		if (i == at || at < 0 && c.Name == kserveContainer) && len(c.Ports) > 0 {
			behind = strconv.Itoa(int(c.Ports[0].ContainerPort))
		}
	}
	agent := corev1.Container{
		Name: agentContainer, Image: domain + "/agent", Args: append(args, "--component-port", behind),
		Ports:           []corev1.ContainerPort{{Name: "agent-port", ContainerPort: agentPort, Protocol: corev1.ProtocolTCP}},
		SecurityContext: made.spec.Containers[0].SecurityContext.DeepCopy(),
		Resources: corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")},
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi")},
		},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/", Port: intstr.FromInt32(agentPort), Scheme: corev1.URISchemeHTTP,
			HTTPHeaders: []corev1.HTTPHeader{{Name: "K-Network-Probe", Value: "queue"}},
		}}},
	}
	if spec.Logger != nil {
		agent.VolumeMounts = []corev1.VolumeMount{{Name: bundleVolume, MountPath: bundlePath, ReadOnly: true}}
	}
	if p := first.ReadinessProbe; p != nil && (p.HTTPGet != nil || p.TCPSocket != nil) {
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		agent.Env = []corev1.EnvVar{{Name: "SERVING_READINESS_PROBE", Value: string(text)}}
	}
	made.spec.Containers = append(made.spec.Containers, agent)
	return nil
}

func batcherArgs(spec *componentSpec) []string {
	if spec.Batcher == nil {
		return nil
	}
	out := []string{"--enable-batcher"}
	for _, one := range []struct {
		flag  string
		value *int
	}{{"--max-batchsize", spec.Batcher.MaxBatchSize}, {"--max-latency", spec.Batcher.MaxLatency}} {
		if one.value != nil {
			out = append(out, one.flag, strconv.Itoa(*one.value))
		}
	}
	return out
}

// loggerArgs are what the agent is told of the logger. A pod has no name yet when it is admitted.
func loggerArgs(made *madePod, spec *componentSpec, component string) []string {
	l, to := spec.Logger, loggerDefault
	if l.URL != nil {
		to = *l.URL
	}
	out := []string{
		"--log-url", to, "--source-uri", "", "--log-mode", l.Mode, "--inference-service", made.meta.Name, "--namespace", made.meta.Namespace,
		"--endpoint", "", "--component", component,
	}
	if l.MetadataHeaders != nil {
		out = append(out, "--metadata-headers", strings.Join(l.MetadataHeaders, ","))
	}
	if l.MetadataAnnotations != nil {
		var pairs []string
		for _, key := range l.MetadataAnnotations {
			if value, ok := made.meta.Annotations[key]; ok {
				pairs = append(pairs, key+"="+value)
			}
		}
		out = append(out, "--metadata-annotations", strings.Join(pairs, ","))
	}
	return append(out, "--logger-ca-cert-file", loggerBundleKey, "--logger-tls-skip-verify", "false")
}

// mountBundle mounts the authorities that the agent verifies the logger's receiver with. A pod starts without them, too.
func mountBundle(spec *corev1.PodSpec) {
	optional := true
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: bundleVolume, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: loggerBundle}, Optional: &optional},
	}})
}

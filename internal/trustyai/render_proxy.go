package trustyai

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// upstreamOf is where the proxy finds the whole API, inside of the pod.
func upstreamOf(at layout) string { return fmt.Sprintf("http://127.0.0.1:%d", at.upstream) }

// proxy renders the sidecar of a Secured service (trustyai-service-operator HEAD 11c335b), with what the restricted Pod
// Security Standard asks for added, and with TLS settings that the proxy reads from flags and not from its file.
func (r *scene) proxy() corev1.Container {
	probe := func(delay, period int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/healthz", Port: intstr.FromInt32(9443), Scheme: corev1.URISchemeHTTPS,
			}},
			InitialDelaySeconds: delay, PeriodSeconds: period, TimeoutSeconds: 1, FailureThreshold: 3,
		}
	}
	security := containerSecurity()
	security.ReadOnlyRootFilesystem = pointer(true)
	c := corev1.Container{
		Name:            "kube-rbac-proxy",
		Image:           r.settings.ProxyImage,
		ImagePullPolicy: r.cr.Spec.ImagePullPolicy,
		Args: []string{
			"--secure-listen-address=0.0.0.0:" + strconv.Itoa(proxyPort), "--upstream=" + upstreamOf(r.layout) + "/",
			"--config-file=/etc/kube-rbac-proxy/config.yaml", "--tls-cert-file=/etc/tls/private/tls.crt",
			"--tls-private-key-file=/etc/tls/private/tls.key", "--proxy-endpoints-port=9443",
			"--tls-min-version=VersionTLS12", "--tls-cipher-suites=" + strings.Join(proxyCiphers, ","), "--v=0",
		},
		Ports: []corev1.ContainerPort{
			{Name: "https", ContainerPort: proxyPort, Protocol: corev1.ProtocolTCP},
			{Name: "proxy-healthz", ContainerPort: 9443, Protocol: corev1.ProtocolTCP},
		},
		ReadinessProbe: probe(5, 5),
		LivenessProbe:  probe(30, 10),
		Resources: corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
		},
		SecurityContext: security,
		VolumeMounts: []corev1.VolumeMount{
			{Name: r.tlsVolume(), MountPath: "/etc/tls/private", ReadOnly: true},
			{Name: proxyConfigMount, MountPath: "/etc/kube-rbac-proxy", ReadOnly: true},
		},
	}
	if own := r.cr.Spec.Proxy; own != nil && own.Resources != nil {
		c.Resources = *own.Resources.DeepCopy()
	}
	if r.facts.TrustedCA {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
			Name: trustedCA, MountPath: "/etc/ssl/certs/ca-bundle.crt", SubPath: "ca-bundle.crt", ReadOnly: true,
		})
	}
	return c
}

package servicemonitors

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// goldens are where the controllers' own tests keep what they render.
var goldens = []string{
	"../../internal/trustyai/testdata/golden/*.yaml",
	"../../internal/tfserving/testdata/golden/*.yaml",
}

// podIP is where the one pod of a rendering is.
const podIP = "10.20.30.40"

// rendering is what MLKeeper renders for one resource, as far as Prometheus meets it.
type rendering struct {
	name       string
	monitors   []*monitoringv1.ServiceMonitor
	services   []corev1.Service
	deployment *appsv1.Deployment
}

// renderings reads every rendering with a ServiceMonitor.
func renderings(t *testing.T) []rendering {
	t.Helper()
	var out []rendering
	for _, pattern := range goldens {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if r := read(t, file); len(r.monitors) > 0 {
				out = append(out, r)
			}
		}
	}
	if len(out) < 10 {
		t.Fatalf("%d renderings have a ServiceMonitor: are the goldens still at %v?", len(out), goldens)
	}
	return out
}

var document = regexp.MustCompile(`(?m)^---\n`)

func read(t *testing.T, file string) rendering {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := rendering{name: strings.TrimSuffix(filepath.Base(file), ".yaml")}
	decode := func(text string, into any) {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	for _, one := range document.Split(string(text), -1) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(one), &kind); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		switch kind.Kind {
		case "ServiceMonitor":
			m := &monitoringv1.ServiceMonitor{}
			decode(one, m)
			r.monitors = append(r.monitors, m)
		case "Service":
			var s corev1.Service
			decode(one, &s)
			r.services = append(r.services, s)
		case "Deployment":
			r.deployment = &appsv1.Deployment{}
			decode(one, r.deployment)
		}
	}
	return r
}

// pod is the pod of the rendered Deployment.
func (r rendering) pod() corev1.Pod {
	template := r.deployment.Spec.Template
	meta := metav1.ObjectMeta{
		Name: r.deployment.Name + "-0", Namespace: r.deployment.Namespace, Labels: template.Labels, Annotations: template.Annotations,
	}
	return corev1.Pod{ObjectMeta: meta, Spec: template.Spec, Status: corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: podIP, PodIPs: []corev1.PodIP{{IP: podIP}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}}
}

// slices are the EndpointSlices of the Services that select the pod, as the controllers of Kubernetes make them.
func (r rendering) slices() []discoveryv1.EndpointSlice {
	pod := r.pod()
	var out []discoveryv1.EndpointSlice
	for _, s := range r.services {
		if len(s.Spec.Selector) == 0 || !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			continue
		}
		yes := true
		slice := discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name: s.Name + "-0", Namespace: s.Namespace, Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{podIP}, Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes},
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name},
			}},
		}
		for _, p := range s.Spec.Ports {
			number, found := target(&pod, p)
			if !found {
				continue
			}
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &number, Protocol: &p.Protocol})
		}
		out = append(out, slice)
	}
	return out
}

// endpoints are the older form of the same.
func (r rendering) endpoints() []corev1.Endpoints { //nolint:staticcheck // Prometheus' operator asks for them by default.
	var out []corev1.Endpoints //nolint:staticcheck // As above.
	for _, slice := range r.slices() {
		service := slice.Labels[discoveryv1.LabelServiceName]
		subset := corev1.EndpointSubset{ //nolint:staticcheck // As above.
			Addresses: []corev1.EndpointAddress{{IP: podIP, TargetRef: slice.Endpoints[0].TargetRef}},
		}
		for _, p := range slice.Ports {
			subset.Ports = append(subset.Ports, corev1.EndpointPort{Name: *p.Name, Port: *p.Port, Protocol: *p.Protocol})
		}
		out = append(out, corev1.Endpoints{ //nolint:staticcheck // As above.
			ObjectMeta: metav1.ObjectMeta{Name: service, Namespace: slice.Namespace}, Subsets: []corev1.EndpointSubset{subset}, //nolint:staticcheck // As above.
		})
	}
	return out
}

// target is the port of a pod that a port of a Service leads to.
func target(pod *corev1.Pod, p corev1.ServicePort) (int32, bool) {
	if p.TargetPort.Type == intstr.Int {
		if p.TargetPort.IntVal == 0 {
			return p.Port, true
		}
		return p.TargetPort.IntVal, true
	}
	for _, c := range pod.Spec.Containers {
		for _, named := range c.Ports {
			if named.Name == p.TargetPort.StrVal {
				return named.ContainerPort, true
			}
		}
	}
	return 0, false
}

// certificate is the Secret whose certificate the service serves its metrics with, empty for none: the one that is mounted where
// the TrustyAI service looks for it (trustyai-service 4aa44d6 src/main.py get_tls_config).
func (r rendering) certificate() string {
	spec := r.deployment.Spec.Template.Spec
	for _, mount := range spec.Containers[0].VolumeMounts {
		if mount.MountPath != "/etc/tls/internal" {
			continue
		}
		for _, v := range spec.Volumes {
			if v.Name == mount.Name && v.Secret != nil {
				return v.Secret.SecretName
			}
		}
	}
	return ""
}

// issuing is the annotation by which OpenShift's service-ca issues a certificate for a Service into a Secret
// (service-ca-operator pkg/controller/api/api.go ServingCertSecretAnnotation).
const issuing = "service.beta.openshift.io/serving-cert-secret-name"

// names are those on the certificate in a Secret, and byServiceCA says that OpenShift issues it, which puts the names of one
// Service on it alone. A user's is for both Services, as docs/trustyai.md asks.
func (r rendering) names(secret string) (names []string, byServiceCA bool) {
	for _, s := range r.services {
		name := s.Name + "." + s.Namespace + ".svc"
		if s.Annotations[issuing] == secret {
			return []string{name, name + ".cluster.local"}, true
		}
		names = append(names, name, name+".cluster.local")
	}
	slices.Sort(names)
	return names, false
}

// tensorflow and python say which original the rendering is for.
func (r rendering) tensorflow() bool { return r.deployment.Labels["tfsName"] != "" }

func (r rendering) python() bool { return strings.HasPrefix(r.name, "python-") }

// ofTheADR says that the resource has the shape of TrustyAI ADR 3.
func (r rendering) ofTheADR() bool { return r.deployment.Name == "trustyai-service" }

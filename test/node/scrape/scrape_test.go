package scrape

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// scene is a Service with a pod that is ready and one that is not, next to a
// Service that nobody selects.
func scene() ([]corev1.Service, []discoveryv1.EndpointSlice, []corev1.Pod) {
	yes, no, name, port := true, false, "http", int32(8080)
	service := func(name string) corev1.Service {
		return corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": name}}}
	}
	endpoint := func(pod, address string, ready *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: pod},
		}
	}
	slice := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{discoveryv1.LabelServiceName: "one"}},
		Endpoints:  []discoveryv1.Endpoint{endpoint("a", "10.0.0.1", &yes), endpoint("b", "10.0.0.2", &no)},
		Ports:      []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}}},
	}}
	return []corev1.Service{service("one"), service("two")}, []discoveryv1.EndpointSlice{slice}, []corev1.Pod{pod}
}

func TestTargets(t *testing.T) {
	for what, tc := range map[string]struct {
		spec string
		want []string
	}{
		"by the Service's port": {
			`{selector: {matchLabels: {app: one}}, endpoints: [{port: http, path: /m, scheme: https}]}`,
			[]string{"https://10.0.0.1:8080/m"},
		},
		"by the container's port": {
			`{selector: {matchLabels: {app: one}}, endpoints: [{targetPort: 8080, params: {"match[]": [x]}}]}`,
			[]string{"http://10.0.0.1:8080/metrics?match%5B%5D=x"},
		},
		"by the container's name of its port": {
			`{selector: {matchLabels: {app: one}}, endpoints: [{targetPort: web}]}`, []string{"http://10.0.0.1:8080/metrics"},
		},
		"a port that is not there":    {`{selector: {matchLabels: {app: one}}, endpoints: [{port: grpc}]}`, nil},
		"a Service without endpoints": {`{selector: {matchLabels: {app: two}}, endpoints: [{port: http}]}`, nil},
		"another namespace": {
			`{selector: {}, namespaceSelector: {matchNames: [other]}, endpoints: [{port: http}]}`, nil,
		},
		"any namespace": {
			`{selector: {}, namespaceSelector: {any: true}, endpoints: [{port: http}]}`, []string{"http://10.0.0.1:8080/metrics"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(`{metadata: {namespace: ns}, spec: `+tc.spec+`}`), &u.Object); err != nil {
				t.Fatal(err)
			}
			m, err := Read(u)
			if err != nil {
				t.Fatal(err)
			}
			services, endpoints, pods := scene()
			targets, err := Targets(m, services, endpoints, pods)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, target := range targets {
				got = append(got, target.URL)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	const text = "# HELP b_total x\nb_total{l=\"1\"} 2\nb_total{l=\"2\"} 2\n\na_one 1 1700000000\nother 3\n"
	e := Endpoint{}
	if got, err := e.Names(text); err != nil || strings.Join(got, " ") != "a_one b_total other" {
		t.Errorf("without rules: %v, %v", got, err)
	}
	e.MetricRelabelings = []Relabeling{
		{Action: "keep", Regex: "[ab]_.*", SourceLabels: []string{"__name__"}},
		{Action: "drop", Regex: "a_.*", SourceLabels: []string{"__name__"}},
	}
	if got, err := e.Names(text); err != nil || strings.Join(got, " ") != "b_total" {
		t.Errorf("with rules: %v, %v", got, err)
	}
	e.MetricRelabelings[0].Action = "replace"
	if _, err := e.Names(text); err == nil {
		t.Error("an unknown rule is accepted")
	}
}

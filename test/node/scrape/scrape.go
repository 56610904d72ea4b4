// Package scrape does with a ServiceMonitor what Prometheus and its operator
// would do: it finds the addresses that are to be scraped, and keeps the metrics
// that are to be kept.
package scrape

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Monitor is a ServiceMonitor, as far as it is needed here.
type Monitor struct {
	Namespace string `json:"-"`
	Spec      struct {
		Selector          metav1.LabelSelector `json:"selector"`
		NamespaceSelector struct {
			Any        bool     `json:"any"`
			MatchNames []string `json:"matchNames"`
		} `json:"namespaceSelector"`
		Endpoints []Endpoint `json:"endpoints"`
	} `json:"spec"`
}

// Endpoint is one entry of a ServiceMonitor.
type Endpoint struct {
	Port              string              `json:"port"`
	TargetPort        *intstr.IntOrString `json:"targetPort"`
	Path              string              `json:"path"`
	Scheme            string              `json:"scheme"`
	Params            map[string][]string `json:"params"`
	BearerTokenFile   string              `json:"bearerTokenFile"`
	MetricRelabelings []Relabeling        `json:"metricRelabelings"`
	TLSConfig         struct {
		ServerName string `json:"serverName"`
	} `json:"tlsConfig"`
}

// Relabeling is a rule for metrics that were scraped.
type Relabeling struct {
	Action       string   `json:"action"`
	Regex        string   `json:"regex"`
	SourceLabels []string `json:"sourceLabels"`
}

// Target is one address to scrape.
type Target struct {
	Endpoint Endpoint
	URL      string
	Pod      string
}

// Read decodes a ServiceMonitor.
func Read(u *unstructured.Unstructured) (Monitor, error) {
	var m Monitor
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &m)
	m.Namespace = u.GetNamespace()
	return m, err
}

// Targets finds what a ServiceMonitor selects: the ready endpoints of every
// Service that it selects, at the port that it names.
func Targets(m Monitor, services []corev1.Service, endpoints []discoveryv1.EndpointSlice, pods []corev1.Pod) ([]Target, error) {
	selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
	if err != nil {
		return nil, err
	}
	var out []Target
	for _, e := range m.Spec.Endpoints {
		for i := range services {
			svc := &services[i]
			if !m.watches(svc.Namespace) || !selector.Matches(labels.Set(svc.Labels)) {
				continue
			}
			more, err := ofService(e, svc, endpoints, pods)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}

// watches says whether a ServiceMonitor looks into a namespace; without a
// selector it looks into its own.
func (m Monitor) watches(namespace string) bool {
	s := m.Spec.NamespaceSelector
	if s.Any {
		return true
	}
	if len(s.MatchNames) == 0 {
		return namespace == m.Namespace
	}
	return slices.Contains(s.MatchNames, namespace)
}

func ofService(e Endpoint, svc *corev1.Service, endpoints []discoveryv1.EndpointSlice, pods []corev1.Pod) ([]Target, error) {
	var out []Target
	for _, slice := range endpoints {
		if slice.Namespace != svc.Namespace || slice.Labels[discoveryv1.LabelServiceName] != svc.Name {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
				continue
			}
			pod := ""
			if endpoint.TargetRef != nil {
				pod = endpoint.TargetRef.Name
			}
			port, err := portOf(e, slice.Ports, podOf(pods, svc.Namespace, pod))
			if err != nil {
				return nil, fmt.Errorf("service %s/%s: %w", svc.Namespace, svc.Name, err)
			}
			if port == 0 {
				continue
			}
			for _, address := range endpoint.Addresses {
				out = append(out, Target{Endpoint: e, Pod: pod, URL: e.url(address, port)})
			}
		}
	}
	return out, nil
}

// portOf is the port to scrape: by the name that the Service gave it, or else by
// the name or number that a container of the pod gave it. An endpoint without
// such a port is no target, which is 0.
func portOf(e Endpoint, ports []discoveryv1.EndpointPort, pod *corev1.Pod) (int32, error) {
	switch {
	case e.Port != "":
		for _, p := range ports {
			if p.Name != nil && *p.Name == e.Port && p.Port != nil {
				return *p.Port, nil
			}
		}
		return 0, nil
	case e.TargetPort == nil:
		return 0, errors.New("the endpoint names no port")
	case pod == nil:
		return 0, nil
	}
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.ContainerPort == e.TargetPort.IntVal || (p.Name != "" && p.Name == e.TargetPort.StrVal) {
				return p.ContainerPort, nil
			}
		}
	}
	return 0, nil
}

func podOf(pods []corev1.Pod, namespace, name string) *corev1.Pod {
	for i := range pods {
		if pods[i].Namespace == namespace && pods[i].Name == name {
			return &pods[i]
		}
	}
	return nil
}

func (e Endpoint) url(address string, port int32) string {
	u := url.URL{
		Scheme: e.Scheme, Host: net.JoinHostPort(address, strconv.Itoa(int(port))), Path: e.Path,
		RawQuery: url.Values(e.Params).Encode(),
	}
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	if u.Path == "" {
		u.Path = "/metrics"
	}
	return u.String()
}

// Names are the names of the metrics in a scraped text, sorted, after the rules
// of the endpoint. Rules on anything but the name are an error, since nothing
// else is read here.
func (e Endpoint) Names(text string) ([]string, error) {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.IndexAny(line, "{ ")
		if end <= 0 {
			return nil, fmt.Errorf("%q is no metric", line)
		}
		keep, err := e.keeps(line[:end])
		if err != nil {
			return nil, err
		}
		if keep {
			out = append(out, line[:end])
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// keeps applies the rules to a name.
func (e Endpoint) keeps(name string) (bool, error) {
	for _, r := range e.MetricRelabelings {
		if !slices.Equal(r.SourceLabels, []string{"__name__"}) || (r.Action != "keep" && r.Action != "drop") {
			return false, fmt.Errorf("the rule %+v is not understood here", r)
		}
		// Prometheus anchors at both ends.
		matches, err := regexp.MatchString("^(?:"+r.Regex+")$", name)
		if err != nil {
			return false, err
		}
		if matches != (r.Action == "keep") {
			return false, nil
		}
	}
	return true, nil
}

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/trustyai"
)

const (
	adrShape = `
metadata: {name: trustyai-service-example, namespace: ns, uid: u, generation: 1}
spec:
  storage: {format: PVC, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  trustyaiMetrics: {schedule: 15s}
`
	upstreamShape = `
metadata: {name: tas, namespace: ns, uid: u, generation: 1}
spec:
  storage: {format: PVC, folder: /inputs, size: 1Gi}
  data: {filename: data.csv, format: CSV}
  metrics: {schedule: 1h30m}
`
)

// world is one rendering, and a service that was started as the rendered pod says: the stand-in, or the real one (realservice_test.go).
type world struct {
	t         *testing.T
	cr        *v1.TrustyAIService
	plan      plan.Plan
	pod       corev1.PodSpec
	listeners []listener
}

// object finds a rendered object and decodes it.
func (w *world) object(kind, name string, into any) bool {
	w.t.Helper()
	u := controllertest.Find(w.plan, kind, name)
	if u == nil {
		return false
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		w.t.Fatal(err)
	}
	return true
}

// render renders a service. Its pod is empty where the service is refused.
func render(t *testing.T, generation v1.ImageGeneration, exposure v1.Exposure, manifest string, others ...*unstructured.Unstructured) *world {
	t.Helper()
	cr := &v1.TrustyAIService{}
	if err := yaml.Unmarshal([]byte(manifest), cr); err != nil {
		t.Fatal(err)
	}
	cr.Spec.Exposure, cr.Spec.ImageGeneration = exposure, generation
	system := trustyai.New(trustyai.Settings{Image: "any:image", ProxyImage: "any:proxy"})
	cluster := controllertest.New(time.Now(),
		schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"},
		schema.GroupVersionKind{Group: "route.openshift.io", Version: "v1", Kind: "Route"})
	for _, u := range others {
		cluster.Put(u)
	}
	w := &world{t: t, cr: cr}
	// A pass for the authority, one for the certificates, and one for what depends on them.
	for range 3 {
		facts, err := system.Gather(context.Background(), cluster, cr)
		if err != nil {
			t.Fatal(err)
		}
		w.plan = system.Render(cr, facts)
		system.Project(cr, facts, controller.ObservedState{Plan: w.plan, Now: time.Now()})
		cluster.Written(w.plan, "TrustyAIService.trustyai.opendatahub.io/ns/"+cr.Name)
	}
	deployment := &appsv1.Deployment{}
	if !w.object("Deployment", trustyai.ServiceName(cr), deployment) {
		return w
	}
	w.pod = deployment.Spec.Template.Spec
	return w
}

// standIn starts the stand-in in the pod.
func (w *world) standIn() {
	w.t.Helper()
	found := w.container()
	s := &service{storage: storageOf(found)}
	listeners, err := s.listeners(string(w.cr.Spec.ImageGeneration), found)
	if err != nil {
		w.t.Fatalf("the service ends at its start: %v", err)
	}
	w.listeners = listeners
}

// container is what the service of the pod finds: its environment, and in its mounts the keys of a Secret with a
// certificate. The folder of the data is one of the test's.
func (w *world) container() container {
	c := w.pod.Containers[0]
	folder := w.t.TempDir()
	return container{
		env: func(name string) (string, bool) {
			i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
			switch {
			case i < 0:
				return "", false
			case c.Env[i].ValueFrom != nil && c.Env[i].ValueFrom.SecretKeyRef.Key == "databasePort":
				return "3306", true
			case c.Env[i].ValueFrom != nil:
				return "of-a-secret", true
			case c.Env[i].Value == "/inputs":
				return folder, true
			}
			return c.Env[i].Value, true
		},
		exists: func(path string) bool {
			return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
				return path == m.MountPath+"/tls.crt" || path == m.MountPath+"/tls.key"
			})
		},
	}
}

// ask sends a request to a port of the pod: from outside, or from within it. The host of the address is the name that a client knows
// the service by, and verifies its certificate by.
func (w *world) ask(within bool, port int32, method, address, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	for _, l := range w.listeners {
		if l.port != fmt.Sprint(port) || !within && l.host != "0.0.0.0" {
			continue
		}
		out := httptest.NewRecorder()
		if (l.cert != "") != strings.HasPrefix(address, "https:") {
			out.WriteHeader(http.StatusBadRequest)
			return out
		}
		r := httptest.NewRequest(method, address, strings.NewReader(body))
		// Those that post say what: KServe's agent what the client of the model said, and ModelMesh always this.
		r.Header.Set("Content-Type", "application/json")
		l.handler.ServeHTTP(out, r)
		return out
	}
	w.t.Errorf("nothing listens on %d", port)
	return nil
}

// expect asks and wants success, and a word in the answer.
func (w *world) expect(what string, within bool, port int32, method, address, body, word string) {
	w.t.Helper()
	if got := w.ask(within, port, method, address, body); got == nil || got.Code != http.StatusOK || !strings.Contains(got.Body.String(), word) {
		w.t.Errorf("%s: %s %s at port %d is answered %+v", what, method, address, port, got)
	}
}

// behind follows a port of the rendered Service, by name or number, to that of the container, which must declare it.
func (w *world) behind(service string, port intstr.IntOrString) int32 {
	w.t.Helper()
	svc := &corev1.Service{}
	if !w.object("Service", service, svc) {
		w.t.Fatalf("there is no Service %s", service)
	}
	for _, p := range svc.Spec.Ports {
		if p.Name != port.String() && fmt.Sprint(p.Port) != port.String() {
			continue
		}
		for _, c := range w.pod.Containers {
			for _, open := range c.Ports {
				if open.ContainerPort == p.TargetPort.IntVal {
					return open.ContainerPort
				}
			}
		}
		w.t.Fatalf("no container has the port %s", p.TargetPort.String())
	}
	w.t.Fatalf("Service %s has no port %s", service, port.String())
	return 0
}

// post sends a payload to a URL of the cluster.
func (w *world) post(what, address, body string) {
	w.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		w.t.Fatal(err)
	}
	service, _, _ := strings.Cut(u.Hostname(), ".")
	port := w.behind(service, intstr.FromInt32(map[string]int32{"http": 80, "https": 443}[u.Scheme]))
	if u.Path == "" {
		u.Path = "/"
	}
	w.expect(what, false, port, http.MethodPost, u.String(), body, "")
}

// scrape does what Prometheus does with the ServiceMonitor, and with the annotations that upstream sets.
func (w *world) scrape() {
	w.t.Helper()
	name := trustyai.ServiceName(w.cr)
	monitor := controllertest.Find(w.plan, "ServiceMonitor", name)
	if trustyai.ADRShape(w.cr) {
		monitor = controllertest.Find(w.plan, "ServiceMonitor", "trustyai-metrics")
	}
	endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
	endpoint := endpoints[0].(map[string]any)
	config, _ := endpoint["tlsConfig"].(map[string]any)
	tls, server := endpoint["scheme"] == "https", name+".ns.svc"
	var port int32
	if text, named := endpoint["port"].(string); named {
		port = w.behind(name, intstr.FromString(text))
	} else {
		port = int32(endpoint["targetPort"].(int64))
	}
	w.expect("the ServiceMonitor", false, port, http.MethodGet, endpoint["scheme"].(string)+"://"+server+endpoint["path"].(string), "", "trustyai_spd")
	if tls && (config["serverName"] != server || config["ca"] == nil) {
		w.t.Errorf("the ServiceMonitor verifies by %v", config)
	}
	svc := &corev1.Service{}
	w.object("Service", name, svc)
	if svc.Annotations["prometheus.io/scrape"] != "true" {
		return
	}
	port = w.behind(name, intstr.FromString("http"))
	if text := svc.Annotations["prometheus.io/port"]; text != "" {
		port = intstr.Parse(text).IntVal
	}
	w.expect("the annotations", false, port, http.MethodGet,
		svc.Annotations["prometheus.io/scheme"]+"://"+server+svc.Annotations["prometheus.io/path"], "", "trustyai_spd")
}

// walk follows everything that leads to the service.
func (w *world) walk() {
	w.t.Helper()
	c := w.pod.Containers[0]
	for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe} {
		w.expect("a probe", false, probe.HTTPGet.Port.IntVal, http.MethodGet, strings.ToLower(string(probe.HTTPGet.Scheme))+"://pod"+probe.HTTPGet.Path, "", "")
	}
	w.scrape()
	w.post("ModelMesh", w.cr.Status.URL, partialPayload)
	w.post("a logger", trustyai.LoggerURL(w.cr), eventPayload)
	if len(w.pod.Containers) == 1 {
		w.expect("the Route", false, w.behind(trustyai.ServiceName(w.cr), intstr.FromString("http")), http.MethodGet, "http://route/info", "", "")
		return
	}
	upstream := ""
	for _, arg := range w.pod.Containers[1].Args {
		if text, found := strings.CutPrefix(arg, "--upstream="); found {
			upstream = text
		}
	}
	u, err := url.Parse(upstream)
	if err != nil || u.Hostname() != "127.0.0.1" {
		w.t.Fatalf("the proxy passes on to %q", upstream)
	}
	config := &corev1.ConfigMap{}
	if w.object("ConfigMap", trustyai.ServiceName(w.cr)+"-kube-rbac-proxy-config", config); !strings.Contains(config.Data["config.yaml"], strings.TrimSuffix(upstream, "/")) {
		w.t.Errorf("the file of the proxy says otherwise than its flags, %s: %s", upstream, config.Data["config.yaml"])
	}
	w.expect("the proxy", true, intstr.Parse(u.Port()).IntVal, http.MethodGet, upstream+"info", "", "")
}

// TestWhatIsRenderedLeadsToTheService renders each generation with each exposure in each shape and follows Services, probes,
// ServiceMonitor, annotations, payload URLs and proxy to the stand-in, which answers where the real service does. What the
// image does not serve is refused.
func TestWhatIsRenderedLeadsToTheService(t *testing.T) {
	refused := map[string]bool{"Java/Secured": true, "Python/Plain": true}
	for _, generation := range []v1.ImageGeneration{v1.GenerationJava, v1.GenerationJavaTLS, v1.GenerationPython} {
		for _, exposure := range []v1.Exposure{v1.ExposurePlain, v1.ExposureSecured} {
			for shape, manifest := range map[string]string{"ADR": adrShape, "upstream": upstreamShape} {
				name := fmt.Sprintf("%s/%s", generation, exposure)
				t.Run(name+"/"+shape, func(t *testing.T) {
					w := render(t, generation, exposure, manifest)
					if w.cr.Status.ImageGeneration != generation {
						t.Errorf("the status says %q", w.cr.Status.ImageGeneration)
					}
					if !refused[name] {
						if len(w.plan.Problems) > 0 {
							t.Fatal(w.plan.Problems)
						}
						w.standIn()
						w.walk()
						return
					}
					if controllertest.Reasons(w.plan) != "Terminal ExposureNotServed" || w.cr.Status.URL != "" || len(w.pod.Containers) > 0 {
						t.Errorf("problems %v, URL %q, pod %+v", w.plan.Problems, w.cr.Status.URL, w.pod)
					}
				})
			}
		}
	}
}

// TestTheStandInListensAsJavaDoes holds what was read in the code of trustyai-explainability. Of trustyai-service there is a recording.
func TestTheStandInListensAsJavaDoes(t *testing.T) {
	with := func(certificate bool, env ...string) container {
		return container{
			env: func(name string) (string, bool) {
				for _, e := range append(env, "SERVICE_STORAGE_FORMAT=PVC", "SERVICE_METRICS_SCHEDULE=5s") {
					if text, found := strings.CutPrefix(e, name+"="); found {
						return text, true
					}
				}
				return "", false
			},
			exists: func(string) bool { return certificate },
		}
	}
	for _, tc := range []struct {
		name, generation string
		c                container
		want             string
	}{
		{"Java", java, with(false), "0.0.0.0:8080"},
		{"JavaTLS with a certificate", javaTLS, with(true), "0.0.0.0:4443+tls 0.0.0.0:8080"},
		{"JavaTLS without", javaTLS, with(false), "ends"},
		{"JavaTLS that is told to do without", javaTLS, with(false, "QUARKUS_HTTP_SSL_CERTIFICATE_FILES=", "QUARKUS_HTTP_SSL_CERTIFICATE_KEY_FILES="), "0.0.0.0:8080"},
		{"Java without a schedule", java, with(false, "SERVICE_METRICS_SCHEDULE="), "ends"},
		{"Java with a format of its own", java, with(false, "SERVICE_STORAGE_FORMAT=DATABASE"), "ends"},
		{"none", "Rust", with(false), "ends"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := addresses((&service{}).listeners(tc.generation, tc.c)); got != tc.want {
				t.Errorf("listens on %s, not %s", got, tc.want)
			}
		})
	}
}

//go:build realtrustyai

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/controller/controllertest"
)

// often is a schedule that a test can wait for.
const often = "2s"

// oftenCalculated is how a service in upstream's shape is declared whose metrics are calculated often.
var oftenCalculated = strings.Replace(upstreamShape, "1h30m", often, 1)

// pairs are a request and its response as KServe's agent posts them (pkg/logger/worker.go, v0.17.0), with an attribute and an outcome that
// fairness can be calculated of.
var pairs = []string{
	`{"inputs":[{"name":"in","shape":[4,2],"datatype":"INT64","data":[[0,1],[1,2],[0,3],[1,4]]}]}`,
	`{"model_name":"fed","outputs":[{"name":"out","shape":[4],"datatype":"INT64","data":[0,1,1,1]}]}`,
}

// agentHeaders are the headers of such an event.
func agentHeaders(id string) map[string]string {
	return map[string]string{
		"Content-Type": "application/json", "Ce-Id": id, "Ce-Specversion": "1.0", "Ce-Type": "org.kubeflow.serving.inference.request",
		"Ce-Source": "http://localhost:9081/", "Ce-Inferenceservicename": "fed", "Ce-Namespace": "ns", "Ce-Component": "predictor",
		"Ce-Endpoint": "", "Ce-Metadata": "{}", "Ce-Time": "2026-01-02T03:04:05Z",
	}
}

// volume empties the volume of the service.
func volume(t *testing.T) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(inRoot("/inputs")), os.Mkdir(inRoot("/inputs"), 0o755)); err != nil {
		t.Fatal(err)
	}
}

// real starts the real service as the rendered pod says: its environment, and the Secrets that it mounts.
func (w *world) real() *process {
	w.t.Helper()
	c := w.pod.Containers[0]
	files := map[string][]byte{}
	for _, mount := range c.VolumeMounts {
		i := slices.IndexFunc(w.pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 {
			w.t.Fatalf("nothing is mounted at %s", mount.MountPath)
		}
		if source := w.pod.Volumes[i].Secret; source != nil {
			for key, value := range w.secret(source.SecretName) {
				files[filepath.Join(mount.MountPath, key)] = value
			}
		}
	}
	p := startProcess(w.t, w.environment(), files)
	w.listeners = realListeners(w.t, p.listens(), files[filepath.Join(filepath.Dir(certFile), corev1.ServiceAccountRootCAKey)])
	return p
}

// environment is that of the container, with what the kubelet makes of it.
func (w *world) environment() []string {
	w.t.Helper()
	var out []string
	for _, e := range w.pod.Containers[0].Env {
		value := strings.ReplaceAll(e.Value, "$$", "$")
		if e.ValueFrom != nil {
			value = "the-" + e.ValueFrom.SecretKeyRef.Key
			if e.ValueFrom.SecretKeyRef.Key == "databasePort" {
				value = "3307"
			}
		}
		out = append(out, e.Name+"="+value)
	}
	return out
}

// secret is the content of a rendered Secret.
func (w *world) secret(name string) map[string][]byte {
	w.t.Helper()
	out := &corev1.Secret{}
	if !w.object("Secret", name, out) {
		w.t.Fatalf("there is no Secret %s", name)
	}
	return out.Data
}

// mustPost sends a request to the whole API, as a client in the cluster.
func (w *world) mustPost(path, body string, headers map[string]string) {
	w.t.Helper()
	e := exchange{Port: "4443", Method: http.MethodPost, Path: "https://" + w.cr.Name + ".ns.svc" + path, Headers: headers, Body: body}
	if code, answer := w.send(e); code != http.StatusOK {
		w.t.Errorf("%s is answered %d %s", e, code, answer)
	}
}

// feed sends what metrics are calculated of, asks for them, and waits until they are there.
func (w *world) feed() map[string]metricShape {
	w.t.Helper()
	for _, body := range pairs {
		w.mustPost("/", body, agentHeaders("fed"))
	}
	request := `{"modelId":"fed","requestName":"r","protectedAttribute":"in-0","outcomeName":"out","privilegedAttribute":1,"unprivilegedAttribute":0,"favorableOutcome":1}`
	for _, metric := range []string{"spd", "dir"} {
		w.mustPost("/metrics/group/fairness/"+metric+"/request", request, map[string]string{"Content-Type": "application/json"})
	}
	began := time.Now()
	for deadline := began.Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		got := w.metrics()
		if len(got["trustyai_spd"].Labels) > 0 && len(got["trustyai_dir"].Labels) > 0 {
			w.t.Logf("the metrics are there after %s, of a schedule of %s", time.Since(began).Round(100*time.Millisecond), often)
			return got
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("metrics are not there after %s: %v", time.Since(began), got)
		}
	}
}

// metrics are those of TrustyAI that are there now.
func (w *world) metrics() map[string]metricShape {
	w.t.Helper()
	got := w.ask(false, 4443, http.MethodGet, "https://"+w.cr.Name+".ns.svc/q/metrics", "")
	if got.Code != http.StatusOK || !strings.HasPrefix(got.Header().Get("Content-Type"), "text/plain; version=") {
		w.t.Fatalf("the metrics are answered %d %v", got.Code, got.Header())
	}
	return metricsIn(w.t, got.Body.String())
}

// TestRealServiceIsWhereItIsLookedFor follows probes, ServiceMonitor, annotations, payload URLs and proxy to the real service, started with
// the rendered environment and certificates.
func TestRealServiceIsWhereItIsLookedFor(t *testing.T) {
	for shape, manifest := range map[string]string{"ADR": strings.Replace(adrShape, "15s", often, 1), "upstream": oftenCalculated} {
		t.Run(shape, func(t *testing.T) {
			w := render(t, v1.GenerationPython, v1.ExposureSecured, manifest)
			if shape == "ADR" {
				w.cr.Name = "trustyai-service"
			}
			volume(t)
			p := w.real()
			t.Logf("it listens after %s, with %.1f s of processor time", time.Since(p.began).Round(100*time.Millisecond), p.cpu())
			all := w.feed()
			w.kept(all)
			w.walk()
			if said := p.said(); strings.Contains(said, "Defaulting") || strings.Contains(said, "Invalid") {
				t.Errorf("something of the environment is not understood:\n%s", said)
			}
			w.outlives(p)
		})
	}
}

// kept checks that the ServiceMonitor keeps the metrics of fairness.
func (w *world) kept(all map[string]metricShape) {
	w.t.Helper()
	monitor := controllertest.Find(w.plan, "ServiceMonitor", w.cr.Name)
	if monitor == nil {
		monitor = controllertest.MustFind(w.t, w.plan, "ServiceMonitor", "trustyai-metrics")
	}
	endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
	rules := endpoints[0].(map[string]any)["metricRelabelings"].([]any)
	keep := regexp.MustCompile("^(?:" + rules[0].(map[string]any)["regex"].(string) + ")$")
	for _, name := range []string{"trustyai_spd", "trustyai_dir"} {
		if _, there := all[name]; !there || !keep.MatchString(name) {
			w.t.Errorf("%s is not scraped: the service has %v", name, slices.Sorted(maps.Keys(all)))
		}
	}
}

// outlives checks that the data is in files of the declared name on the volume, and is known to the process after this one, which does not
// know what to calculate of it.
func (w *world) outlives(p *process) {
	w.t.Helper()
	p.kill()
	var files []string
	entries, err := os.ReadDir(inRoot("/inputs"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	for _, part := range []string{"inputs", "outputs", "metadata"} {
		if name := "fed_" + part + "_" + w.cr.Spec.Data.Filename; !slices.Contains(files, name) {
			w.t.Errorf("the volume has %v, not %s", files, name)
		}
	}
	w.real()
	got := w.ask(false, 4443, http.MethodGet, "https://"+w.cr.Name+".ns.svc/info", "")
	known := map[string]struct {
		Data struct{ Observations int }
	}{}
	if err := json.Unmarshal(got.Body.Bytes(), &known); err != nil || known["fed"].Data.Observations != 4 {
		w.t.Errorf("after a restart it knows %s (%v)", got.Body, err)
	}
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(500 * time.Millisecond) {
		if got := w.metrics(); len(got["trustyai_spd"].Labels) > 0 {
			w.t.Errorf("after a restart it calculates what it was asked before, contrary to docs/trustyai.md: %v", got)
			return
		}
	}
}

// send sends what is recorded to the service.
func (w *world) send(e exchange) (code int, answer string) {
	w.t.Helper()
	i := slices.IndexFunc(w.listeners, func(l listener) bool { return l.port == e.Port })
	if i < 0 {
		w.t.Fatalf("nothing listens on %s", e.Port)
	}
	r := e.request(w.t)
	return answerOf(w.listeners[i].handler, r)
}

// TestRealServiceIsRecorded records what the real service does, against which the stand-in is tested.
func TestRealServiceIsRecorded(t *testing.T) {
	out := recording{Version: os.Getenv("TRUSTYAI_VERSION"), Starts: starts}
	for i := range out.Starts {
		t.Run(out.Starts[i].Name, func(t *testing.T) { out.Starts[i].record(t) })
	}
	w := render(t, v1.GenerationPython, v1.ExposureSecured, oftenCalculated)
	volume(t)
	p := w.real()
	for _, e := range exchanges() {
		if strings.HasPrefix(e.Path, "/") && e.Port == "4443" {
			e.Path = "https://tas.ns.svc" + e.Path
		}
		code, answer := w.send(e)
		e.Code, e.Path = code, strings.TrimPrefix(e.Path, "https://tas.ns.svc")
		t.Logf("%s: %d %.200s", e, code, answer)
		out.Exchanges = append(out.Exchanges, e)
	}
	out.Metrics = w.feed()
	// Longer than hypercorn lets requests take that it has.
	out.EndsOnSignal = p.endsWithin(10 * time.Second)
	if !out.EndsOnSignal {
		left, err := sockets()
		t.Logf("after the signal of a kubelet it serves on %v (%v)", left, err)
	}
	if t.Failed() {
		return
	}
	content, err := json.MarshalIndent(out, "", "  ")
	if err == nil {
		err = os.WriteFile(os.Getenv("TRUSTYAI_RECORDING"), append(content, '\n'), 0o644) //nolint:gosec // Test data that everybody may read.
	}
	if err != nil {
		t.Fatal(err)
	}
}

// record starts the service and takes down where it listens.
func (s *recordedStart) record(t *testing.T) {
	volume(t)
	files := map[string][]byte{}
	if s.Certificate {
		w := render(t, v1.GenerationPython, v1.ExposureSecured, upstreamShape)
		for key, value := range w.secret("tas-internal") {
			files[filepath.Join(filepath.Dir(certFile), key)] = value
		}
	}
	env := []string{"STORAGE_DATA_FOLDER=/inputs"}
	for name, value := range s.Env {
		env = append(env, fmt.Sprintf("%s=%s", name, value))
	}
	if s.Env["SERVICE_STORAGE_FORMAT"] == string(v1.StorageDatabase) {
		installDriver(t)
	}
	p := startProcess(t, env, files)
	s.Listens = p.listens()
	t.Log(s.Listens)
	p.kill()
}

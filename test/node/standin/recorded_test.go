package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"mlkeeper.dev/internal/pki"
	"mlkeeper.dev/test/ports"
)

// recording is what trustyai-service did as a process, which make test-trustyai records (realservice_test.go).
type recording struct {
	Version   string                 `json:"version"`
	Starts    []recordedStart        `json:"starts"`
	Exchanges []exchange             `json:"exchanges"`
	Metrics   map[string]metricShape `json:"metrics"`
	// EndsOnSignal says that the process ended soon after SIGTERM.
	EndsOnSignal bool `json:"endsOnSignal"`
}

// recordedStart is one start: what the service found, and the addresses that it listened on then, or that it ended.
type recordedStart struct {
	Name        string            `json:"name"`
	Env         map[string]string `json:"env,omitempty"`
	Certificate bool              `json:"certificate,omitempty"`
	Listens     string            `json:"listens"`
}

// exchange is one request and the code of its answer. The order matters: the service puts requests and responses together.
type exchange struct {
	Port    string            `json:"port"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	// Values is for a body that is an event of so many values, which hardly compress.
	Values int `json:"values,omitempty"`
	// Gzip says that the body is compressed on its way.
	Gzip bool `json:"gzip,omitempty"`
	Code int  `json:"code"`
}

// metricShape is what Prometheus knows a metric by.
type metricShape struct {
	Type   string   `json:"type"`
	Labels []string `json:"labels"`
}

// request makes the request. The host is one that handlers do not look at, unless a client replaces it.
func (e exchange) request(t *testing.T) *http.Request {
	t.Helper()
	body := []byte(e.Body)
	if e.Values > 0 {
		body = longEvent(e.Values)
	}
	if e.Gzip {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		body = out.Bytes()
	}
	r := httptest.NewRequest(e.Method, e.Path, bytes.NewReader(body))
	for name, value := range e.Headers {
		r.Header.Set(name, value)
	}
	return r
}

func (e exchange) String() string {
	return fmt.Sprintf("%s :%s%s %v %s%s", e.Method, e.Port, e.Path, e.Headers, e.Body, strings.Repeat(fmt.Sprintf(" of %d values", e.Values), min(e.Values, 1)))
}

// longEvent is an event of n values, by a generator that Numerical Recipes has.
func longEvent(n int) []byte {
	values, state := make([]uint32, n), uint32(1)
	for i := range values {
		state = state*1664525 + 1013904223
		values[i] = state
	}
	out, err := json.Marshal(map[string]any{"inputs": []any{map[string]any{"name": "i", "shape": []int{1, n}, "datatype": "INT64", "data": values}}})
	if err != nil {
		panic(err) // Numbers and texts encode.
	}
	return out
}

// metricsIn are the metrics of the TrustyAI service in what Prometheus scrapes.
func metricsIn(t *testing.T, text string) map[string]metricShape {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("Prometheus does not read %v:\n%s", err, text)
	}
	out := map[string]metricShape{}
	for name, family := range families {
		if !strings.HasPrefix(name, "trustyai_") || len(family.GetMetric()) == 0 {
			continue
		}
		shape := metricShape{Type: strings.ToLower(family.GetType().String())}
		for _, pair := range family.GetMetric()[0].GetLabel() {
			shape.Labels = append(shape.Labels, pair.GetName())
		}
		slices.Sort(shape.Labels)
		out[name] = shape
	}
	return out
}

// readRecording reads the recording that is kept, or the one that was just made.
func readRecording(t *testing.T) recording {
	t.Helper()
	path := os.Getenv("TRUSTYAI_RECORDING")
	if path == "" {
		path = "testdata/trustyai.json"
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := recording{}
	if err := json.Unmarshal(content, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Starts) == 0 || len(out.Exchanges) == 0 || len(out.Metrics) == 0 {
		t.Fatalf("the recording of trustyai-service %s is empty", out.Version)
	}
	return out
}

// addresses prints where a service listens.
func addresses(listeners []listener, err error) string {
	if err != nil {
		return "ends"
	}
	out := make([]string, 0, len(listeners))
	for _, l := range listeners {
		text := l.address()
		if l.cert != "" {
			text += "+tls"
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestRecordingOfStarts: the stand-in listens where the real service did, and ends where that ended.
func TestRecordingOfStarts(t *testing.T) {
	r := readRecording(t)
	for _, one := range r.Starts {
		found := container{
			env: func(name string) (string, bool) {
				value, set := one.Env[name]
				return value, set
			},
			exists: func(string) bool { return one.Certificate },
		}
		if got := addresses((&service{}).listeners(python, found)); got != one.Listens {
			t.Errorf("%s: it listens on %s, and trustyai-service %s on %s", one.Name, got, r.Version, one.Listens)
		}
	}
}

// TestRecordingOfExchanges: the stand-in answers with the codes of the real service.
func TestRecordingOfExchanges(t *testing.T) {
	r := readRecording(t)
	listeners, err := (&service{}).listeners(python, container{
		env: func(string) (string, bool) { return "", false }, exists: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range r.Exchanges {
		i := slices.IndexFunc(listeners, func(l listener) bool { return l.port == one.Port })
		if i < 0 {
			t.Fatalf("%s: nothing listens there", one)
		}
		got := httptest.NewRecorder()
		listeners[i].handler.ServeHTTP(got, one.request(t))
		if got.Code != one.Code {
			t.Errorf("%s is answered %d %s, and by trustyai-service %s %d", one, got.Code, strings.TrimSpace(got.Body.String()), r.Version, one.Code)
		}
	}
}

// TestRecordingOfMetrics: the stand-in invents no metric, and none with other labels.
func TestRecordingOfMetrics(t *testing.T) {
	r := readRecording(t)
	w := httptest.NewRecorder()
	(&service{}).metrics(w, nil)
	got := metricsIn(t, w.Body.String())
	if len(got) == 0 {
		t.Error("it has none")
	}
	for name, shape := range got {
		if want, known := r.Metrics[name]; !known || shape.Type != want.Type || !slices.Equal(shape.Labels, want.Labels) {
			t.Errorf("%s is %v, and of trustyai-service %s %v", name, shape, r.Version, want)
		}
	}
}

// TestRecordingOfTheEnd: the stand-in outlives the signal of a kubelet where the real service did, without its health.
func TestRecordingOfTheEnd(t *testing.T) {
	r := readRecording(t)
	at := map[string]string{"HEALTH_PORT": "", "HTTP_PORT": "", "SSL_PORT": ""}
	for name := range at {
		port, err := ports.Free()
		if err != nil {
			t.Fatal(err)
		}
		at[name] = strconv.Itoa(port)
		t.Setenv(name, at[name])
	}
	pair, err := pki.NewServer(rand.Reader, time.Now(), nil, "service", nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"TLS_CERT_FILE": pair.CertPEM, "TLS_KEY_FILE": pair.KeyPEM} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, path)
	}
	ctx, signal := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, python) }()
	listens := func(name string) bool {
		connection, err := net.Dial("tcp", "127.0.0.1:"+at[name])
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	}
	eventually(t, "it listens", func() bool { return listens("HEALTH_PORT") && listens("HTTP_PORT") && listens("SSL_PORT") })
	signal()
	eventually(t, "its health goes", func() bool { return !listens("HEALTH_PORT") })
	select {
	case err := <-ended:
		if !r.EndsOnSignal {
			t.Errorf("it ended (%v), which trustyai-service %s does not", err, r.Version)
		}
	case <-time.After(100 * time.Millisecond):
		if r.EndsOnSignal || !listens("HTTP_PORT") || !listens("SSL_PORT") {
			t.Errorf("it does not serve on, as trustyai-service %s does", r.Version)
		}
	}
}

// eventually waits for something.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after a minute: %s", what)
		}
	}
}

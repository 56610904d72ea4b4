package tfserver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The tests of this file hold a load up, or look at what no program tells.

func (s *Server) list(model string) string {
	var out []string
	for _, v := range s.Versions(model) {
		out = append(out, fmt.Sprintf("%d %s", v.Number, v.State))
	}
	return strings.Join(out, ", ")
}

func (s *Server) becomes(t *testing.T, model, want string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); s.list(model) != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s is %q, not %q", model, s.list(model), want)
		}
	}
}

// stays says that nothing changes over several periods.
func (s *Server) stays(t *testing.T, model, want string) {
	t.Helper()
	s.becomes(t, model, want)
	for range 20 {
		time.Sleep(inProcess)
		if got := s.list(model); got != want {
			t.Fatalf("%s became %q, and was to stay %q", model, got, want)
		}
	}
}

func TestTheNewVersionLoadsBeforeTheOldOneUnloads(t *testing.T) {
	store := &Memory{}
	store.Put("gs://b/m", 1)
	s := InProcess(t, store, config("gs://b/m", ""))
	s.becomes(t, "m", "1 AVAILABLE")
	release := store.Hold("gs://b/m", 2)
	t.Cleanup(release)
	s.stays(t, "m", "2 LOADING, 1 AVAILABLE")
	if _, version, err := s.Handle(Spec{Model: "m"}); err != nil || version != 1 {
		t.Errorf("version %d serves, %v", version, err)
	}
	release()
	s.stays(t, "m", "2 AVAILABLE, 1 END")
}

// Without load threads a load runs in the manager's loop, and holds up every other model.
func TestALoadHoldsUpOthersWithoutLoadThreads(t *testing.T) {
	for threads, want := range map[string]string{"0": "1 AVAILABLE", "2": "2 AVAILABLE, 1 END"} {
		t.Run(threads, func(t *testing.T) {
			store := &Memory{}
			store.Put("gs://b/m", 1)
			store.Put("gs://b/n", 1)
			s := InProcess(t, store, "model_config_list { "+model("m", "gs://b/m", "")+model("n", "gs://b/n", "")+" }", "--num_load_threads="+threads)
			release := store.Hold("gs://b/m", 2)
			t.Cleanup(release)
			s.becomes(t, "m", "2 LOADING, 1 AVAILABLE")
			store.Put("gs://b/n", 2)
			s.stays(t, "n", want)
			release()
			s.becomes(t, "n", "2 AVAILABLE, 1 END")
		})
	}
}

// The load of a version that fails is tried again while it is LOADING.
func TestALoadIsTriedAgain(t *testing.T) {
	store := &Memory{}
	store.Put("gs://b/m", 1)
	s := InProcess(t, store, config("gs://b/m", ""), "--max_num_load_retries=1000", "--load_retry_interval_micros=5000", "--num_load_threads=1")
	store.Fail("gs://b/m", 2, status.Error(codes.ResourceExhausted, "no memory"))
	s.stays(t, "m", "2 LOADING, 1 AVAILABLE")
	store.Put("gs://b/m", 2)
	s.becomes(t, "m", "2 AVAILABLE, 1 END")
	store.Fail("gs://b/m", 3, status.Error(codes.ResourceExhausted, "no memory"))
	s.becomes(t, "m", "3 LOADING, 2 AVAILABLE, 1 END")
	store.Remove("gs://b/m", 3)
	s.becomes(t, "m", "3 END, 2 AVAILABLE, 1 END")
}

// A reload that adds a model without versions waits for ever, and so does every reload after it.
func TestAReloadWaitsForANewModel(t *testing.T) {
	store := &Memory{}
	store.Put("gs://b/m", 1)
	store.Base("gs://b/n")
	s := InProcess(t, store, config("gs://b/m", ""))
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		first <- s.Apply("model_config_list { " + model("m", "gs://b/m", "") + model("n", "gs://b/n", "") + " }")
	}()
	time.Sleep(5 * inProcess)
	go func() { second <- s.Apply(config("gs://b/m", "")) }()
	select {
	case err := <-first:
		t.Fatalf("it did not wait: %v", err)
	case err := <-second:
		t.Fatalf("the next one did not wait: %v", err)
	case <-time.After(20 * inProcess):
	}
	store.Put("gs://b/n", 1)
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
	s.becomes(t, "n", "1 END")
}

func TestAModelThatFailsEndsAReloadWithAnError(t *testing.T) {
	store := &Memory{}
	store.Put("gs://b/m", 1)
	store.Fail("gs://b/n", 1, status.Error(codes.Internal, "broken"))
	s := InProcess(t, store, config("gs://b/m", ""), "--max_num_load_retries=0")
	err := s.Apply("model_config_list { " + model("m", "gs://b/m", "") + model("n", "gs://b/n", "") + " }")
	if err == nil || !strings.Contains(err.Error(), "1 model(s) did not become available: {{{name: n version: 1} due to error: INTERNAL: broken}, }") {
		t.Error(err)
	}
	s.becomes(t, "m", "1 AVAILABLE")
}

func TestOnlyThePortThatWasToldAnswers(t *testing.T) {
	store := &Memory{}
	store.Put("gs://b/m", 1)
	s := InProcess(t, store, config("gs://b/m", ""), "--rest_api_port=8501")
	client := &http.Client{Transport: s}
	for port, want := range map[string]bool{"8501": true, "8500": false, "80": false} {
		resp, err := client.Get("http://10.0.0.1:" + port + "/v1/models/m")
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil && resp.StatusCode == http.StatusOK) != want {
			t.Errorf("port %s: %v", port, err)
		}
	}
	if got := s.Asked.Load(); got != 1 {
		t.Errorf("%d requests", got)
	}
}

func TestSavedModelIsReadBack(t *testing.T) {
	for _, bias := range []float32{0, 1, -2.5} {
		if m, err := readSavedModel(SavedModel(bias)); err != nil || m.Bias != bias {
			t.Errorf("%v: %v, %v", bias, m, err)
		}
	}
	for _, raw := range []string{"", "no model", "\x0a"} {
		if _, err := readSavedModel([]byte(raw)); err == nil {
			t.Errorf("%q is a model", raw)
		}
	}
}

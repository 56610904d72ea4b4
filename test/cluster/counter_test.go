package cluster

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"mlkeeper.dev/internal/requests"
)

func TestCounterSums(t *testing.T) {
	counter := NewCounter(requests.RoundTripper(func(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed }))
	send := func(method, target string) {
		if resp, err := counter.RoundTrip(httptest.NewRequest(method, target, nil)); err == nil {
			_ = resp.Body.Close()
		}
	}
	send("PUT", "/apis/coordination.k8s.io/v1/namespaces/x/leases/l")
	send("GET", "/apis/coordination.k8s.io/v1/namespaces/x/leases/l")
	before := counter.Snapshot()
	send("POST", "/api/v1/namespaces/x/pods")
	send("GET", "/api/v1/pods?watch=1")
	send("GET", "/api/v1/pods")
	if got := counter.Writes("leases"); got != 1 {
		t.Errorf("writes without leases: %d\n%s", got, Describe(counter.Snapshot()))
	}
	if got := counter.Writes(); got != 2 {
		t.Errorf("writes: %d", got)
	}
	if got := counter.Reads("leases"); got != 1 {
		t.Errorf("reads without leases: %d", got)
	}
	if got := counter.Since(before); len(got) != 3 {
		t.Errorf("since the snapshot:\n%s", Describe(got))
	}
}

package cluster

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		method, target, contentType, want string
	}{
		{"GET", "/api/v1/namespaces/x/configmaps/a", "", "GET configmaps"},
		{"GET", "/api/v1/namespaces/x/configmaps", "", "LIST configmaps"},
		{"GET", "/api/v1/configmaps?watch=true&sendInitialEvents=true", "", "WATCH configmaps"},
		{"GET", "/api/v1/watch/namespaces/x/configmaps", "", "WATCH configmaps"},
		{"GET", "/api/v1/namespaces", "", "LIST namespaces"},
		{"GET", "/api/v1/namespaces/x", "", "GET namespaces"},
		{"PUT", "/api/v1/namespaces/x/finalize", "", "UPDATE namespaces/finalize"},
		{"DELETE", "/api/v1/namespaces/x/pods", "", "DELETECOLLECTION pods"},
		{"DELETE", "/api/v1/namespaces/x/pods/a", "", "DELETE pods"},
		{"PATCH", "/apis/apps/v1/namespaces/x/deployments/a/status", "application/apply-patch+yaml", "APPLY deployments.apps/status"},
		{"PATCH", "/apis/apps/v1/namespaces/x/deployments/a", "application/merge-patch+json", "PATCH deployments.apps"},
		{"POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "", "CREATE clusterroles.rbac.authorization.k8s.io"},
		{"POST", "/api/v1/namespaces/x/serviceaccounts/a/token", "", "CREATE serviceaccounts/token"},
		{"GET", "/apis/apps/v1", "", "GET /apis/apps/v1"},
		{"GET", "/api", "", "GET /api"},
		{"GET", "/openapi/v3", "", "GET /openapi/v3"},
	} {
		r := httptest.NewRequest(c.method, c.target, nil)
		r.Header.Set("Content-Type", c.contentType)
		if got := classify(r).String(); got != c.want {
			t.Errorf("%s %s is %q, want %q", c.method, c.target, got, c.want)
		}
	}
}

func TestCounterSums(t *testing.T) {
	counter := NewCounter(roundTripper(func(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed }))
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

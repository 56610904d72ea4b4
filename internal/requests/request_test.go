package requests

import (
	"net/http/httptest"
	"testing"
)

func TestOf(t *testing.T) {
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
		if got := Of(r).String(); got != c.want {
			t.Errorf("%s %s is %q, want %q", c.method, c.target, got, c.want)
		}
	}
}

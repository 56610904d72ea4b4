package cli

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"mlkeeper.dev/internal/console"
)

func TestUnreachableClusterSaysWhatToDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}],
contexts: [{name: c, context: {cluster: c, namespace: here}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := environment(fakeController{}, nil)
	env.Connection = &Connection{kubeconfig: path}
	_, _, err := run(t, NewStatusCommand(env), "")
	if err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1 does not answer") || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("error %v", err)
	}
	if got := env.Connection.namespace(); got != "here" {
		t.Errorf("the namespace of the context is %q", got)
	}
}

func TestPartialDiscoveryIsNotAbsence(t *testing.T) {
	down := errors.New("down")
	m := servedMapper{
		RESTMapper: meta.NewDefaultRESTMapper(nil),
		failed:     map[schema.GroupVersion]error{{Group: "route.openshift.io", Version: "v1"}: down},
	}
	if _, err := m.RESTMapping(routeGVK.GroupKind(), "v1"); !errors.Is(err, down) || meta.IsNoMatchError(err) {
		t.Errorf("a group that cannot be discovered: %v", err)
	}
	if _, err := m.RESTMapping(deployGVK.GroupKind(), "v1"); !meta.IsNoMatchError(err) {
		t.Errorf("a group that is not served: %v", err)
	}
}

// discovered answers discovery as an API server with a broken aggregated API does.
type discovered struct {
	discovery.ServerResourcesInterface
	err error
}

func (d discovered) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return []*metav1.APIGroup{{Name: "apps", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "apps/v1", Version: "v1"}}}},
		[]*metav1.APIResourceList{{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
			{Name: "deployments", Kind: "Deployment", Namespaced: true}, {Name: "deployments/status", Kind: "Deployment"},
		}}}, d.err
}

func TestDiscover(t *testing.T) {
	broken := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{
		{Group: "route.openshift.io", Version: "v1"}: errors.New("down"),
	}}
	found, err := discover(discovered{err: broken})
	if err != nil {
		t.Fatal(err)
	}
	if kinds := found.kinds; len(kinds) != 1 || !slices.Contains(kinds[0].names, "deployments.apps") {
		t.Errorf("kinds %v; a subresource is none", kinds)
	}
	m := found.mapper
	mapping, err := m.RESTMapping(deployGVK.GroupKind(), "v1")
	if err != nil || mapping.Resource.Resource != "deployments" || mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		t.Errorf("%v, %v", mapping, err)
	}
	if _, err := m.RESTMapping(routeGVK.GroupKind(), "v1"); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("a broken group: %v", err)
	}
	// What is said of a kind, such as that nobody reads values of Secrets, is said of its name as it is.
	for _, other := range []string{"deployment", "DeploymentList"} {
		if mapping, err := m.RESTMapping(schema.GroupKind{Group: "apps", Kind: other}); !meta.IsNoMatchError(err) {
			t.Errorf("%s: %v, %v", other, mapping, err)
		}
	}
	if _, err := discover(discovered{err: errors.New("refused")}); err == nil {
		t.Error("an API server that does not answer is no error")
	}
}

// TestATokenOfAUserComesAlone has a kubeconfig with credentials and impersonation: with the token of a user, nothing of these is sent.
func TestATokenOfAUserComesAlone(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	// Credentials go over TLS alone.
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Get("Authorization")+" "+r.Header.Get("Impersonate-User"))
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "`+server.URL+`", insecure-skip-tls-verify: true}}],
users: [{name: u, user: {token: own, as: admin}}], contexts: [{name: c, context: {cluster: c, user: u}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	connection := &Connection{kubeconfig: path}
	for _, one := range []struct {
		connection *Connection
		want       string
	}{{connection, "Bearer own admin"}, {connection.as("theirs"), "Bearer theirs "}, {connection, "Bearer own admin"}} {
		mu.Lock()
		seen = nil
		mu.Unlock()
		if _, err := one.connection.open(); !errors.Is(unauthorized(err), console.ErrUnauthorized) {
			t.Errorf("%v", err)
		}
		if len(seen) == 0 || slices.ContainsFunc(seen, func(s string) bool { return s != one.want }) {
			t.Errorf("the API server is asked as %q, want %q", seen, one.want)
		}
	}
}

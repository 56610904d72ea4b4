package impersonation

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

const user = "system:serviceaccount:ns:app"

// TestEachClientActsAsItsUser sends a request as a user and one as another: the API server gets the name of each, no groups, and nothing
// of the operator's own impersonation.
func TestEachClientActsAsItsUser(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`)
	}))
	defer server.Close()
	clients := New(&rest.Config{Host: server.URL, Impersonate: rest.ImpersonationConfig{UserName: "operator", Groups: []string{"admins"}}})
	for _, name := range []string{user, "another", user} {
		client, err := clients.For(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("ns").
			Get(t.Context(), "x", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if got.Get(transport.ImpersonateUserHeader) != name || len(got.Values(transport.ImpersonateGroupHeader)) > 0 {
			t.Errorf("as %s, the API server gets %v", name, got)
		}
	}
}

func TestClientsAreReusedAndBounded(t *testing.T) {
	clients := New(&rest.Config{Host: "https://127.0.0.1:1"})
	first, err := clients.For(user)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := clients.For(user); err != nil || again != first {
		t.Errorf("a user has two clients: %v", err)
	}
	for i := range 3 * maxClients {
		if _, err := clients.For(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		if len(clients.byUser) > maxClients {
			t.Fatalf("%d clients are kept", len(clients.byUser))
		}
	}
}

package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// reviews answers as the API server does: "reader" and "stranger" are tokens, and the reader may get /metrics.
func reviews(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		o, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			t.Error(err)
		}
		switch review := o.(type) {
		case *authenticationv1.TokenReview:
			token := review.Spec.Token
			review.Status.Authenticated, review.Status.User.Username = token == "reader" || token == "stranger", token
		case *authorizationv1.SubjectAccessReview:
			what := review.Spec.NonResourceAttributes
			review.Status.Allowed = review.Spec.User == "reader" && what != nil && what.Path == "/metrics" && what.Verb == "get"
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(o)
	}))
	t.Cleanup(server.Close)
	return server
}

// TestMetricsAreServedToReadersAlone starts the endpoint with the flags that a manager has by default.
func TestMetricsAreServedToReadersAlone(t *testing.T) {
	var f managerFlags
	var s settings
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	bindManager(flags, &f, &s)
	if err := flags.Parse([]string{"--metrics-bind-address=127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	server, err := metricsserver.NewServer(metricsOptions(f), &rest.Config{Host: reviews(t).URL}, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Start(t.Context()) }()
	bound, ok := server.(interface{ GetBindAddr() string })
	if !ok {
		t.Fatal("the address of the endpoint is not known")
	}
	for deadline := time.Now().Add(time.Minute); bound.GetBindAddr() == ""; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the endpoint is not served")
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		scheme, token string
		want          int
	}{
		{"https", "reader", http.StatusOK},
		{"https", "stranger", http.StatusForbidden},
		{"https", "", http.StatusUnauthorized},
		{"https", "made-up", 0},
		{"http", "reader", http.StatusBadRequest},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.scheme+"://"+bound.GetBindAddr()+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		// What cannot be authenticated is refused as an error of the server, as the API server reports it.
		if res.StatusCode != c.want && (c.want != 0 || res.StatusCode < http.StatusBadRequest) {
			t.Errorf("%s with the token %q: %s, want %d", c.scheme, c.token, res.Status, c.want)
		}
	}
}

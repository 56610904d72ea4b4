package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// ask sends one request to a handler.
func ask(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	h.ServeHTTP(w, r)
	return w
}

// partialPayload and eventPayload are what ModelMesh and a logger of KServe send.
const (
	partialPayload = `{"id":"one","kind":"request","modelid":"m","data":"CgFt"}`
	eventPayload   = `{"id":"one","inputs":[{"name":"i","shape":[1,2],"datatype":"FP64","data":[[1,2]]}]}`
)

func TestReadinessFollowsVolumeAndWish(t *testing.T) {
	folder := t.TempDir()
	s := &service{storage: storageOf(container{env: func(name string) (string, bool) {
		return folder, name == "STORAGE_DATA_FOLDER"
	}})}
	h := s.api(javaPaths)
	expect := func(code int) {
		t.Helper()
		if w := ask(h, "GET", "/q/health/ready", ""); w.Code != code {
			t.Errorf("ready answers %d: %s", w.Code, w.Body)
		}
	}
	expect(http.StatusOK)
	ask(h, "POST", "/standin/ready/false", "")
	expect(http.StatusServiceUnavailable)
	ask(h, "POST", "/standin/ready/true", "")
	expect(http.StatusOK)
	folder = filepath.Join(folder, "absent")
	expect(http.StatusServiceUnavailable)
	if w := ask(h, "GET", "/q/health/live", ""); w.Code != http.StatusOK {
		t.Errorf("live answers %d", w.Code)
	}
}

func TestPayloadsAreRemembered(t *testing.T) {
	s := &service{}
	h := s.api(javaPaths)
	if w := ask(h, "POST", "/consumer/kserve/v2", partialPayload, "Content-Type: application/json"); w.Code != http.StatusOK {
		t.Fatalf("the consumer answers %d", w.Code)
	}
	if w := ask(h, "GET", "/standin/payloads", ""); !strings.Contains(w.Body.String(), `\"id\":\"one\"`) {
		t.Errorf("payloads: %s", w.Body)
	}
	if w := ask(h, "GET", "/q/metrics", ""); !strings.Contains(w.Body.String(), "standin_payloads_total 1\n") {
		t.Errorf("metrics: %s", w.Body)
	}
}

// rights are what some users may do with a Service.
var rights = map[string]string{"reader": "get", "writer": "get create", "poster": "create", "owner": "get create update patch delete", "stranger": ""}

// admitted says, by method, whom the gate lets in: who has the right that the method asks for, and that of the configuration, get.
var admitted = map[string]string{
	http.MethodGet: "reader writer owner", http.MethodPost: "writer owner", http.MethodDelete: "owner", http.MethodHead: "",
}

// allows answers a review of a token, which is its owner's name, or of what such a user may do with the Service tas.
func allows(object any) {
	switch o := object.(type) {
	case *authenticationv1.TokenReview:
		_, o.Status.Authenticated = rights[o.Spec.Token]
		o.Status.User.Username = o.Spec.Token
	case *authorizationv1.SubjectAccessReview:
		a := o.Spec.ResourceAttributes
		o.Status.Allowed = a != nil && a.Resource == "services" && a.Name == "tas" && slices.Contains(strings.Fields(rights[o.Spec.User]), a.Verb)
	}
}

func TestGateAsksTheAPIServer(t *testing.T) {
	attributes, err := attributesOf([]byte(`authorization: {resourceAttributes: {resource: services, name: tas, namespace: ns, verb: get}}`))
	if err != nil {
		t.Fatal(err)
	}
	var reviews error
	g := &gate{
		attributes: attributes,
		next:       http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		review: func(_ context.Context, _ string, object any) error {
			allows(object)
			return reviews
		},
	}
	for method, users := range admitted {
		for user := range rights {
			want := http.StatusForbidden
			if slices.Contains(strings.Fields(users), user) {
				want = http.StatusOK
			}
			if w := ask(g, method, "/", "", "Authorization: Bearer "+user); w.Code != want {
				t.Errorf("%s of %s is answered %d, not %d", method, user, w.Code, want)
			}
		}
	}
	if w := ask(g, "GET", "/", "", "Authorization: Bearer unknown"); w.Code != http.StatusUnauthorized {
		t.Errorf("with an unknown token: %d", w.Code)
	}
	if w := ask(g, "GET", "/", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", w.Code)
	}
	reviews = errors.New("no right")
	if w := ask(g, "GET", "/", "", "Authorization: Bearer reader"); w.Code != http.StatusInternalServerError {
		t.Errorf("without rights of its own: %d", w.Code)
	}
	if _, err := attributesOf([]byte("{}")); err == nil {
		t.Error("a configuration without a resource is accepted")
	}
}

// TestRefusalsAreNamed holds what the test on a real node looks for when a request must be refused.
func TestRefusalsAreNamed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer server.Close()
	err := call(t.Context(), http.MethodGet, server.URL, "", nil)
	if err == nil || !strings.Contains(err.Error(), "403 Forbidden") {
		t.Errorf("a refused request ends with %v", err)
	}
}

package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
	partialPayload = `{"id":"one","kind":"request","modelid":"m","data":"AA=="}`
	eventPayload   = `{"id":"one","inputs":[]}`
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
	for _, bad := range []string{`{"id":"one"}`, `{`, `{"id":"one","kind":"other","modelid":"m","data":"AA=="}`, `{"id":"one","kind":"request","modelid":"m","data":"?"}`} {
		if w := ask(h, "POST", "/consumer/kserve/v2", bad); w.Code != http.StatusBadRequest {
			t.Errorf("%s is answered %d", bad, w.Code)
		}
	}
	if w := ask(h, "GET", "/standin/payloads", ""); !strings.Contains(w.Body.String(), `\"id\":\"one\"`) {
		t.Errorf("payloads: %s", w.Body)
	}
	if w := ask(h, "GET", "/q/metrics", ""); !strings.Contains(w.Body.String(), "standin_payloads_total 1\n") {
		t.Errorf("metrics: %s", w.Body)
	}
}

func TestGateAsksTheAPIServer(t *testing.T) {
	attributes, err := attributesOf([]byte(`authorization: {resourceAttributes: {resource: services, name: tas, namespace: ns, verb: get}}`))
	if err != nil {
		t.Fatal(err)
	}
	refuse := errors.New("no right")
	var reviews error
	g := &gate{
		attributes: attributes,
		next:       http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		review: func(_ context.Context, _ string, object any) error {
			switch o := object.(type) {
			case *authenticationv1.TokenReview:
				o.Status.Authenticated, o.Status.User.Username = o.Spec.Token != "unknown", o.Spec.Token
			case *authorizationv1.SubjectAccessReview:
				o.Status.Allowed = o.Spec.User == "friend" && o.Spec.ResourceAttributes.Name == "tas"
			}
			return reviews
		},
	}
	for token, want := range map[string]int{"unknown": http.StatusUnauthorized, "stranger": http.StatusForbidden, "friend": http.StatusOK} {
		if w := ask(g, "GET", "/", "", "Authorization: Bearer "+token); w.Code != want {
			t.Errorf("%s gets %d, not %d", token, w.Code, want)
		}
	}
	if w := ask(g, "GET", "/", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", w.Code)
	}
	reviews = refuse
	if w := ask(g, "GET", "/", "", "Authorization: Bearer friend"); w.Code != http.StatusInternalServerError {
		t.Errorf("without rights of its own: %d", w.Code)
	}
	if _, err := attributesOf([]byte("{}")); err == nil {
		t.Error("a configuration without a resource is accepted")
	}
}

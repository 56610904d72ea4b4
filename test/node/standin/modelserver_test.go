package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestModelServerAnswersAsTensorFlowServing(t *testing.T) {
	s, err := newModelServer(`model_config_list: { config: { name: "resnet", model_version_policy: { specific: { versions: 7 } } } }`)
	if err != nil {
		t.Fatal(err)
	}
	h := s.handler()
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"GET", "/v1/models/resnet", "", http.StatusOK, `"state":"AVAILABLE"`},
		{"GET", "/v1/models/resnet", "", http.StatusOK, `"version":"7"`},
		{"GET", "/v1/models/resnet/metadata", "", http.StatusOK, `"name":"resnet"`},
		{"POST", "/v1/models/resnet:predict", `{"instances":[1,2.5]}`, http.StatusOK, `{"predictions":[3,6]}`},
		{"POST", "/v1/models/resnet:predict", `{`, http.StatusBadRequest, `"error"`},
		{"GET", "/v1/models/other", "", http.StatusNotFound, `"error"`},
		{"POST", "/v1/models/other:predict", `{"instances":[1]}`, http.StatusNotFound, `"error"`},
	} {
		w := ask(h, c.method, c.path, c.body)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s answers %d %s; want %d and %s", c.method, c.path, w.Code, w.Body, c.code, c.want)
		}
	}
	if _, err := newModelServer("{}"); err == nil {
		t.Error("a config without a model is accepted")
	}
}

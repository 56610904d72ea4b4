package main

import (
	"net/http"
	"strings"
	"testing"
)

// The paths and fields are those of https://www.tensorflow.org/tfx/serving/api_rest; no answer of a real server was recorded.
func TestModelServerAnswersByTheRESTAPIsPaths(t *testing.T) {
	s, err := newModelServer(`
# Two models.
model_config_list: {
  config: {
    name: "resnet", base_path: "/models/resnet", model_platform: "tensorflow"
    model_version_policy: { specific: { versions: [6, 7] } }
    version_labels: { key: "stable", value: 6 }
  }
  config < name: 'second' base_path: "s3://b/second" model_type: TENSORFLOW >
}`)
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
		{"GET", "/v1/models/resnet", "", http.StatusOK, `"version":"6"`},
		{"GET", "/v1/models/second", "", http.StatusOK, `"version":"1"`},
		{"POST", "/v1/models/second:predict", `{"instances":[1]}`, http.StatusOK, `{"predictions":[3]}`},
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
}

func TestModelServerEndsAtAConfigThatTensorFlowServingRefuses(t *testing.T) {
	const good = `name: "m" base_path: "/m" model_platform: "tensorflow" `
	if _, err := newModelServer("model_config_list { config { " + good + "} }"); err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{
		`{}`: "name of a field",
		``:   "no model",
		`model_config_list { config { name: "m }`:                                                           "expected a token",
		`model_config_list { config { ` + good:                                                              "name of a field",
		`custom_model_config {}`:                                                                            "no field named",
		`model_config_list { config {` + good + `base: "/m" } }`:                                            "no field named",
		`model_config_list { config {` + good + `logging_config {} } }`:                                     "no field named",
		`model_config_list { config {` + good + `name: "o" } }`:                                             "multiple times",
		`model_config_list { config {` + good + `} config {` + good + `} }`:                                 "multiple times",
		`model_config_list { config { name: m base_path: "/m" model_platform: "tensorflow" } }`:             "no string",
		`model_config_list { config { name: "m" base_path: "m" model_platform: "tensorflow" } }`:            "absolute path",
		`model_config_list { config { name: "m" model_platform: "tensorflow" } }`:                           "absolute path",
		`model_config_list { config { name: "m" base_path: "/m" } }`:                                        "neither",
		`model_config_list { config {` + good + `model_type: TENSORFLOW } }`:                                "both",
		`model_config_list { config { name: "m" base_path: "/m" model_platform: "pytorch" } }`:              "not supported",
		`model_config_list { config {` + good + `model_version_policy { latest {} all {} } } }`:             "oneof",
		`model_config_list { config {` + good + `model_version_policy: 1 } }`:                               "no message",
		`model_config_list { config {` + good + `version_labels { key: "a" value: 2 } } }`:                  "not currently available",
		`model_config_list { config {` + good + `model_version_policy { specific { versions: "1" } } } }`:   "no number",
		`model_config_list { config {` + good + `model_version_policy { specific { versions: [1 2] } } } }`: "expected a comma",
		`model_config_list { config {` + good + `model_version_policy { specific { versions 1 } } } }`:      "expected a value",
	} {
		if _, err := newModelServer(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %q", config, err, want)
		}
	}
}

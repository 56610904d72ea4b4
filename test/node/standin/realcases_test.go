//go:build realtrustyai

package main

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"

	"google.golang.org/protobuf/encoding/protowire"
)

// answerOf is the answer of a handler.
func answerOf(h http.Handler, r *http.Request) (code int, answer string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

var credentialsOfADatabase = map[string]string{
	"SERVICE_STORAGE_FORMAT": "DATABASE", "DATABASE_USERNAME": "u", "DATABASE_PASSWORD": "p", "DATABASE_HOST": "s", "DATABASE_DATABASE": "n",
}

// starts are the starts that are recorded: the ports by default and others, the storage, and values that cannot be read.
var starts = []recordedStart{
	{Name: "with a certificate", Certificate: true},
	{Name: "without a certificate"},
	{Name: "with other ports", Certificate: true, Env: map[string]string{"HEALTH_PORT": "8001", "HTTP_PORT": "8002", "SSL_PORT": "8003"}},
	{Name: "with one port twice", Certificate: true, Env: map[string]string{"HEALTH_PORT": "8081"}},
	{Name: "with a port of words", Certificate: true, Env: map[string]string{"HTTP_PORT": "http"}},
	{Name: "with an empty port", Certificate: true, Env: map[string]string{"HTTP_PORT": ""}},
	{Name: "with a format of Java", Certificate: true, Env: map[string]string{"SERVICE_STORAGE_FORMAT": "MEMORY"}},
	{Name: "with a batch of words", Certificate: true, Env: map[string]string{"SERVICE_BATCH_SIZE": "many"}},
	{Name: "with an empty batch", Certificate: true, Env: map[string]string{"SERVICE_BATCH_SIZE": ""}},
	{Name: "with a schedule of words", Certificate: true, Env: map[string]string{"SERVICE_METRICS_SCHEDULE": "often"}},
	{Name: "with a database", Certificate: true, Env: credentialsOfADatabase},
	{Name: "with a database of Java's names", Certificate: true, Env: map[string]string{
		"SERVICE_STORAGE_FORMAT": "DATABASE", "QUARKUS_DATASOURCE_USERNAME": "u", "QUARKUS_DATASOURCE_PASSWORD": "p", "DATABASE_SERVICE": "s", "DATABASE_NAME": "n",
	}},
	{Name: "without the credentials", Certificate: true, Env: map[string]string{"SERVICE_STORAGE_FORMAT": "DATABASE"}},
	{Name: "with an empty password", Certificate: true, Env: map[string]string{
		"SERVICE_STORAGE_FORMAT": "DATABASE", "DATABASE_USERNAME": "u", "DATABASE_PASSWORD": "", "DATABASE_HOST": "s", "DATABASE_DATABASE": "n",
	}},
	{Name: "with an empty port of the database", Certificate: true, Env: map[string]string{
		"SERVICE_STORAGE_FORMAT": "DATABASE", "DATABASE_USERNAME": "u", "DATABASE_PASSWORD": "p", "DATABASE_HOST": "s", "DATABASE_DATABASE": "n", "DATABASE_PORT": "",
	}},
	{Name: "with a port of the database of words", Certificate: true, Env: map[string]string{
		"SERVICE_STORAGE_FORMAT": "DATABASE", "DATABASE_USERNAME": "u", "DATABASE_PASSWORD": "p", "DATABASE_HOST": "s", "DATABASE_DATABASE": "n", "DATABASE_PORT": "mysql",
	}},
}

// exchanges are the requests that are recorded: what is served at which port, and what the consumers take.
func exchanges() []exchange {
	var out []exchange
	for _, port := range []string{"8080", "8081", "4443"} {
		for _, path := range []string{"/", "/q/health", "/q/health/ready", "/q/health/live", "/q/metrics", "/info", "/elsewhere"} {
			out = append(out, exchange{Port: port, Method: http.MethodGet, Path: path})
		}
		out = append(out,
			exchange{Port: port, Method: http.MethodHead, Path: "/q/health/ready"},
			exchange{Port: port, Method: http.MethodPost, Path: "/q/health/ready"},
			exchange{Port: port, Method: http.MethodGet, Path: "/consumer/kserve/v2"},
			exchange{Port: port, Method: http.MethodPost, Path: "/", Body: eventPayload, Headers: agentHeaders("port-" + port)},
			exchange{Port: port, Method: http.MethodPost, Path: "/consumer/kserve/v2", Body: partialPayload, Headers: asJSON},
		)
	}
	for _, body := range events {
		out = append(out, exchange{Port: "4443", Method: http.MethodPost, Path: "/", Body: body, Headers: asJSON})
	}
	out = append(out, pairedEvents()...)
	out = append(out,
		exchange{Port: "8080", Method: http.MethodPost, Path: "/consumer/kserve/v2", Body: partialPayload},
		exchange{Port: "8080", Method: http.MethodPost, Path: "/consumer/kserve/v2", Body: partialPayload, Headers: map[string]string{"Content-Type": "text/plain"}},
		exchange{Port: "8080", Method: http.MethodPost, Path: "/consumer/kserve/v2", Body: partialPayload, Headers: map[string]string{"Content-Type": "application/json; charset=utf-8"}},
	)
	for _, body := range partials() {
		out = append(out, exchange{Port: "8080", Method: http.MethodPost, Path: "/consumer/kserve/v2", Body: body, Headers: asJSON})
	}
	return out
}

var asJSON = map[string]string{"Content-Type": "application/json"}

// events are bodies at the root that have an id of their own, or none.
var events = []string{
	eventPayload,
	`{"id":"e1","model_name":"m","outputs":[{"name":"o","shape":[2],"datatype":"BYTES","data":["a","b"]}]}`,
	``, `{`, `[]`, `null`, `{"id":"e2"}`,
	`{"instances":[[1,2]]}`,
	`{"inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1]}]}`,
	`{"id":"","inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1]}]}`,
	`{"id":7,"inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1]}]}`,
	`{"id":"e3","inputs":[]}`, `{"id":"e3","outputs":[]}`, `{"id":"e3","inputs":null,"outputs":[{"name":"o","shape":[1],"datatype":"FP64","data":[1]}]}`,
	`{"id":"e4","Inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1]}]}`,
	`{"id":"e4","inputs":[{"Name":"i","shape":[1],"datatype":"FP64","data":[1]}]}`,
	`{"id":"e4","inputs":[{"shape":[1],"datatype":"FP64","data":[1]}]}`,
	`{"id":"e4","inputs":[{"name":"i","datatype":"FP64","data":[1]}]}`,
	`{"id":"e4","inputs":[{"name":"i","shape":[1],"datatype":"FP64"}]}`,
	`{"id":"e5","inputs":[{"name":"i","shape":[2],"datatype":"FP64","data":[1]}]}`,
	`{"id":"e5","inputs":[{"name":"i","shape":[-1],"datatype":"FP64","data":[1]}]}`,
	`{"id":"e5","inputs":[{"name":"i","shape":[],"datatype":"FP64","data":[1]}]}`,
	`{"id":"e5","inputs":[{"name":"i","shape":[0],"datatype":"FP64","data":[]}]}`,
	`{"id":"e5","inputs":[{"name":"i","shape":[1.0],"datatype":"FP64","data":[1]}]}`,
	`{"id":"e5","inputs":[{"name":"i","shape":[2,2],"datatype":"FP64","data":[1,2,3,4]}]}`,
	`{"id":"e5","inputs":[{"name":"i","shape":[3],"datatype":"FP64","data":[[1,2],[3]]}]}`,
	`{"id":"e6","inputs":[{"name":"i","shape":[1],"datatype":"FLOAT","data":[1]}]}`,
	`{"id":"e6","inputs":[{"name":"i","shape":[1],"datatype":"fp64","data":[1]}]}`,
	`{"id":"e6","inputs":[{"name":"i","shape":[1],"datatype":"FP16","data":[1.5]}]}`,
	`{"id":"e7","inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":["a"]}]}`,
	`{"id":"e7","inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":["1.5"]}]}`,
	`{"id":"e7","inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[true]}]}`,
	`{"id":"e7","inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[null]}]}`,
	`{"id":"e7","inputs":[{"name":"i","shape":[1],"datatype":"INT64","data":[null]}]}`,
	`{"id":"e7","inputs":[{"name":"i","shape":[1],"datatype":"INT64","data":[1.5]}]}`,
	`{"id":"e7","inputs":[{"name":"i","shape":[1],"datatype":"INT64","data":["1"]}]}`,
	`{"id":"e7","inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[{}]}]}`,
	`{"id":"e8","inputs":[{"name":"i","shape":[1],"datatype":"INT8","data":[127]}]}`,
	`{"id":"e8","inputs":[{"name":"i","shape":[1],"datatype":"INT8","data":[128]}]}`,
	`{"id":"e8","inputs":[{"name":"i","shape":[1],"datatype":"UINT8","data":[256]}]}`,
	`{"id":"e8","inputs":[{"name":"i","shape":[1],"datatype":"UINT8","data":[-1]}]}`,
	`{"id":"e8","inputs":[{"name":"i","shape":[1],"datatype":"UINT64","data":[-1]}]}`,
	`{"id":"e8","inputs":[{"name":"i","shape":[1],"datatype":"INT64","data":[9223372036854775807]}]}`,
	`{"id":"e8","inputs":[{"name":"i","shape":[1],"datatype":"INT64","data":[9223372036854775808]}]}`,
	`{"id":"e9","inputs":[{"name":"i","shape":[2],"datatype":"BOOL","data":[true,0]}]}`,
	`{"id":"e9","inputs":[{"name":"i","shape":[1],"datatype":"BOOL","data":[2]}]}`,
	`{"id":"e9","inputs":[{"name":"i","shape":[1],"datatype":"BOOL","data":["true"]}]}`,
	`{"id":"e9","inputs":[{"name":"i","shape":[1],"datatype":"BYTES","data":[1]}]}`,
	`{"id":"e10","parameters":{"a":"b"},"inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1]}]}`,
	`{"id":"e10","parameters":{"a":true},"inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1]}]}`,
	`{"id":"e10","inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1],"parameters":{"binary_data_size":8}}]}`,
	`{"id":"e11","more":1,"inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1],"more":1}]}`,
	`{"id":"e12","inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1]}],"outputs":[{"name":"o"}]}`,
	`{"id":"e12","inputs":[{"name":"i","shape":[1],"datatype":"INT64","data":[1e400]}]}`,
	`{"id":"e12","inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1]}],"outputs":null}`,
	`{"specversion":"1.0","id":"e12","type":"t","source":"s","data":{"inputs":[{"name":"i","shape":[1],"datatype":"FP64","data":[1]}]}}`,
}

// pairedEvents are a request and its response, in either order, and those that do not belong together.
func pairedEvents() []exchange {
	var out []exchange
	post := func(id, body string) {
		out = append(out, exchange{Port: "4443", Method: http.MethodPost, Path: "/", Body: body, Headers: agentHeaders(id)})
	}
	const one = `{"inputs":[{"name":"i","shape":[2,1],"datatype":"FP64","data":[[1],[2]]}]}`
	answer := func(model, rows string) string {
		return `{` + model + `"outputs":[{"name":"o","shape":` + rows + `,"datatype":"FP64","data":` + map[string]string{"[2]": "[1,2]", "[3]": "[1,2,3]"}[rows] + `}]}`
	}
	const named = `"model_name":"paired",`
	post("forth", one)
	post("forth", answer(named, "[2]"))
	post("back", answer(named, "[2]"))
	post("back", one)
	post("rows", one)
	post("rows", answer(named, "[3]"))
	post("nameless", one)
	post("nameless", answer("", "[2]"))
	post("path", one)
	post("path", answer(`"model_name":"a/b",`, "[2]"))
	post("shapes", `{"inputs":[{"name":"a","shape":[2],"datatype":"FP64","data":[1,2]},{"name":"b","shape":[1],"datatype":"FP64","data":[1]}]}`)
	post("shapes", answer(named, "[2]"))
	post("columns", `{"inputs":[{"name":"a","shape":[2],"datatype":"FP64","data":[1,2]},{"name":"b","shape":[2],"datatype":"FP64","data":[1,2]}]}`)
	post("columns", answer(`"model_name":"columns",`, "[2]"))
	post("others", `{"inputs":[{"name":"c","shape":[2,2],"datatype":"FP64","data":[[1,2],[3,4]]}]}`)
	post("others", answer(`"model_name":"columns",`, "[2]"))
	compressed := agentHeaders("compressed")
	out = append(out,
		exchange{Port: "4443", Method: http.MethodPost, Path: "/", Body: one, Gzip: true, Headers: compressed},
		exchange{Port: "4443", Method: http.MethodPost, Path: "/", Body: one, Gzip: true, Headers: withHeader(compressed, "Content-Encoding", "gzip")},
		exchange{Port: "4443", Method: http.MethodPost, Path: "/", Body: one, Headers: withHeader(compressed, "Content-Encoding", "gzip")},
		exchange{Port: "4443", Method: http.MethodPost, Path: "/", Body: one, Headers: withHeader(compressed, "Content-Type", "text/plain")},
		exchange{Port: "4443", Method: http.MethodPost, Path: "/", Values: 20000, Headers: agentHeaders("long")},
	)
	return out
}

func withHeader(headers map[string]string, name, value string) map[string]string {
	out := map[string]string{name: value}
	for other, text := range headers {
		if other != name {
			out[other] = text
		}
	}
	return out
}

// partials are what ModelMesh sends.
func partials() []string {
	part := func(id, kind, model string, message []byte) string {
		out, err := json.Marshal(map[string]any{"id": id, "kind": kind, "modelid": model, "data": base64.StdEncoding.EncodeToString(message), "metadata": map[string]string{}})
		if err != nil {
			panic(err) // Texts encode.
		}
		return string(out)
	}
	return []string{
		partialPayload,
		`{"id":"p1","kind":"response","modelid":"m","data":"KgMKAWk="}`,
		``, `{`, `[]`, `{"id":"p2"}`, `{"Id":"p2","kind":"request","modelid":"m","data":"CgFt"}`,
		`{"id":"","kind":"request","modelid":"m","data":"CgFt"}`, `{"id":"p2","modelid":"m","data":"CgFt"}`,
		`{"id":"p2","kind":"request","modelid":"","data":"CgFt"}`, `{"id":"p2","kind":"request","modelid":"m","data":""}`,
		`{"id":"p2","kind":"request","modelid":"m","data":"CgFt","metadata":null}`, `{"id":"p2","kind":"request","modelid":"m","data":"CgFt","metadata":{"a":1}}`,
		`{"id":"p2","kind":"other","modelid":"m","data":"CgFt"}`, `{"id":1,"kind":"request","modelid":"m","data":"CgFt"}`,
		`{"id":"p2","kind":"request","modelid":"m","data":"AA=="}`, `{"id":"p2","kind":"request","modelid":"m","data":"?"}`,
		`{"id":"p2","kind":"request","modelid":"m","data":"CgF"}`, `{"id":"p2","kind":"request","modelid":"m","data":"CgFt\n"}`,
		`{"id":"p2","kind":"request","modelid":"m","data":"CgH/"}`, `{"id":"p2","kind":"request","modelid":"m","data":"KgMKCWk="}`,
		part("both", "request", "mesh__isvc-1", inference(5, "i", 2, 2)), part("both", "response", "mesh__isvc-1", inference(5, "o", 2)),
		part("turned", "response", "mesh", inference(5, "o", 2)), part("turned", "request", "mesh", inference(5, "i", 2, 2)),
		part("fewer", "request", "fewer", inference(5, "i", 2)), part("fewer", "response", "fewer", inference(5, "o", 1)),
		part("raw", "request", "raw", []byte("\n\x01m*\x0b\n\x01i\x12\x04FP64\x18\x01:\x08\x00\x00\x00\x00\x00\x00\xf0?")),
		part("raw", "response", "raw", inference(5, "o", 1)),
		part("hollow", "request", "hollow", []byte("\n\x01m")), part("hollow", "response", "hollow", inference(5, "o", 2)),
	}
}

// inference is a ModelInferRequest or a ModelInferResponse, whose field is that of the tensors, with one tensor of 64-bit floats.
func inference(field protowire.Number, name string, shape ...int) []byte {
	const tensorName, datatype, dimensions, contents, doubles = 1, 2, 3, 5, 7
	var tensor, list, values []byte
	tensor = protowire.AppendString(protowire.AppendTag(tensor, tensorName, protowire.BytesType), name)
	tensor = protowire.AppendString(protowire.AppendTag(tensor, datatype, protowire.BytesType), "FP64")
	count := 1
	for _, n := range shape {
		tensor = protowire.AppendVarint(protowire.AppendTag(tensor, dimensions, protowire.VarintType), uint64(n))
		count *= n
	}
	for range count {
		list = protowire.AppendFixed64(list, 0x3ff0000000000000)
	}
	values = protowire.AppendBytes(protowire.AppendTag(values, doubles, protowire.BytesType), list)
	tensor = protowire.AppendBytes(protowire.AppendTag(tensor, contents, protowire.BytesType), values)
	model := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "mesh")
	return protowire.AppendBytes(protowire.AppendTag(model, field, protowire.BytesType), tensor)
}

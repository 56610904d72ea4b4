package tfserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var (
	restPath    = regexp.MustCompile(`^(?i)/v1/.*$`)
	predictPath = regexp.MustCompile(`^(?i)/v1/models/([^/:]+)(?:(?:/versions/(\d+))|(?:/labels/([^/:]+)))?:(classify|regress|predict)$`)
	statusPath  = regexp.MustCompile(`^(?i)/v1/models(?:/([^/:]+))?(?:(?:/versions/(\d+))|(?:/labels/([^/:]+)))?(?:/(metadata))?$`)
)

// maxBody bounds a request.
const maxBody = 1 << 20

// REST serves the REST API of a server, and its metrics where a path is given.
func (c *Core) REST(metricsPath string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		if metricsPath != "" && path == metricsPath {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, c.counts.page())
			return
		}
		if !restPath.MatchString(path) {
			http.Error(w, "Not Found", http.StatusNotFound)
			return
		}
		began := time.Now()
		var body []byte
		if r.Body != nil {
			body, _ = io.ReadAll(io.LimitReader(r.Body, maxBody))
		}
		q := question{path: path}
		answer, err := q.process(c, r.Method, body)
		if err == nil {
			c.counts.took(q.model, q.method, time.Since(began))
		} else {
			answer = errorJSON(err)
		}
		c.counts.request(q.model, codeName(status.Code(err)))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(httpCode(err))
		_, _ = w.Write(answer)
	})
}

func errorJSON(err error) []byte {
	text, _ := json.Marshal(status.Convert(err).Message())
	return fmt.Appendf(nil, "{\n    \"error\": %s\n}", text)
}

// question is one request.
type question struct {
	path, model, method, label, part string
	version                          *int64
}

func (q *question) process(c *Core, method string, body []byte) ([]byte, error) {
	malformed := invalid("Malformed request: %s %s", method, q.path)
	matched, err := q.parse(method)
	if err != nil {
		return nil, err
	}
	switch {
	case !matched:
		return nil, malformed
	case method == http.MethodPost && q.method != "predict":
		return nil, invalid("Expected %s signature method_name to be tensorflow/serving/%s. Was: tensorflow/serving/predict", q.method, q.method)
	case method == http.MethodPost:
		return q.predict(c, body)
	case q.model == "":
		return nil, invalid("Missing model name in request.")
	case q.part == "metadata":
		return q.metadata(c)
	}
	m, err := c.ModelStatus(q.model, q.version)
	if err != nil {
		return nil, err
	}
	return statusJSON(m)
}

// parse reads the path, of which the name of the model and the label may have escapes.
func (q *question) parse(method string) (matched bool, err error) {
	var found []string
	switch method {
	case http.MethodPost:
		if found = predictPath.FindStringSubmatch(q.path); found != nil {
			q.method = found[4]
		}
	case http.MethodGet:
		if found = statusPath.FindStringSubmatch(q.path); found != nil {
			q.part = found[4]
		}
	}
	if found == nil {
		return false, nil
	}
	if q.model, err = url.PathUnescape(found[1]); err != nil {
		return false, invalid("Failed to decode model name:%s", found[1])
	}
	if found[2] != "" {
		n, err := strconv.ParseInt(found[2], 10, 64)
		if err != nil {
			return false, invalid("Failed to convert version: %s to numeric.", found[2])
		}
		q.version = &n
	}
	if q.label, err = url.PathUnescape(found[3]); err != nil {
		return false, invalid("Failed to decode model version label:%s", found[3])
	}
	return true, nil
}

func (q *question) spec() Spec { return Spec{Model: q.model, Version: q.version, Label: q.label} }

// ModelStatus is GetModelStatus: all versions, or one that is named by its number. A label is not looked at.
func (c *Core) ModelStatus(model string, version *int64) (protoreflect.Message, error) {
	all := slices.DeleteFunc(c.Versions(model), func(v Version) bool { return version != nil && *version != v.Number })
	switch {
	case len(all) > 0:
		return statusOf(all...), nil
	case version != nil:
		return nil, notFound("Could not find version %d of model %s", *version, model)
	}
	return nil, notFound("Could not find any versions of model %s", model)
}

// statusOf is the GetModelStatusResponse of versions.
func statusOf(versions ...Version) protoreflect.Message {
	out := message("GetModelStatusResponse")
	list := out.Mutable(out.Descriptor().Fields().ByName("model_version_status")).List()
	for _, v := range versions {
		one := list.NewElement().Message()
		put(one, "version", v.Number)
		put(one, "state", one.Descriptor().Fields().ByName("state").Enum().Values().ByName(protoreflect.Name(v.State)).Number())
		setStatus(inside(one, "status"), v.Err)
		list.Append(protoreflect.ValueOfMessage(one))
	}
	return out
}

// StatusJSON is the answer by REST for a model that has one version available.
func StatusJSON(version int64) []byte {
	out, err := statusJSON(statusOf(Version{Number: version, State: Available}))
	if err != nil {
		panic("bug: " + err.Error())
	}
	return out
}

// setStatus fills in a StatusProto.
func setStatus(m protoreflect.Message, err error) {
	s := status.Convert(err)
	put(m, "error_code", enumNumber(s.Code()))
	put(m, "error_message", s.Message())
}

// statusJSON prints a GetModelStatusResponse: every field, those of messages under the names that the file gives them.
func statusJSON(m protoreflect.Message) ([]byte, error) {
	raw, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m.Interface())
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, raw, "", " ")
	return append(out.Bytes(), '\n'), err
}

func (q *question) metadata(c *Core) ([]byte, error) {
	_, version, err := c.Handle(q.spec())
	if err != nil {
		return nil, err
	}
	tensor := func(name string) map[string]any {
		return map[string]any{"dtype": "DT_FLOAT", "name": name + ":0", "tensor_shape": map[string]any{
			"dim": []any{map[string]any{"size": "-1", "name": ""}}, "unknown_rank": false,
		}}
	}
	return json.MarshalIndent(map[string]any{
		"model_spec": map[string]any{"name": q.model, "signature_name": "", "version": strconv.FormatInt(version, 10)},
		"metadata": map[string]any{"signature_def": map[string]any{"signature_def": map[string]any{"serving_default": map[string]any{
			"inputs":      map[string]any{"x": tensor("x")},
			"outputs":     map[string]any{"y": tensor("y")},
			"method_name": "tensorflow/serving/predict", "defaults": map[string]any{},
		}}}},
	}, "", " ")
}

func (q *question) predict(c *Core, body []byte) ([]byte, error) {
	// The server reads the signature of the model before the body, and needs the model for it.
	model, _, err := c.Handle(q.spec())
	if err != nil {
		return nil, err
	}
	var request struct {
		Signature string    `json:"signature_name"`
		Instances []float32 `json:"instances"`
		Inputs    []float32 `json:"inputs"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, invalid("JSON Parse error: %v", err)
	}
	if s := request.Signature; s != "" && s != "serving_default" {
		return nil, invalid("Serving signature name: %q not found in signature def", s)
	}
	key, in := "predictions", request.Instances
	switch {
	case request.Instances != nil && request.Inputs != nil:
		return nil, invalid("Request JSON object cannot have both 'inputs' and 'instances' keys")
	case request.Inputs != nil:
		key, in = "outputs", request.Inputs
	case request.Instances == nil:
		return nil, invalid("Missing 'inputs' or 'instances' key")
	}
	out := make([]float32, len(in))
	for i, x := range in {
		out[i] = 2*x + model.Bias
	}
	return json.Marshal(map[string]any{key: out})
}

package tfserving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mlkeeper.dev/internal/engine/controller"
)

// The states of a version (tensorflow_serving/apis/get_model_status.proto). stateUnknown is also ours for a model that a
// server does not know.
const (
	stateUnknown   = "UNKNOWN"
	stateStart     = "START"
	stateLoading   = "LOADING"
	stateAvailable = "AVAILABLE"
	stateUnloading = "UNLOADING"
	stateEnd       = "END"
)

// rank orders the states by how far they are from serving.
func rank(state string) int {
	switch state {
	case stateAvailable:
		return 5
	case stateUnloading:
		return 4
	case stateLoading:
		return 3
	case stateStart:
		return 2
	case stateEnd:
		return 1
	}
	return 0
}

// serverAnswer is what one server says of one model.
type serverAnswer struct {
	// answered says that it answered at all, be it that it does not know the model.
	answered bool
	versions []version
	// failure says why there are no versions.
	failure string
}

// noAnswer is said of a server that does not answer.
const noAnswer = "the server does not answer"

// version is one version of a model.
type version struct{ number, state, message string }

const (
	// maxAnswer bounds what is read of the answer of a server, maxModelVersions the versions that are taken from it beside those that are
	// asked for by their number, maxError a text of it.
	maxAnswer, maxModelVersions, maxError = 256 << 10, 50, 1024
)

// queryModel asks a server for a model: GET /v1/models/<name> (TensorFlow Serving's RESTful API). It follows no redirect.
func queryModel(ctx context.Context, client *http.Client, host string, port int32, model wanted) serverAnswer {
	at := url.URL{
		Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(int(port))), Path: "/v1/models/" + model.name,
		RawPath: "/v1/models/" + inPath(model.name),
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return serverAnswer{failure: "its name cannot be asked for"}
	}
	resp, err := client.Do(req)
	if err != nil {
		return serverAnswer{failure: noAnswer}
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return serverAnswer{answered: true, failure: "the answer of the server is cut"}
		}
		versions, err := decodeStatus(body)
		if err != nil {
			return serverAnswer{answered: true, failure: err.Error()}
		}
		return serverAnswer{answered: true, versions: model.kept(versions), failure: noVersion}
	case http.StatusNotFound:
		return serverAnswer{answered: true, failure: unknownModel}
	}
	return serverAnswer{answered: true, failure: fmt.Sprintf("the server answered %d", resp.StatusCode)}
}

var errNoStatus = errors.New("the answer of the server is no model status")

// versionStatus is what a server says of a version.
type versionStatus struct {
	Version string `json:"version"`
	State   string `json:"state"`
	Status  struct {
		Code    string `json:"error_code"`
		Message string `json:"error_message"`
	} `json:"status"`
}

// decodeStatus reads the answer of a server. It trusts nothing in it. A server goes on telling of every version that has ended, the highest
// version first, so that its answer grows as long as it runs: of one that is too long, what was read counts.
func decodeStatus(body []byte) ([]version, error) {
	list := json.NewDecoder(bytes.NewReader(body))
	for _, want := range []json.Token{json.Delim('{'), "model_version_status", json.Delim('[')} {
		got, err := list.Token()
		if got == json.Delim('}') && want == "model_version_status" {
			return nil, nil
		}
		if err != nil || got != want {
			return nil, errNoStatus
		}
	}
	var out []version
	for list.More() {
		var v versionStatus
		if err := list.Decode(&v); err != nil {
			if len(body) == maxAnswer && len(out) > 0 {
				return out, nil
			}
			return nil, errNoStatus
		}
		if _, err := strconv.ParseInt(v.Version, 10, 64); err != nil || len(v.Version) > 20 {
			return nil, errors.New("the answer of the server has a version that is no number")
		}
		one := version{number: v.Version, state: v.State}
		if rank(v.State) == 0 {
			one.state = stateUnknown
		}
		if v.Status.Code != "" && v.Status.Code != "OK" || v.Status.Message != "" {
			one.message = controller.Cut(clean(v.Status.Code+": "+v.Status.Message), maxError)
		}
		out = append(out, one)
	}
	return out, nil
}

// kept are the versions of a model that count: those that its policy lists or that have a label, and some of the others, of which those
// that have ended come last.
func (w wanted) kept(all []version) []version {
	numbers := map[string]bool{}
	for _, v := range slices.Concat(w.listed, w.labelled) {
		numbers[strconv.FormatInt(v, 10)] = true
	}
	var out, ended []version
	others := 0
	for _, v := range all {
		switch {
		case numbers[v.number]:
			delete(numbers, v.number)
			out = append(out, v)
		case v.state == stateEnd:
			ended = append(ended, v)
		case others < maxModelVersions:
			out = append(out, v)
			others++
		}
	}
	return append(out, ended[:min(len(ended), maxModelVersions-others)]...)
}

// inPath is the name of a model in a path of the REST API, where a colon begins what is asked of it.
func inPath(model string) string { return strings.ReplaceAll(url.PathEscape(model), ":", "%3A") }

// clean keeps control characters of somebody else's text out of the status.
func clean(s string) string {
	out := []rune(s)
	for i, r := range out {
		if r < ' ' || r == 0x7f {
			out[i] = ' '
		}
	}
	return string(out)
}

package tfserving

import (
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

// has says that the server knows a version.
func (a serverAnswer) has(number string) bool {
	return slices.ContainsFunc(a.versions, func(v version) bool { return v.number == number })
}

// version is one version of a model.
type version struct{ number, state, message string }

const (
	// maxAnswer bounds the answer of a server, maxModelVersions the versions that are taken from it, maxError a text of it.
	maxAnswer, maxModelVersions, maxError = 256 << 10, 50, 1024
)

// queryModel asks a server for a model: GET /v1/models/<name> (TensorFlow Serving's RESTful API). It follows no redirect.
func queryModel(ctx context.Context, client *http.Client, host string, port int32, model string) serverAnswer {
	at := url.URL{
		Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(int(port))), Path: "/v1/models/" + model,
		RawPath: "/v1/models/" + url.PathEscape(model),
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return serverAnswer{failure: "its name cannot be asked for"}
	}
	resp, err := client.Do(req)
	if err != nil {
		return serverAnswer{failure: "the server does not answer"}
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		if err != nil || len(body) > maxAnswer {
			return serverAnswer{answered: true, failure: "the answer of the server is cut or too long"}
		}
		versions, err := decodeStatus(body)
		if err != nil {
			return serverAnswer{answered: true, failure: err.Error()}
		}
		return serverAnswer{answered: true, versions: versions, failure: "the server knows of no version yet"}
	case http.StatusNotFound:
		return serverAnswer{answered: true, failure: "the server does not know the model"}
	}
	return serverAnswer{answered: true, failure: fmt.Sprintf("the server answered %d", resp.StatusCode)}
}

// decodeStatus reads the answer of a server. It trusts nothing in it.
func decodeStatus(body []byte) ([]version, error) {
	var answer struct {
		Versions []struct {
			Version string `json:"version"`
			State   string `json:"state"`
			Status  struct {
				Code    string `json:"error_code"`
				Message string `json:"error_message"`
			} `json:"status"`
		} `json:"model_version_status"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, errors.New("the answer of the server is no model status")
	}
	var out []version
	for _, v := range answer.Versions[:min(len(answer.Versions), maxModelVersions)] {
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

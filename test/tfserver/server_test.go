package tfserver

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func TestServerOpensItsPortsAfterTheInitialLoad(t *testing.T) {
	t.Parallel()
	late := filepath.Join(t.TempDir(), "late")
	p := run(t, "--model_name=m", "--model_base_path="+late)
	p.logs("Could not find base path " + late)
	p.closed("though the base path is missing")
	must(t, os.Mkdir(late, 0o755)) //nolint:gosec // Another user may serve it.
	p.logs("No versions of servable m found")
	p.closed("though there is no version")
	add(t, late, 1)
	p.becomes("m", "1 AVAILABLE OK")
}

func TestServerReplacesAVersionByTheNextOne(t *testing.T) {
	t.Parallel()
	folder := base(t, 1)
	p := run(t, "--model_name=m", "--model_base_path="+folder)
	p.becomes("m", "1 AVAILABLE OK")
	p.answers(http.MethodPost, "/v1/models/m:predict", `{"instances":[1,2.5]}`, http.StatusOK, "predictions")
	must(t, os.Mkdir(filepath.Join(folder, "no-number"), 0o700))
	add(t, folder, 2)
	p.becomes("m", "2 AVAILABLE OK, 1 END OK")
	p.answers(http.MethodPost, "/v1/models/m/versions/1:predict", `{"instances":[1]}`, http.StatusNotFound, "Servable not found for request: Specific(m, 1)")
	// One that has gone comes back.
	must(t, os.RemoveAll(filepath.Join(folder, "2")))
	p.becomes("m", "2 END OK, 1 AVAILABLE OK")
	// Without any version all are unloaded; a path that has vanished changes nothing.
	must(t, os.Rename(folder, folder+"-away"))
	p.logs("Could not find base path " + folder)
	p.becomes("m", "2 END OK, 1 AVAILABLE OK")
	must(t, os.Rename(folder+"-away", folder), os.RemoveAll(filepath.Join(folder, "1")))
	p.becomes("m", "2 END OK, 1 END OK")
	p.answers(http.MethodGet, "/v1/models/m/metadata", "", http.StatusNotFound, "Servable not found for request: Latest(m)")
}

// A version that cannot be loaded ends with the error while the one before serves, and is not tried again. That its folder goes and comes
// back changes nothing: the version before is wanted again only when it has gone, for which the new one would have to serve. The next
// version loads.
func TestServerKeepsTheOldVersionWhereTheNewOneFails(t *testing.T) {
	t.Parallel()
	folder := base(t, 1)
	p := run(t, "--model_name=m", "--model_base_path="+folder, "--max_num_load_retries=0")
	p.becomes("m", "1 AVAILABLE OK")
	broken := filepath.Join(folder, "2")
	must(t, os.Mkdir(broken, 0o755)) //nolint:gosec // Another user may serve it.
	p.becomes("m", "2 END NOT_FOUND, 1 AVAILABLE OK")
	must(t, os.RemoveAll(broken))
	time.Sleep(2500 * time.Millisecond) // Two polls.
	add(t, folder, 2)
	time.Sleep(2500 * time.Millisecond)
	p.becomes("m", "2 END NOT_FOUND, 1 AVAILABLE OK")
	add(t, folder, 3)
	p.becomes("m", "3 AVAILABLE OK, 2 END NOT_FOUND, 1 END OK")
}

// Where the version before stays wanted, one that failed is tried again when its folder has gone and come back.
func TestServerTriesAVersionAgainThatHadGone(t *testing.T) {
	t.Parallel()
	folder := base(t, 1)
	p := run(t, "--model_config_file="+configFile(t, config(folder, bothVersions)), "--max_num_load_retries=0")
	p.becomes("m", "1 AVAILABLE OK")
	broken := filepath.Join(folder, "2")
	must(t, os.Mkdir(broken, 0o755)) //nolint:gosec // Another user may serve it.
	p.becomes("m", "2 END NOT_FOUND, 1 AVAILABLE OK")
	p.answers(http.MethodGet, "/v1/models/m/versions/2", "", http.StatusOK, "Could not find SavedModel")
	must(t, os.WriteFile(filepath.Join(broken, savedModelFile), SavedModel(2), 0o600))
	time.Sleep(2500 * time.Millisecond) // Two polls.
	p.becomes("m", "2 END NOT_FOUND, 1 AVAILABLE OK")
	must(t, os.RemoveAll(broken))
	time.Sleep(2500 * time.Millisecond)
	add(t, folder, 2)
	p.becomes("m", "2 AVAILABLE OK, 1 AVAILABLE OK")
}

func TestServerEndsWhereTheInitialLoadFails(t *testing.T) {
	t.Parallel()
	folder := base(t)
	must(t, os.Mkdir(filepath.Join(folder, "7"), 0o755)) //nolint:gosec // Another user may serve it.
	p := run(t, "--model_name=m", "--model_base_path="+folder, "--max_num_load_retries=1", "--load_retry_interval_micros=1000")
	p.ends(exitFailure, "Failed to start server. Error: ", "did not become available", "{name: m version: 7} due to error: NOT_FOUND: ")
}

func TestServerServesTheVersionsOfThePolicy(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{
		"":                           "3 AVAILABLE OK",
		"latest { num_versions: 2 }": "3 AVAILABLE OK, 2 AVAILABLE OK",
		"latest {}":                  "3 AVAILABLE OK",
		"all {}":                     "3 AVAILABLE OK, 2 AVAILABLE OK, 1 AVAILABLE OK",
		"specific { versions: 1 versions: 3 versions: 9 }": "3 AVAILABLE OK, 1 AVAILABLE OK",
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			if policy != "" {
				policy = "model_version_policy { " + policy + " }"
			}
			run(t, "--model_config_file="+configFile(t, config(base(t, 1, 2, 3), policy))).becomes("m", want)
		})
	}
}

const (
	bothVersions = "model_version_policy { all {} }"
	allowLabels  = "--allow_version_labels_for_unavailable_models=true"
)

func label(name string, version int) string {
	return fmt.Sprintf(" version_labels { key: %q value: %d }", name, version)
}

func TestServerRefusesALabelOnWhatIsNotAvailable(t *testing.T) {
	t.Parallel()
	text := config(base(t, 1, 2), bothVersions+label("stable", 1))
	run(t, "--model_config_file="+configFile(t, text)).ends(exitFailure,
		"Failed to start server. Error: FAILED_PRECONDITION: ", "which is not currently available for inference")
	p := run(t, "--model_config_file="+configFile(t, text), allowLabels)
	p.becomes("m", "2 AVAILABLE OK, 1 AVAILABLE OK")
	p.answers(http.MethodPost, "/v1/models/m/labels/stable:predict", `{"instances":[1]}`, http.StatusOK, "3")
	p.answers(http.MethodPost, "/v1/models/m/labels/other:predict", `{"instances":[1]}`, http.StatusBadRequest, "Unrecognized servable version label: other")
	p.answers(http.MethodGet, "/v1/models/m/labels/stable/metadata", "", http.StatusOK, `"version"`)
	// The status knows no labels.
	p.answers(http.MethodGet, "/v1/models/m/labels/other", "", http.StatusOK, `"model_version_status"`)
}

// A label is moved in two steps. A config that moves it to a version which is not there yet is refused whole: that version is not loaded.
func TestServerMovesALabelInTwoSteps(t *testing.T) {
	t.Parallel()
	folder := base(t, 1, 2)
	one, both := "model_version_policy { specific { versions: 1 } }", "model_version_policy { specific { versions: [1, 2] } }"
	p := run(t, "--model_config_file="+configFile(t, config(folder, one+label("stable", 1))), allowLabels)
	p.becomes("m", "1 AVAILABLE OK")
	if err := p.reload(config(folder, both+label("stable", 2))); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("moved at once: %v", err)
	}
	// So it is in another folder, since a label is known by the name of the model.
	if err := p.reload(config(base(t, 2), both+label("stable", 2))); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("moved at once with the folder: %v", err)
	}
	time.Sleep(1500 * time.Millisecond)
	p.becomes("m", "1 AVAILABLE OK")
	p.answers(http.MethodPost, "/v1/models/m/labels/stable:predict", `{"instances":[1]}`, http.StatusOK, "3")
	// A new label may be on a version that is not there; it serves when that is.
	must(t, p.reload(config(folder, both+label("stable", 1)+label("canary", 2))))
	p.becomes("m", "2 AVAILABLE OK, 1 AVAILABLE OK")
	p.answers(http.MethodPost, "/v1/models/m/labels/canary:predict", `{"instances":[1]}`, http.StatusOK, "4")
	must(t, p.reload(config(folder, both+label("stable", 2))))
	p.answers(http.MethodPost, "/v1/models/m/labels/stable:predict", `{"instances":[1]}`, http.StatusOK, "4")
	p.answers(http.MethodPost, "/v1/models/m/labels/canary:predict", `{"instances":[1]}`, http.StatusBadRequest, "Unrecognized")
	must(t, p.reload(config(folder, "model_version_policy { specific { versions: 2 } }"+label("stable", 2))))
	p.becomes("m", "2 AVAILABLE OK, 1 END OK")
}

func TestServerReadsItsConfigAgain(t *testing.T) {
	t.Parallel()
	m, n := base(t, 1), base(t, 5)
	file := configFile(t, config(m, ""))
	p := run(t, "--model_config_file="+file, "--model_config_file_poll_wait_seconds=1")
	p.becomes("m", "1 AVAILABLE OK")
	write(t, file, "model_config_list { "+model("m", m, "")+model("n", n, "")+" }")
	p.becomes("n", "5 AVAILABLE OK")
	write(t, file, "model_config_list { config { nonsense } }")
	p.logs("Failed to read ModelServerConfig file")
	p.becomes("n", "5 AVAILABLE OK")
	write(t, file, config("relative", ""))
	p.logs("failed to ReloadConfig")
	p.becomes("m", "1 AVAILABLE OK")
	write(t, file, "model_config_list { "+model("n", n, "")+" }")
	p.becomes("m", "1 END OK")
	p.becomes("n", "5 AVAILABLE OK")
}

func TestServerReadsItsConfigOnceUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	m := base(t, 1)
	file := configFile(t, config(m, ""))
	p := run(t, "--model_config_file="+file)
	p.becomes("m", "1 AVAILABLE OK")
	write(t, file, "model_config_list { "+model("n", m, "")+" }")
	time.Sleep(2500 * time.Millisecond)
	p.becomes("m", "1 AVAILABLE OK")
	p.answers(http.MethodGet, "/v1/models/n", "", http.StatusNotFound, "Could not find any versions of model n")
}

// One base path that cannot be read ends the look for versions of all models.
func TestServerPollsNothingWhileOnePathIsMissing(t *testing.T) {
	t.Parallel()
	m, n := base(t, 1), base(t, 1)
	p := run(t, "--model_config_file="+configFile(t, "model_config_list { "+model("m", m, "")+model("n", n, "")+" }"))
	p.becomes("m", "1 AVAILABLE OK")
	must(t, os.Rename(n, n+"-away"))
	p.logs("Could not find base path " + n)
	add(t, m, 2)
	time.Sleep(2500 * time.Millisecond)
	p.becomes("m", "1 AVAILABLE OK")
	must(t, os.Rename(n+"-away", n))
	p.becomes("m", "2 AVAILABLE OK, 1 END OK")
}

func TestServerAnswersByGRPC(t *testing.T) {
	t.Parallel()
	p := run(t, "--model_config_file="+configFile(t, config(base(t, 1, 2), bothVersions)), "--enable_grpc_healthcheck_service=true")
	p.becomes("m", "2 AVAILABLE OK, 1 AVAILABLE OK")
	for request, want := range map[string]string{
		`model_spec { name: "m" }`:                         "2 AVAILABLE OK, 1 AVAILABLE OK",
		`model_spec { name: "m" version { value: 1 } }`:    "1 AVAILABLE OK",
		`model_spec { name: "m" version_label: "no one" }`: "2 AVAILABLE OK, 1 AVAILABLE OK",
	} {
		if m, err := p.call("GetModelStatus", request); err != nil || list(m) != want {
			t.Errorf("%s: %q, %v", request, list(m), err)
		}
	}
	for request, want := range map[string]codes.Code{
		``:                         codes.InvalidArgument,
		`model_spec { name: "n" }`: codes.NotFound,
		`model_spec { name: "m" version { value: 3 } }`: codes.NotFound,
	} {
		if _, err := p.call("GetModelStatus", request); status.Code(err) != want {
			t.Errorf("%s: %v, not %v", request, err, want)
		}
	}
	if err := p.reload(""); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a reload without a list: %v", err)
	}
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", p.grpc), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer func() { _ = conn.Close() }()
	for _, service := range []string{"", "ModelService", "PredictionService"} {
		got, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("the health of %q is %v, %v", service, got, err)
		}
	}
}

func TestServerAnswersByREST(t *testing.T) {
	t.Parallel()
	p := run(t, "--model_name=a b", "--model_base_path="+base(t, 7))
	p.becomes("a%20b", "7 AVAILABLE OK")
	for _, c := range []struct {
		method, path, body string
		code               int
		word               string
	}{
		{"GET", "/V1/Models/a%20b", "", http.StatusOK, `"version": "7"`},
		{"GET", "/v1/models/a%20b/versions/7", "", http.StatusOK, `"error_code": "OK"`},
		{"GET", "/v1/models/a%20b/versions/8", "", http.StatusNotFound, "Could not find version 8 of model a b"},
		{"GET", "/v1/models/c", "", http.StatusNotFound, `"error": "Could not find any versions of model c"`},
		{"GET", "/v1/models", "", http.StatusBadRequest, "Missing model name in request."},
		{"GET", "/v1/models/a%20b/what", "", http.StatusBadRequest, "Malformed request: GET /v1/models/a%20b/what"},
		{"GET", "/v1/models/a%20b:predict", "", http.StatusBadRequest, "Malformed request"},
		{"PUT", "/v1/models/a%20b", "", http.StatusBadRequest, "Malformed request: PUT"},
		{"GET", "/v1/models/a%20b/metadata", "", http.StatusOK, `"signature_def"`},
		{"GET", "/", "", http.StatusNotFound, ""},
		{"GET", "/monitoring/prometheus/metrics", "", http.StatusNotFound, ""},
		{"POST", "/v1/models/a%20b:predict", `{"inputs":[1]}`, http.StatusOK, `"outputs"`},
		{"POST", "/v1/models/a%20b:predict", `{`, http.StatusBadRequest, `"error"`},
		{"POST", "/v1/models/a%20b:predict", `{}`, http.StatusBadRequest, `"error"`},
		{"POST", "/v1/models/a%20b:predict", `{"signature_name":"x","instances":[1]}`, http.StatusBadRequest, "not found in signature def"},
		{"POST", "/v1/models/c:predict", `{"instances":[1]}`, http.StatusNotFound, "Servable not found for request: Latest(c)"},
	} {
		p.answers(c.method, c.path, c.body, c.code, c.word)
	}
}

func TestServerCountsRequests(t *testing.T) {
	t.Parallel()
	monitoring := write(t, filepath.Join(t.TempDir(), "monitoring.conf"), `prometheus_config { enable: true path: "/numbers" }`)
	p := run(t, "--model_name=m", "--model_base_path="+base(t, 1), "--monitoring_config_file="+monitoring)
	p.becomes("m", "1 AVAILABLE OK")
	p.answers(http.MethodPost, "/v1/models/m:predict", `{"instances":[1]}`, http.StatusOK, "predictions")
	p.answers(http.MethodGet, "/v1/models/n", "", http.StatusNotFound, "")
	for _, line := range []string{
		`:tensorflow:serving:request_count{model_name="m",status="OK"} `,
		`:tensorflow:serving:request_count{model_name="n",status="NOT_FOUND"} 1`,
		`:tensorflow:serving:request_latency_count{model_name="m",API="predict",entrypoint="REST"} 1`,
	} {
		p.answers(http.MethodGet, "/numbers", "", http.StatusOK, line)
	}
	off := write(t, filepath.Join(t.TempDir(), "off.conf"), `prometheus_config { path: "/numbers" }`)
	p = run(t, "--model_name=m", "--model_base_path="+base(t, 1), "--monitoring_config_file="+off)
	p.becomes("m", "1 AVAILABLE OK")
	p.answers(http.MethodGet, "/numbers", "", http.StatusNotFound, "")
}

func TestServerReadsItsFlags(t *testing.T) {
	t.Parallel()
	m := "--model_base_path=" + base(t, 1)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no number":            {[]string{m, "--port=many"}, "for flag port"},
		"neither on nor off":   {[]string{m, "--enable_batching=yes"}, "for flag enable_batching"},
		"no models":            {nil, "model_base_path and server_options.model_config_file are empty"},
		"no gRPC":              {[]string{m, "--port=0"}, "At least one of server_options.grpc_port"},
		"a missing config":     {[]string{"--model_config_file=/does/not/exist"}, "NOT_FOUND"},
		"an empty file":        {[]string{"--model_config_file=" + configFile(t, "")}, "Failed to start server"},
		"batching without it":  {[]string{m, "--batching_parameters_file=" + configFile(t, "max_batch_size { value: 8 }")}, "without setting"},
		"bad batching":         {[]string{m, "--enable_batching", "--batching_parameters_file=" + configFile(t, "max_batch_size: 8")}, "Invalid protobuf file"},
		"all the parallelisms": {[]string{m, "--tensorflow_session_parallelism=1", "--tensorflow_intra_op_parallelism=1", "--tensorflow_inter_op_parallelism=1"}, "You cannot configure all"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, c.args...).ends(exitFailure, c.want)
		})
	}
	p := run(t, m, "--model_name=m", "--no_such_flag=1", "--model_name")
	p.becomes("m", "1 AVAILABLE OK")
	p.logs("unknown argument: --no_such_flag=1")
	// One port for both is that of gRPC.
	p = run(t, m, "--model_name=m")
	p.becomes("m", "1 AVAILABLE OK")
	q := run(t, m, "--model_name=m", fmt.Sprintf("--rest_api_port=%d", p.rest), "--version")
	q.ends(0, "TensorFlow ModelServer: ")
}

func TestServerHasNoRESTAtThePortOfGRPC(t *testing.T) {
	t.Parallel()
	_, port := ports(t)
	p := run(t, "--model_name=m", "--model_base_path="+base(t, 1), fmt.Sprintf("--port=%d", port), fmt.Sprintf("--rest_api_port=%d", port))
	p.logs("http_port cannot be same as grpc_port")
	p.grpc = port
	if m, err := p.call("GetModelStatus", `model_spec { name: "m" }`); err != nil || list(m) != "1 AVAILABLE OK" {
		t.Errorf("%q, %v", list(m), err)
	}
}

func TestServerRefusesAConfigAtItsStart(t *testing.T) {
	t.Parallel()
	m := base(t, 1)
	good := model("m", m, "")
	for text, want := range map[string]string{
		"{": "Invalid protobuf file",
		"model_config_list { " + good + good + " }":                           "multiple times in config list",
		config("relative", ""):                                                "to have an absolute path or URI",
		config("", ""):                                                        "to have an absolute path or URI",
		config("git+ssh://models/m", ""):                                      "to have an absolute path or URI; got base_path()=git+ssh",
		config(m, "model_type: TENSORFLOW"):                                   "Illegal setting both",
		config(m, "colour: 'red'"):                                            "Invalid protobuf file",
		config(m, "logging_config {}"):                                        "No request-logger-creator provided.",
		strings.Replace(config(m, ""), `"tensorflow"`, `"caffe"`, 1):          "requests unsupported platform caffe",
		strings.Replace(config(m, ""), `model_platform: "tensorflow"`, "", 1): "Illegal setting neither",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			run(t, "--model_config_file="+configFile(t, text)).ends(exitFailure, want)
		})
	}
	run(t, "--model_config_file="+configFile(t, `custom_model_config { type_url: "x" }`)).ends(exitAbort, "does not yet support custom model config")
}

func TestServerReadsTheWarmUpFile(t *testing.T) {
	t.Parallel()
	folder := base(t, 1)
	extra := filepath.Join(folder, "1", "assets.extra")
	must(t, os.Mkdir(extra, 0o755), os.WriteFile(filepath.Join(folder, "1", warmupFile), Record([]byte("\xff\xff")), 0o600)) //nolint:gosec // Another user may serve it.
	args := []string{"--model_name=m", "--model_base_path=" + folder, "--max_num_load_retries=0"}
	run(t, args...).ends(exitFailure, "did not become available", "warmup")
	run(t, append(args, "--enable_model_warmup=false")...).becomes("m", "1 AVAILABLE OK")
}

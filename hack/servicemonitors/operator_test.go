package servicemonitors

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/config"
)

// tokenFile is where the pods of Prometheus have their token, and certFolder where its operator puts what TLS needs
// (prometheus-operator v0.85.0 pkg/prometheus/common.go, tlsAssetsDir).
const (
	tokenFile  = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	certFolder = "/etc/prometheus/certs"
	// token is what is in tokenFile.
	token = "prometheus-own-token"
)

var quiet = slog.New(slog.DiscardHandler)

// generated is what the Prometheus operator makes of the ServiceMonitors of a namespace.
type generated struct {
	// config is what Prometheus has loaded, and jobs are those of it.
	config *config.Config
	jobs   map[string]*config.ScrapeConfig
	// dropped are the events about ServiceMonitors that the operator leaves out.
	dropped []string
}

// setting is how an administrator has set Prometheus up.
type setting struct {
	// deny is arbitraryFSAccessThroughSMs.deny, which is set for user workloads on OpenShift.
	deny bool
	role monitoringv1.ServiceDiscoveryRole
}

// generate lets the Prometheus operator select the ServiceMonitors and generate a configuration, and Prometheus load that.
func generate(t *testing.T, monitors []*monitoringv1.ServiceMonitor, s setting, apiServer string) generated {
	t.Helper()
	program := os.Getenv("PROMETHEUS_OPERATOR")
	if program == "" {
		t.Fatal("PROMETHEUS_OPERATOR is not set: run make test-servicemonitors")
	}
	input, err := json.Marshal(monitors)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-api-server", apiServer, "-role", string(s.role)}
	if s.deny {
		args = append(args, "-deny")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	var problem bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &problem
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, problem.String())
	}
	var result struct {
		Config  string
		Files   map[string][]byte
		Dropped []string
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		t.Fatal(err)
	}
	out := generated{jobs: map[string]*config.ScrapeConfig{}, dropped: result.Dropped}
	out.config, err = config.Load(onThisMachine(t, result.Config, result.Files), quiet)
	if err != nil {
		t.Fatalf("Prometheus refuses the configuration: %v\n%s", err, result.Config)
	}
	jobs, err := out.config.GetScrapeConfigs()
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs {
		out.jobs[job.JobName] = job
	}
	return out
}

// onThisMachine moves the files that a pod of Prometheus has to a folder of the test, and puts in what the operator's reloader
// reads from the environment of that pod (prometheus-operator v0.85.0 pkg/operator/config_reloader.go).
func onThisMachine(t *testing.T, text string, files map[string][]byte) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mine := filepath.Join(folder, "token")
	if err := os.WriteFile(mine, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(certFolder, folder, tokenFile, mine, "$(SHARD)", "0", "$(POD_NAME)", "prometheus-p-0").Replace(text)
}

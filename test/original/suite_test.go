//go:build realoriginal

// Package original tests, on the upstream operator of TrustyAIServices itself, that MLKeeper takes its running services over, and that it gets
// them back, with no pod restarted (make test-original). The control plane is real, the kubelets are simulated, and both operators are processes
// with the rights of their ServiceAccounts.
package original

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mlkeeper.dev/test/cluster"
)

// patience is how long a test waits for what takes seconds on an idle machine. Upstream looks at a service every 30 seconds.
const patience = 4 * time.Minute

var (
	definitions = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	deployments = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	bindings    = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}
)

// site is a cluster with ten services, and the two operators beside it, of which one runs at a time.
type site struct {
	t *testing.T
	c *cluster.Cluster
	// checkout is the folder of upstream's repository, and logs the one for what the operators print.
	checkout, logs string
	running        *cluster.Program
	// starts counts the starts of both operators, each of which has a log of its own.
	starts int
}

// newSite boots a cluster like OpenShift, whose service-ca, router and KServe are played by the stand-ins.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, checkout: os.Getenv("ORIGINAL_CHECKOUT"), logs: os.Getenv("ORIGINAL_LOGS")}
	if s.checkout == "" || s.logs == "" || os.Getenv("ORIGINAL_MANAGER") == "" || os.Getenv("ORIGINAL_MLKEEPER") == "" {
		t.Fatal("ORIGINAL_CHECKOUT, ORIGINAL_LOGS, ORIGINAL_MANAGER or ORIGINAL_MLKEEPER is not set: run make test-original")
	}
	s.c = cluster.Start(t, cluster.WithCRDs("openshift", "servicemonitor", "inferenceservice", "knative", "istio"))
	return s
}

// mlkeeper runs a command of MLKeeper's command line, which is to end with this status, and returns what it printed.
func (s *site) mlkeeper(status int, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), os.Getenv("ORIGINAL_MLKEEPER"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.c.Kubeconfig)
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		s.t.Fatal(err)
	}
	s.t.Logf("mlkeeper %s:\n%s", strings.Join(args, " "), out)
	if got := cmd.ProcessState.ExitCode(); got != status {
		s.t.Errorf("mlkeeper %s: exit status %d, want %d", strings.Join(args, " "), got, status)
	}
	return string(out)
}

// start runs an operator as a ServiceAccount that is there, once no other one runs.
func (s *site) start(cmd *exec.Cmd, namespace, account, name, health string) {
	s.t.Helper()
	config, err := s.c.ServiceAccount(s.t.Context(), namespace, account)
	if err != nil {
		s.t.Fatal(err)
	}
	kubeconfig := filepath.Join(s.c.Dir, name+".kubeconfig")
	if err := cluster.WriteKubeconfig(config, kubeconfig); err != nil {
		s.t.Fatal(err)
	}
	s.starts++
	log := filepath.Join(s.logs, fmt.Sprintf("%d-%s.log", s.starts, name))
	cmd.Env = append(cmd.Environ(), "KUBECONFIG="+kubeconfig, "TMPDIR="+s.c.Dir)
	if s.running, err = cluster.StartProgram(cmd, log, health); err != nil {
		s.t.Fatal(err)
	}
}

// stop ends the operator that runs.
func (s *site) stop() {
	s.t.Helper()
	if err := s.running.Stop(); err != nil {
		s.t.Fatal(err)
	}
}

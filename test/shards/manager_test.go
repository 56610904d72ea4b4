package shards

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/ports"
)

// The durations of the leases: a busy machine must not lose one.
const (
	leaseDuration = 20 * time.Second
	renewDeadline = 15 * time.Second
	retryPeriod   = time.Second
)

// build compiles the operator.
func build(t *testing.T) string {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "mlkeeper")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, "./cmd/mlkeeper")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the operator: %v\n%s", err, out)
	}
	return binary
}

// manager is a process of the operator with a ServiceAccount of its own, by which the audit log tells what it did.
type manager struct {
	account string
	cmd     *exec.Cmd
}

// start runs a manager and waits until its caches are filled.
func start(t *testing.T, c *cluster.Cluster, binary string, rights cluster.Rights) *manager {
	t.Helper()
	probes := freeAddress(t)
	folder := t.TempDir()
	m := &manager{account: rights.Account(), cmd: exec.Command(binary, "manager", "--kubeconfig", kubeconfig(t, c, rights, folder),
		"--controllers=trustyai", "--shards=4", "--leader-elect", "--leader-election-namespace", cluster.OperatorNamespace,
		"--leader-elect-lease-duration", leaseDuration.String(), "--leader-elect-renew-deadline", renewDeadline.String(),
		"--leader-elect-retry-period", retryPeriod.String(), "--metrics-bind-address=0", "--health-probe-bind-address", probes,
		"--source-dir", filepath.Join(folder, "sources"), "--log-format=text")}
	log := filepath.Join(folder, "log")
	t.Cleanup(func() {
		_ = m.cmd.Process.Kill()
		if text, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("the log of %s:\n%s", m.account, text)
		}
	})
	if _, err := cluster.StartProgram(m.cmd, log, "http://"+probes+"/readyz"); err != nil {
		t.Fatal(err)
	}
	return m
}

// signal sends the process a signal.
func (m *manager) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := m.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// kubeconfig writes one for the ServiceAccount of an operator.
func kubeconfig(t *testing.T, c *cluster.Cluster, rights cluster.Rights, folder string) string {
	t.Helper()
	config, err := c.Operator(rights)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "kubeconfig")
	if err := cluster.WriteKubeconfig(config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// writes are what a manager changed since a time, except leases and events.
func (m *manager) writes(t *testing.T, c *cluster.Cluster, since time.Time) []string {
	t.Helper()
	all, err := c.Requested(m.account, since)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, request := range all {
		verb, path, _ := strings.Cut(request, " ")
		switch verb {
		case "get", "list", "watch":
			continue
		}
		if !strings.Contains(path, "/leases") && !strings.HasSuffix(path, "/events") && !strings.Contains(path, "selfsubject") {
			out = append(out, request)
		}
	}
	return out
}

// holders are how many of the leases of shards each holder has.
func holders(t *testing.T, c *cluster.Cluster) map[string]int {
	t.Helper()
	out := map[string]int{}
	text := c.Kubectl(t, "get", "leases", "-n", cluster.OperatorNamespace, "-o",
		`jsonpath={range .items[*]}{.metadata.name}={.spec.holderIdentity}{"\n"}{end}`)
	for line := range strings.Lines(text) {
		name, holder, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name != "" && !strings.HasPrefix(name, "mlkeeper-manager-") {
			out[holder]++
		}
	}
	return out
}

// share waits until so many managers hold all shards, evenly.
func share(t *testing.T, c *cluster.Cluster, managers int) {
	t.Helper()
	cluster.Eventually(t, 2*time.Minute, func() error {
		held := holders(t, c)
		for _, n := range held {
			if n != 4/managers {
				return fmt.Errorf("the holders are %v", held)
			}
		}
		if len(held) != managers || held[""] > 0 {
			return fmt.Errorf("the holders are %v", held)
		}
		return nil
	})
}

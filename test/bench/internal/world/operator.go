package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/test/cluster"
)

// The operator's own namespace and service account, as its manifest has them.
const (
	OperatorNamespace = "mlkeeper-system"
	operatorAccount   = "mlkeeper-controller-manager"
	// LeaseName is the lease of the managers.
	LeaseName = "mlkeeper.keeper.mlkeeper.dev"
)

// Lease is how leader election is set.
type Lease struct{ Duration, Renew, Retry time.Duration }

// DefaultLease is what the manager has when it is told nothing.
var DefaultLease = Lease{15 * time.Second, 10 * time.Second, 2 * time.Second}

// LongLease outlives a restart of the API server.
var LongLease = Lease{2 * time.Minute, 90 * time.Second, 2 * time.Second}

// Operator is MLKeeper as a process of its own.
type Operator struct {
	*Process
	metrics, probes, pprof string
}

// Install applies the manifest of the operator but for its Deployment, so that the process has the roles of the
// product, and returns its identity.
func (c *Cluster) Install(ctx context.Context, manifest string) (*Identity, error) {
	data, err := os.ReadFile(manifest)
	if err != nil {
		return nil, err
	}
	objects, err := cluster.Parse(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifest, err)
	}
	var install []*unstructured.Unstructured
	for _, u := range objects {
		if u.GetKind() != "Deployment" {
			install = append(install, u)
		}
	}
	if err := c.Apply(ctx, install); err != nil {
		return nil, err
	}
	return c.Identity(ctx, OperatorNamespace, operatorAccount)
}

// Run starts a manager and waits until its watches are complete.
func (c *Cluster) Run(ctx context.Context, binary, name, kubeconfig string, lease Lease, flags ...string) (*Operator, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	o := &Operator{metrics: ports[0], probes: ports[1]}
	args := []string{
		binary, "manager", "--kubeconfig", kubeconfig, "--metrics-bind-address", o.metrics, "--health-probe-bind-address", o.probes,
		"--leader-elect", "--leader-election-namespace", OperatorNamespace, "--leader-elect-lease-duration", lease.Duration.String(),
		"--leader-elect-renew-deadline", lease.Renew.String(), "--leader-elect-retry-period", lease.Retry.String(),
	}
	if hasFlag(ctx, binary, "--metrics-secure") {
		// Their reader has no token.
		args = append(args, "--metrics-secure=false")
	}
	if hasFlag(ctx, binary, "--pprof-bind-address") {
		o.pprof = ports[2]
		args = append(args, "--pprof-bind-address", o.pprof)
	}
	if o.Process, err = Start(name, filepath.Join(c.Dir, name+".log"), nil, append(args, flags...)...); err != nil {
		return nil, err
	}
	return o, nil
}

// AwaitReady waits until the watches of the manager are complete.
func (o *Operator) AwaitReady(ctx context.Context, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		_, err := get(ctx, "http://"+o.probes+"/readyz")
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %s: %w\n%s", o.Name, timeout, err, o.Tail())
		}
		// The manager logs every probe that fails.
		if err := errors.Join(o.Running(), Pause(ctx, 200*time.Millisecond)); err != nil {
			return err
		}
	}
}

// AwaitLeading waits until the manager leads.
func (o *Operator) AwaitLeading(ctx context.Context, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		m, err := o.Metrics(ctx)
		if err == nil && m.Sum("leader_election_master_status") == 1 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not lead after %s", o.Name, timeout)
		}
		if err := errors.Join(o.Running(), Pause(ctx, 50*time.Millisecond)); err != nil {
			return err
		}
	}
}

// Metrics reads the metrics of the manager.
func (o *Operator) Metrics(ctx context.Context) (Metrics, error) {
	text, err := get(ctx, "http://"+o.metrics+"/metrics")
	if err != nil {
		return nil, err
	}
	return ParseMetrics(string(text)), nil
}

// Profile writes a profile, such as "heap" or "profile?seconds=10", to a file. It returns false where the manager has
// no endpoint for profiles.
func (o *Operator) Profile(ctx context.Context, what, file string) (bool, error) {
	if o.pprof == "" {
		return false, nil
	}
	data, err := get(ctx, "http://"+o.pprof+"/debug/pprof/"+what)
	if err != nil {
		return true, err
	}
	return true, os.WriteFile(file, data, 0o644)
}

// get reads a URL on this machine.
func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = &StatusError{Code: resp.StatusCode, What: "GET " + url + ": " + clip(data)}
	}
	return data, err
}

// hasFlag says whether the manager knows a flag, since the bench also measures older ones.
func hasFlag(ctx context.Context, binary, flag string) bool {
	out, err := exec.CommandContext(ctx, binary, "manager", "--help").CombinedOutput()
	return err == nil && strings.Contains(string(out), flag)
}

// freePorts returns addresses on which nobody listens.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		// All listeners stay open to the end, so that no port is returned twice.
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }()
		out = append(out, listener.Addr().String())
	}
	return out, nil
}

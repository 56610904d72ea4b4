//go:build realcertmanager

package certmanager

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/ports"
)

// started are cert-manager's controllers, which the tests share like their cluster.
var started struct {
	once sync.Once
	err  error
}

// controllers runs cert-manager's controllers.
func controllers(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	started.once.Do(func() { started.err = run(c) })
	if started.err != nil {
		t.Fatalf("no cert-manager: %v", started.err)
	}
}

// run starts the controllers, which end with the test.
func run(c *cluster.Cluster) error {
	program := os.Getenv("CERT_MANAGER")
	if program == "" {
		return errors.New("CERT_MANAGER is not set: run make test-cert-manager")
	}
	port, err := ports.Free()
	if err != nil {
		return err
	}
	health := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.Command(program, "--kubeconfig="+c.Kubeconfig, "--healthz-listen-address="+health)
	_, err = cluster.StartProgram(cmd, os.Getenv("CERT_MANAGER_LOG"), "http://"+health)
	return err
}

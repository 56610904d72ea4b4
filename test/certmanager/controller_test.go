//go:build realcertmanager

package certmanager

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"mlkeeper.dev/test/cluster"
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	health := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return err
	}
	log, err := os.Create(os.Getenv("CERT_MANAGER_LOG"))
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "--kubeconfig="+c.Kubeconfig, "--healthz-listen-address="+health)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended := make(chan error, 1)
	go func() {
		// Linux sends the death signal when the thread that forked ends, so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		ended <- cmd.Run()
	}()
	for deadline := time.After(2 * time.Minute); ; {
		if answer, err := http.Get("http://" + health); err == nil {
			return answer.Body.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the controllers ended: %w; %s says why", err, log.Name())
		case <-deadline:
			return fmt.Errorf("the controllers do not answer; %s says why", log.Name())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

package cluster

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// startTimeout bounds how long a program takes until it is healthy.
const startTimeout = 2 * time.Minute

// StartProgram starts a program that ends with this process, and returns once its health endpoint answers 200. Its output goes to
// the file log.
func StartProgram(cmd *exec.Cmd, log, health string) error {
	file, err := os.Create(log)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended := make(chan error, 1)
	go func() {
		// Linux sends the death signal when the thread that forked ends, so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		ended <- cmd.Run()
		_ = file.Close()
	}()
	probe := http.Client{Timeout: time.Second}
	for deadline := time.After(startTimeout); ; {
		if answer, err := probe.Get(health); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-ended:
			return fmt.Errorf("%s ended: %w; %s says why", cmd.Path, err, log)
		case <-deadline:
			return fmt.Errorf("%s is not healthy within %s; %s says why", cmd.Path, startTimeout, log)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

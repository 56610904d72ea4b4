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

const (
	// startTimeout bounds how long a program takes until it is healthy.
	startTimeout = 2 * time.Minute
	// stopTimeout bounds how long it takes until it has ended.
	stopTimeout = time.Minute
)

// Program is a program that runs beside the tests.
type Program struct {
	cmd *exec.Cmd
	// ended is closed when it has ended, with err.
	ended chan struct{}
	err   error
}

// Stop ends the program as Kubernetes ends a pod, by SIGTERM, and returns once it has ended.
func (p *Program) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("%s has not ended within %s", p.cmd.Path, stopTimeout)
	}
}

// StartProgram starts a program that ends with this process, and returns once its health endpoint answers 200. Its output goes to
// the file log.
func StartProgram(cmd *exec.Cmd, log, health string) (*Program, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &Program{cmd: cmd, ended: make(chan struct{})}
	go func() {
		// Linux sends the death signal when the thread that forked ends, so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		p.err = cmd.Run()
		_ = file.Close()
		close(p.ended)
	}()
	probe := http.Client{Timeout: time.Second}
	for deadline := time.After(startTimeout); ; {
		if answer, err := probe.Get(health); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return p, nil
			}
		}
		select {
		case <-p.ended:
			return nil, fmt.Errorf("%s ended: %w; %s says why", cmd.Path, p.err, log)
		case <-deadline:
			return nil, fmt.Errorf("%s is not healthy within %s; %s says why", cmd.Path, startTimeout, log)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

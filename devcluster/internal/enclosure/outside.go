package enclosure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

const (
	// InitMarker is the hidden first argument of the enclosure's first process.
	InitMarker = "__enclosure"
	// ListenerFile is the descriptor of the inherited listening socket.
	ListenerFile = 3
	// grace is longer than the politest shutdown of all components.
	grace = 75 * time.Second
)

// ExitError says how the enclosed supervisor ended. It has told why by itself.
type ExitError struct{ Code int }

func (e *ExitError) Error() string {
	return fmt.Sprintf("the cluster ended with code %d", e.Code)
}

// Run runs this binary with the arguments as a supervisor in an enclosure, and
// returns when nothing of it is left. The end of ctx is passed on as SIGTERM.
func Run(ctx context.Context, dir string, args []string, listener *os.File) error {
	cmd := exec.Command("/proc/self/exe", append([]string{InitMarker}, args...)...)
	cmd.Args[0] = "devcluster"
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{listener}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		// Ctrl-C is for this process, which passes it on.
		Setpgid:   true,
		Pdeathsig: syscall.SIGKILL,
	}
	ended := make(chan error, 1)
	started := make(chan error, 1)
	go func() {
		// The death signal comes when the thread ends that made the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("entering namespaces of its own: %w; a real node needs a machine that lets root make them", err)
	}
	select {
	case err := <-ended:
		return outcome(err)
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-ended:
		return outcome(err)
	case <-time.After(grace):
		_ = cmd.Process.Kill()
		return errors.Join(errors.New("the cluster did not stop in time and was killed"), <-ended)
	}
}

func outcome(err error) error {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return &ExitError{Code: max(exit.ExitCode(), 1)}
	}
	return err
}

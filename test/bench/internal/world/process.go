package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is one running program. It dies with the bench.
type Process struct {
	Name string
	Log  string

	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts a program whose output goes to a file.
func Start(name, log string, env []string, command ...string) (*Process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	p := &Process{Name: name, Log: log, cmd: exec.Command(command[0], command[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started := make(chan error, 1)
	go func() {
		// Linux sends the death signal when the thread that forked ends, so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(signal syscall.Signal) { _ = p.cmd.Process.Signal(signal) }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running fails with the end of the log when the process has ended.
func (p *Process) Running() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %s\n%s", p.Name, p.cmd.ProcessState, p.Tail())
	default:
		return nil
	}
}

// Stop ends the process: politely, and after the grace by force.
func (p *Process) Stop(grace time.Duration) {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Signal(syscall.SIGKILL)
		<-p.done
	}
}

// Kill ends the process at once.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// AwaitOutput waits for a line in the output that starts with a text.
func (p *Process) AwaitOutput(ctx context.Context, prefix string, timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		data, err := os.ReadFile(p.Log)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(data, []byte(prefix)) || bytes.Contains(data, []byte("\n"+prefix)) {
			return nil
		}
		if err := errors.Join(p.Running(), Pause(ctx, 50*time.Millisecond)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s did not print %q within %s", p.Name, prefix, timeout)
}

// Tail returns the end of the output.
func (p *Process) Tail() string {
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	// A manager that is not ready says so at every probe, which hides why.
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "healthz check failed") })
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// RssAnon returns the anonymous resident memory in bytes: what the program itself uses, without the pages of its binary,
// which the kernel may drop at any time.
func (p *Process) RssAnon() (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, err
	}
	return rssAnon(string(data))
}

// RssAnonOfAll is that of the process and of all that it started, such as the manager's workers, which have their part of the limit of its pod.
func (p *Process) RssAnonOfAll() (float64, error) {
	sum, err := p.RssAnon()
	if err != nil {
		return 0, err
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.PID()))
	if err != nil {
		return 0, err
	}
	for _, task := range tasks {
		// A task, or a child, may have ended meanwhile.
		children, _ := os.ReadFile(task)
		for _, pid := range strings.Fields(string(children)) {
			if status, err := os.ReadFile("/proc/" + pid + "/status"); err == nil {
				of, _ := rssAnon(string(status))
				sum += of
			}
		}
	}
	return sum, nil
}

func rssAnon(status string) (float64, error) {
	for line := range strings.Lines(status) {
		rest, found := strings.CutPrefix(line, "RssAnon:")
		if !found {
			continue
		}
		kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
		return kib * 1024, err
	}
	return 0, errors.New("the process has no RssAnon")
}

// Run runs a program to its end and fails with its output.
func Run(ctx context.Context, command ...string) error {
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
	}
	return nil
}

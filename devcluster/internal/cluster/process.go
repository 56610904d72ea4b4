package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"mlkeeper.dev/devcluster/internal/component"
	"mlkeeper.dev/devcluster/internal/enclosure"
)

// self is the running binary even after its file was replaced, so that a
// component started later is of the same build as the rest of its cluster.
const self = "/proc/self/exe"

// process is one run of a component.
type process struct {
	name string
	cmd  *exec.Cmd
	// done is closed when the process is gone; exit is set before that.
	done chan struct{}
	exit string
	// asked says that somebody wanted it to end. Guarded by the supervisor.
	asked bool
}

// spawner starts children from one thread that never ends. The kernel sends the
// parent-death signal when the thread that made a child ends, not the process.
type spawner chan spawnRequest

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan error
}

func newSpawner() spawner {
	requests := make(spawner)
	go func() {
		runtime.LockOSThread()
		for r := range requests {
			r.result <- r.cmd.Start()
		}
	}()
	return requests
}

// spawn starts a component with its output appended to its log.
func (sp spawner) spawn(name string, s component.Spec) (*process, error) {
	args, err := component.Args(name, s)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(s.LogOf(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	// The child has its own descriptor; ours is of no use after the start.
	defer func() { _ = log.Close() }()

	cmd := exec.Command(self, append([]string{component.Marker, name}, args...)...)
	cmd.Args[0] = "devcluster"
	if program := component.Program(name); program != "" {
		path, err := enclosure.Find(program)
		if err != nil {
			return nil, err
		}
		cmd = exec.Command(path, args...)
	}
	cmd.Dir = s.Dir
	cmd.Env = childEnv()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// Ctrl-C in a terminal goes to the whole foreground group; the children
		// are in groups of their own and end in the supervisor's order.
		Setpgid:   true,
		Pdeathsig: syscall.SIGKILL,
	}
	result := make(chan error)
	sp <- spawnRequest{cmd: cmd, result: result}
	if err := <-result; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		if err := cmd.Wait(); err != nil {
			p.exit = err.Error()
		} else {
			p.exit = "exit status 0"
		}
		close(p.done)
	}()
	return p, nil
}

// childEnv keeps a caller's own Kubernetes settings out of the components.
func childEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "KUBECONFIG=") || strings.HasPrefix(kv, "ETCD_") {
			continue
		}
		env = append(env, kv)
	}
	return env
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// end stops the process, politely for as long as grace lasts, and waits until
// it is gone. No grace means SIGKILL at once.
func (p *process) end(grace time.Duration) {
	if grace > 0 {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
			return
		case <-time.After(grace):
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

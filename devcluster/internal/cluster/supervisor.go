package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"mlkeeper.dev/devcluster/internal/component"
	"mlkeeper.dev/devcluster/internal/enclosure"
)

// Time that a component has to end after SIGTERM.
const stopGrace = 15 * time.Second

// Options are what a caller chooses when it boots a cluster.
type Options struct {
	// Spec carries the directory and the switches; the ports are filled in.
	Spec component.Spec
	// Kubeconfig is where the admin's kubeconfig goes; default <dir>/kubeconfig.
	Kubeconfig string
	// Port is the API server's port; 0 chooses a free one.
	Port int
	// Nodes is the number of simulated nodes, and NodeSize what each of them has.
	Nodes    int
	NodeSize corev1.ResourceList
	// Outside is the process that started this one in an enclosure; 0 where there
	// is none. It holds the lock, and is the supervisor to everybody outside.
	Outside int
	// CRDs names third-party definitions to install.
	CRDs []string
	// Timeout limits the boot.
	Timeout time.Duration
	// Out receives the progress lines.
	Out io.Writer
}

// Supervisor owns the processes of one cluster.
type Supervisor struct {
	opts    Options
	spec    component.Spec
	lock    *os.File
	ports   portPool
	spawner spawner
	probe   *http.Client
	began   time.Time
	// quit is closed when somebody asks for the end of the cluster; fast says
	// whether its data is about to be deleted, so that nobody has to be polite.
	quit chan struct{}
	once sync.Once
	fast bool
	// changes serialises stop and start requests.
	changes sync.Mutex

	// mu guards what follows.
	mu    sync.Mutex
	procs map[string]*process
	state State
}

// Run boots a cluster and supervises it until ctx ends or down is asked for. It
// calls ready once the cluster is healthy. When it returns, no process is left.
func Run(ctx context.Context, opts Options, ready func(State)) error {
	s, err := prepare(opts)
	if err != nil {
		return err
	}
	defer s.close()
	control, err := s.serveControl()
	if err != nil {
		return err
	}
	defer func() { _ = control.Close() }()
	if opts.Outside != 0 {
		if err := s.letIn(); err != nil {
			return err
		}
	}

	bootCtx, cancel := context.WithTimeout(ctx, opts.Timeout)
	go func() {
		select {
		case <-s.quit:
			cancel()
		case <-bootCtx.Done():
		}
	}()
	err = s.boot(bootCtx)
	interrupted := ctx.Err() != nil || s.asked()
	cancel()
	if err != nil && interrupted {
		s.shutdown(PhaseStopped, "")
		return nil
	}
	if err != nil {
		s.shutdown(PhaseFailed, err.Error())
		return err
	}
	ready(s.snapshot())
	select {
	case <-ctx.Done():
	case <-s.quit:
	}
	s.shutdown(PhaseStopped, "")
	return nil
}

// prepare takes the directory, chooses ports and writes the files.
func prepare(opts Options) (*Supervisor, error) {
	spec := opts.Spec
	if err := os.MkdirAll(spec.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the state directory: %w; choose another one with --dir", err)
	}
	var lock *os.File
	pid := opts.Outside
	if pid == 0 {
		var err error
		if lock, err = takeLock(spec.Dir); err != nil {
			return nil, err
		}
		pid = os.Getpid()
	}
	s := &Supervisor{
		opts: opts, lock: lock, began: time.Now(), spawner: newSpawner(),
		quit: make(chan struct{}), procs: map[string]*process{},
	}
	if opts.Kubeconfig == "" {
		opts.Kubeconfig = filepath.Join(spec.Dir, "kubeconfig")
	}
	last, err := ReadState(spec.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.close()
		return nil, err
	}
	spec.Ports, err = s.ports.assign(opts.Port, last.Spec.Ports, spec.RealNode)
	if err == nil && spec.RealNode {
		spec.CNIPlugins, err = enclosure.Plugins()
	}
	if err == nil {
		err = checkKubeconfig(opts.Kubeconfig)
	}
	if err == nil {
		err = writeFiles(spec, opts.Kubeconfig)
	}
	if err == nil {
		s.probe, err = probeClient(spec)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.spec = spec
	s.state = State{
		Dir: spec.Dir, Phase: PhaseStarting, PID: pid, Server: spec.Server(),
		Kubeconfig: opts.Kubeconfig, Socket: socketPath(spec.Dir), StartedAt: s.began.UTC(),
		KubernetesVersion: kubernetesVersion, Spec: spec,
	}
	s.save()
	return s, nil
}

// takeLock makes this process the only supervisor of the directory.
func takeLock(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, &RunningError{Dir: dir}
	}
	return lock, nil
}

// RunningError says that the directory already has a running cluster.
type RunningError struct{ Dir string }

func (e *RunningError) Error() string {
	return fmt.Sprintf("a devcluster already runs in %s; see it with `devcluster status --dir %s`, "+
		"end it with `devcluster down --dir %s`, or choose another directory with --dir", e.Dir, e.Dir, e.Dir)
}

func (s *Supervisor) close() {
	s.ports.release()
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

func (s *Supervisor) asked() bool {
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

// logf prints a line of progress with the time since the start.
func (s *Supervisor) logf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	_, _ = fmt.Fprintf(s.opts.Out, "%5.1fs  %s\n", time.Since(s.began).Seconds(), line)
}

// launch starts a component and watches over it.
func (s *Supervisor) launch(name string) (*process, error) {
	p, err := s.spawner.spawn(name, s.spec)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.procs[name] = p
	s.mu.Unlock()
	s.save()
	go func() {
		<-p.done
		s.mu.Lock()
		asked := p.asked
		s.mu.Unlock()
		if !asked {
			s.logf("%s ended by itself (%s); its log is %s, start it again with `devcluster start %s`",
				name, p.exit, s.spec.LogOf(name), name)
		}
		s.save()
	}()
	return p, nil
}

// stop ends a component and returns when it is gone.
func (s *Supervisor) stop(name string, grace time.Duration) error {
	s.mu.Lock()
	p := s.procs[name]
	if p != nil {
		p.asked = true
	}
	s.mu.Unlock()
	if p == nil || !p.running() {
		return fmt.Errorf("%s does not run; start it with `devcluster start %s`", name, name)
	}
	p.end(grace)
	s.save()
	return nil
}

// shutdown ends everything: clients first, so that the servers do not wait for
// their open watches, and etcd last.
func (s *Supervisor) shutdown(phase, reason string) {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.setPhase(PhaseStopping, reason)
	grace := stopGrace
	// The closed channel orders the write of fast before this read.
	if (s.asked() && s.fast) || phase == PhaseFailed {
		grace = 0
	}
	clients := []string{
		component.ControllerManager, component.Scheduler, component.SimulatedKubelet, component.StandIn,
		component.Kubelet, component.KubeProxy, component.ClusterDNS,
	}
	for _, group := range [][]string{clients, {component.APIServer}, {component.Etcd, component.Containerd}} {
		var wg sync.WaitGroup
		for _, name := range group {
			wg.Go(func() { _ = s.stop(name, grace) })
		}
		wg.Wait()
	}
	s.setPhase(phase, reason)
}

func (s *Supervisor) setPhase(phase, reason string) {
	s.mu.Lock()
	s.state.Phase, s.state.Error = phase, reason
	if phase == PhaseHealthy {
		s.state.BootSeconds = time.Since(s.began).Round(10 * time.Millisecond).Seconds()
	}
	s.mu.Unlock()
	s.save()
}

// snapshot returns the state with the components as they are now.
func (s *Supervisor) snapshot() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current()
}

// current needs mu to be held.
func (s *Supervisor) current() State {
	st := s.state
	st.Components = nil
	for _, name := range s.spec.Enabled() {
		c := ComponentStatus{
			Name: name, State: StateStopped, Port: s.spec.Ports.Of(name), Log: s.spec.LogOf(name),
		}
		if p := s.procs[name]; p != nil {
			switch {
			case p.running():
				c.State, c.PID = StateRunning, p.cmd.Process.Pid
			case p.asked:
				c.Exit = p.exit
			default:
				c.State, c.Exit = StateExited, p.exit
			}
		}
		st.Components = append(st.Components, c)
	}
	return st
}

// save writes state.json. It holds the lock, or an older state could overwrite
// a newer one.
func (s *Supervisor) save() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := writeState(s.current()); err != nil && !errors.Is(err, os.ErrNotExist) {
		_, _ = fmt.Fprintf(s.opts.Out, "warning: the state could not be recorded: %v\n", err)
	}
}

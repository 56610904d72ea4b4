package cluster

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// bootTimeout is long, because several packages may boot at once on a small machine.
const bootTimeout = 5 * time.Minute

// process is one running "devcluster up".
type process struct {
	binary, dir string
	cmd         *exec.Cmd
	// done is closed when the process has ended.
	done chan struct{}
	out  *tail
}

// launch runs "devcluster up" in the foreground and returns when the cluster is healthy. The child gets SIGTERM when
// this process dies, so that a test that panics or is killed leaves no cluster behind.
func launch(binary, dir string, flags []string) (*process, error) {
	p := &process{binary: binary, dir: dir, done: make(chan struct{}), out: &tail{}}
	args := append([]string{"up", "--dir", dir, "--timeout", bootTimeout.String()}, flags...)
	p.cmd = exec.Command(binary, args...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = writer, writer
	started := make(chan error, 1)
	go func() {
		// Linux sends the death signal when the thread that forked ends, so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		_ = writer.Close()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		_ = reader.Close()
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	ready := make(chan struct{})
	go p.read(reader, ready)
	select {
	case <-ready:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("devcluster ended before it was healthy:\n%s", p.out)
	case <-time.After(bootTimeout + 30*time.Second):
		p.stop()
		return nil, fmt.Errorf("devcluster was not healthy within %s:\n%s", bootTimeout, p.out)
	}
}

// read collects the output and closes ready at the line that "up" prints when the cluster is healthy.
func (p *process) read(r io.ReadCloser, ready chan struct{}) {
	defer func() { _ = r.Close() }()
	var once sync.Once
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		p.out.add(line)
		if strings.HasPrefix(line, "export KUBECONFIG=") {
			once.Do(func() { close(ready) })
		}
	}
	_, _ = io.Copy(io.Discard, r)
}

// stop ends the cluster and removes its folder.
func (p *process) stop() {
	_, _ = p.run("down", "--dir", p.dir)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-p.done:
		case <-time.After(30 * time.Second):
			_ = p.cmd.Process.Signal(signal)
			continue
		}
		break
	}
	_ = os.RemoveAll(p.dir)
}

// run runs another command of the binary and returns what it printed.
func (p *process) run(args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(p.binary, args...)
	cmd.Dir = filepath.Dir(p.dir)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("devcluster %s: %w\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// tail keeps the last lines of the output for the message of a failure.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	if len(t.lines) > 100 {
		t.lines = t.lines[1:]
	}
}

// String returns the kept lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

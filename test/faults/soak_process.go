package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// soakProcess is the process of the operator, seen from the soak.
type soakProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	base  string
	// ended is closed when the process has ended, err is why.
	ended chan struct{}
	err   error
}

// startOperator starts this test program again as the operator. What the operator prints but its address is a panic.
func startOperator(kubeconfig string, seed int64, printed func(line string)) (*soakProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-test.run=^TestSoakOperator$", "-test.timeout=0", "-faults.operator="+kubeconfig, fmt.Sprintf("-faults.seed=%d", seed))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	p := &soakProcess{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	address := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if at, found := strings.CutPrefix(lines.Text(), listening); found {
				address <- at
			} else {
				printed(lines.Text())
			}
		}
		p.err = cmd.Wait()
		close(p.ended)
	}()
	select {
	case at := <-address:
		p.base = "http://" + at
		return p, nil
	case <-p.ended:
		return nil, p.died()
	case <-time.After(time.Minute):
		p.stop()
		return nil, errors.New("the operator does not tell where it listens")
	}
}

// stop ends the process, by force if it does not end by itself.
func (p *soakProcess) stop() {
	_ = p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// died says why the process has ended; nil while it runs.
func (p *soakProcess) died() error {
	select {
	case <-p.ended:
		return fmt.Errorf("the operator ended by itself: %w", p.err)
	default:
		return nil
	}
}

// get reads from the operator.
func (p *soakProcess) get(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, errors.Join(err, p.died())
	}
	defer drop(resp)
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return body, err
}

// ask asks the operator, and decodes its answer into out unless that is nil.
func (p *soakProcess) ask(ctx context.Context, method, path string, out any) error {
	body, err := p.get(ctx, method, path)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(body, out)
}

// profile writes the heap profile of the operator to a file, of which `go tool pprof -base` compares two.
func (p *soakProcess) profile(ctx context.Context, file string) error {
	body, err := p.get(ctx, http.MethodGet, "/heap")
	if err != nil {
		return err
	}
	return os.WriteFile(file, body, 0o644)
}

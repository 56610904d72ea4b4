//go:build realtrustyai

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// enclosed names the folder that is the root of the service's container, in the namespaces that the tests run in.
const enclosed = "TRUSTYAI_ROOT"

// TestMain runs the tests in namespaces of their own. The service has the ports and the paths of its container there, whatever this
// machine has at them, listens to nobody else, and reaches nothing.
func TestMain(m *testing.M) {
	root := os.Getenv(enclosed)
	if root == "" {
		os.Exit(enclose())
	}
	if err := furnish(root); err != nil {
		fmt.Fprintln(os.Stderr, "the namespaces of the test:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// enclose runs this program again.
func enclose() int {
	root, err := os.MkdirTemp("", "trustyai-root-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Nothing of what is mounted there is seen from here, and a folder that is not empty would stay.
	defer func() { _ = os.Remove(root) }()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), enclosed+"="+root)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		// In a user namespace everybody may make the others.
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	err = cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "namespaces of its own, which root and everybody in a user namespace may have:", err)
		return 1
	}
	return 0
}

// furnish brings the loopback interface up, and makes a root that has all of this machine but what the container mounts: the certificates
// below /etc/tls, and /inputs. Those lie in memory, and end with the namespaces.
func furnish(root string) error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, ""); err != nil {
		return err
	}
	if err := bindEntries("/", root, "etc", "inputs"); err != nil {
		return err
	}
	if err := bindEntries("/etc", filepath.Join(root, "etc"), "tls"); err != nil {
		return err
	}
	return loopbackUp()
}

// bindEntries mounts what is in a folder into another one.
func bindEntries(from, to string, but ...string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		source, target := filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())
		switch {
		case slices.Contains(but, entry.Name()):
			continue
		case entry.Type() == os.ModeSymlink:
			at, err := os.Readlink(source)
			if err == nil {
				err = os.Symlink(at, target)
			}
			if err != nil {
				return err
			}
			continue
		case entry.IsDir():
			err = os.Mkdir(target, 0o755)
		case entry.Type().IsRegular():
			err = os.WriteFile(target, nil, 0o600)
		default:
			continue
		}
		if err == nil {
			err = syscall.Mount(source, target, "", syscall.MS_BIND|syscall.MS_REC, "")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
	}
	return nil
}

// loopbackUp does what "ip link set lo up" does.
func loopbackUp() error {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(socket) }()
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], "lo")
	if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); code != 0 {
		return code
	}
	return nil
}

// process is trustyai-service.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	began time.Time
	ended chan struct{}
	mu    sync.Mutex
	log   bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// said is everything that the process has logged.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// inRoot is where this process finds a path of the container.
func inRoot(path string) string { return filepath.Join(os.Getenv(enclosed), path) }

// startProcess starts the service with an environment, and with the files of its certificate. What it has in /inputs stays from start to
// start; volume makes it anew. The other variables are those of the image (Containerfile).
func startProcess(t *testing.T, env []string, certificates map[string][]byte) *process {
	t.Helper()
	checkout, program := os.Getenv("TRUSTYAI_SERVICE"), os.Getenv("TRUSTYAI_PYTHON")
	if checkout == "" || program == "" {
		t.Fatal("TRUSTYAI_SERVICE and TRUSTYAI_PYTHON are not set: run make test-trustyai")
	}
	if err := os.RemoveAll(inRoot("/etc/tls")); err != nil {
		t.Fatal(err)
	}
	for path, content := range certificates {
		if err := errors.Join(os.MkdirAll(filepath.Dir(inRoot(path)), 0o755), os.WriteFile(inRoot(path), content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	p := &process{t: t, ended: make(chan struct{}), began: time.Now()}
	p.cmd = exec.Command(program, "-m", "trustyai_service.main")
	p.cmd.Dir = "/"
	p.cmd.Env = append([]string{
		"PATH=/usr/bin:/bin", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=random",
		"PYTHONPATH=" + filepath.Join(checkout, "src") + ":" + driverFolder,
	}, env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: os.Getenv(enclosed), Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Log(p.said())
		}
	})
	return p
}

// kill ends the process as a kubelet does after the grace period of its pod.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// endsWithin says whether the process ends within some time of the signal that a kubelet sends first.
func (p *process) endsWithin(patience time.Duration) bool {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return true
	case <-time.After(patience):
		return false
	}
}

// listens waits until the service listens, and tells where, with TLS or without; or that it ended.
func (p *process) listens() string {
	p.t.Helper()
	last, since := "", time.Now()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		select {
		case <-p.ended:
			return "ends"
		case <-time.After(100 * time.Millisecond):
		}
		now, err := sockets()
		if err != nil {
			p.t.Fatal(err)
		}
		if text := strings.Join(now, " "); text != last {
			last, since = text, time.Now()
		}
		if last == "" || time.Since(since) < time.Second {
			continue
		}
		for i, address := range now {
			if _, port, _ := net.SplitHostPort(address); servesTLS(port) {
				now[i] += "+tls"
			}
		}
		slices.Sort(now)
		return strings.Join(now, " ")
	}
	p.t.Fatal("it does not listen")
	return ""
}

// sockets are the addresses that somebody listens on in the namespace.
func sockets() ([]string, error) {
	const listen = "0A"
	var out []string
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(string(text), "\n")[1:] {
			fields := strings.Fields(line)
			if len(fields) < 4 || fields[3] != listen {
				continue
			}
			host, port, _ := strings.Cut(fields[1], ":")
			number, err := strconv.ParseUint(port, 16, 16)
			if err != nil {
				return nil, err
			}
			name, known := map[string]string{"00000000": "0.0.0.0", "0100007F": "127.0.0.1"}[host]
			if !known {
				name = host
			}
			out = append(out, net.JoinHostPort(name, strconv.FormatUint(number, 10)))
		}
	}
	slices.Sort(out)
	return out, nil
}

func servesTLS(port string) bool {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	connection, err := tls.DialWithDialer(dialer, "tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // It is only asked whether there is TLS.
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}

// cpu is the processor time that the process has used, in seconds.
func (p *process) cpu() float64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	// The second field is the name, in parentheses. The kernel counts in hundredths of a second.
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// realListeners make handlers of the addresses, which ask the service. TLS is verified by the authority, and by the name that is asked for.
// What is read is read over HTTP/2 where the service offers it, as Prometheus does; KServe's agent posts over HTTP/1.1.
func realListeners(t *testing.T, addresses string, authority []byte) []listener {
	t.Helper()
	roots := x509.NewCertPool()
	if len(authority) > 0 && !roots.AppendCertsFromPEM(authority) {
		t.Fatalf("no authority: %q", authority)
	}
	var out []listener
	for _, text := range strings.Fields(addresses) {
		address, secured := strings.CutSuffix(text, "+tls")
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		l, scheme := listener{host: host, port: port}, "http"
		if secured {
			l.cert, scheme = certFile, "https"
		}
		clients := map[bool]http.Handler{}
		for _, reads := range []bool{false, true} {
			transport := &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: reads,
				DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, "127.0.0.1:"+port)
				},
			}
			t.Cleanup(transport.CloseIdleConnections)
			clients[reads] = &httputil.ReverseProxy{
				Transport: transport,
				Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: scheme, Host: r.In.Host}) },
			}
		}
		l.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			clients[r.Method == http.MethodGet].ServeHTTP(w, r)
		})
		out = append(out, l)
	}
	return out
}

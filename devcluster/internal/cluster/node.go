package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"mlkeeper.dev/devcluster/internal/component"
	"mlkeeper.dev/devcluster/internal/enclosure"
	"mlkeeper.dev/devcluster/internal/image"
	"mlkeeper.dev/devcluster/internal/pause"
)

// RunEnclosed is Run for a cluster with a real node: a process in an enclosure
// does it, whose arguments are rendered from the options. This process keeps the
// directory and the API server's port for it.
func RunEnclosed(ctx context.Context, opts Options, args func(Options) []string) error {
	dir := opts.Spec.Dir
	if err := enclosure.Require(); err != nil {
		return err
	}
	if strings.HasPrefix(dir+"/", "/run/") || strings.HasPrefix(dir+"/", "/var/run/") {
		return fmt.Errorf("%s is in /run, of which a real node has its own; choose another directory with --dir", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the state directory: %w; choose another one with --dir", err)
	}
	lock, err := takeLock(dir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	last, err := ReadState(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var ports portPool
	defer ports.release()
	listener, port, err := ports.listen(opts.Port, last.Spec.Ports.APIServer)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	opts.Port, opts.Outside = port, os.Getpid()
	group := enclosure.Group(dir)
	if err = enclosure.MakeGroup(group); err == nil {
		err = enclosure.Run(ctx, dir, args(opts), listener)
	}
	return errors.Join(err, enclosure.RemoveGroup(group))
}

// listen opens the API server's port: the wanted one, else the last one, else
// a free one.
func (p *portPool) listen(wanted, last int) (*os.File, int, error) {
	port, err := p.one(wanted, last)
	if err != nil {
		return nil, 0, err
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(component.Loopback), Port: port})
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = listener.Close() }()
	file, err := listener.File()
	return file, port, err
}

// one reserves a single port.
func (p *portPool) one(wanted, last int) (int, error) {
	if wanted != 0 {
		return wanted, p.reserve(wanted)
	}
	if last != 0 && p.reserve(last) == nil {
		return last, nil
	}
	return p.pick()
}

// letIn passes connections from outside on to the API server, which listens on
// the same port of another network namespace.
func (s *Supervisor) letIn() error {
	inherited := os.NewFile(enclosure.ListenerFile, "listener")
	listener, err := net.FileListener(inherited)
	if err != nil {
		return fmt.Errorf("taking the API server's port over: %w", err)
	}
	// Components must not inherit it: they would keep the port open.
	_ = inherited.Close()
	target := fmt.Sprintf("%s:%d", component.Loopback, s.spec.Ports.APIServer)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go pass(conn.(*net.TCPConn), target)
		}
	}()
	return nil
}

// pass connects a client with the target until both have said all they had to
// say. A client of a stopped API server sees its connection closed.
func pass(client *net.TCPConn, target string) {
	defer func() { _ = client.Close() }()
	conn, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	server := conn.(*net.TCPConn)
	defer func() { _ = server.Close() }()
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.CloseWrite()
		close(done)
	}()
	_, _ = io.Copy(client, server)
	_ = client.CloseWrite()
	<-done
}

// writeNodeFiles writes what the processes of a real node read.
func writeNodeFiles(s component.Spec) error {
	if err := os.MkdirAll(filepath.Dir(s.CNIFile()), 0o700); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(s.KubeletConfigFile(), []byte(component.KubeletConfig(s, enclosure.Group(s.Dir))), 0o600),
		os.WriteFile(s.ContainerdConfigFile(), []byte(component.ContainerdConfig(s)), 0o600),
		os.WriteFile(s.CNIFile(), []byte(component.CNIConfig()), 0o600),
	)
}

// startNode starts containerd, gives it the image that every pod needs, and then
// starts the kubelet.
func (s *Supervisor) startNode(ctx context.Context) error {
	if err := s.start(ctx, component.Containerd); err != nil {
		return err
	}
	program, err := pause.Program(runtime.GOARCH)
	if err != nil {
		return err
	}
	archive, err := image.Archive(image.Spec{
		Name: component.PauseImage, Arch: runtime.GOARCH, Binary: "/pause", Content: program, User: "65535:65535",
	})
	if err != nil {
		return err
	}
	if _, err := importImages(ctx, bytes.NewReader(archive)); err != nil {
		return fmt.Errorf("loading the pause image: %w", err)
	}
	return s.start(ctx, component.Kubelet)
}

// importImages loads an archive into containerd, in the part of it that the
// kubelet uses.
func importImages(ctx context.Context, archive io.Reader) (string, error) {
	path, err := enclosure.Find("ctr")
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, "--address", component.ContainerdSocket, "--namespace", "k8s.io", "images", "import", "-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = archive, &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// handleImage loads the archive in the body of a request.
func (s *Supervisor) handleImage(w http.ResponseWriter, r *http.Request) {
	if !s.spec.RealNode {
		http.Error(w, "the nodes of this cluster are simulated and have no images; boot it with --node=real", http.StatusConflict)
		return
	}
	loaded, err := importImages(r.Context(), r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	_, _ = io.WriteString(w, loaded)
}

package tfserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	freeports "mlkeeper.dev/test/ports"
)

// The tests that begin with TestServer know the server as a program only. The variable realServer names the real one; without it they run
// the stand-in, which is this test's own binary.
const (
	realServer = "TFSERVING_SERVER"
	beServer   = "MLKEEPER_TEST_BE_THE_SERVER"
	// soon bounds a wait; the real program takes seconds to start.
	soon = 40 * time.Second
)

func TestMain(m *testing.M) {
	if os.Getenv(beServer) != "" {
		os.Exit(Main(os.Args[1:], Disk{}))
	}
	os.Exit(m.Run())
}

// program is a server that runs.
type program struct {
	t          *testing.T
	cmd        *exec.Cmd
	grpc, rest int
	ended      chan struct{}
	mu         sync.Mutex
	text       strings.Builder
}

// Write implements io.Writer.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// output is what the program has printed.
func (p *program) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// ports are two that are free.
func ports(t *testing.T) (a, b int) {
	t.Helper()
	var out [2]int
	for i := range out {
		port, err := freeports.Free()
		if err != nil {
			t.Fatal(err)
		}
		out[i] = port
	}
	return out[0], out[1]
}

// run starts the program with ports of its own before the arguments.
func run(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, ended: make(chan struct{})}
	p.grpc, p.rest = ports(t)
	binary := os.Getenv(realServer)
	if binary == "" {
		binary = os.Args[0]
	}
	all := append([]string{fmt.Sprintf("--port=%d", p.grpc), fmt.Sprintf("--rest_api_port=%d", p.rest)}, args...)
	p.cmd = exec.Command(binary, all...) //nolint:gosec // The test's own, or the one that is named.
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(os.Environ(), beServer+"=1"), p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s printed\n%s", strings.Join(args, " "), p.output())
		}
	})
	return p
}

// ends waits until the program has ended, and wants its status and a word of what it printed.
func (p *program) ends(code int, words ...string) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(soon):
		p.t.Fatal("the program does not end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code && (code != exitAbort || got != -1) {
		p.t.Errorf("it ended with %d, not %d", got, code)
	}
	for _, word := range words {
		if !strings.Contains(p.output(), word) {
			p.t.Errorf("it did not print %q", word)
		}
	}
}

// ask sends a request by REST.
func (p *program) ask(method, path, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d%s", p.rest, path), strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// states are the versions of a model, such as "2 AVAILABLE OK", as REST has them. The answer has to be one of the published message.
func (p *program) states(model string) (string, error) {
	code, body, err := p.ask(http.MethodGet, "/v1/models/"+model, "")
	if err != nil || code != http.StatusOK {
		return "", fmt.Errorf("%d %s %w", code, body, err)
	}
	m := message("GetModelStatusResponse")
	if err := protojson.Unmarshal([]byte(body), m); err != nil {
		p.t.Fatalf("%s is no GetModelStatusResponse: %v", body, err)
	}
	return list(m), nil
}

func list(m proto.Message) string {
	var out []string
	for _, v := range each(m.ProtoReflect(), "model_version_status") {
		state := v.Descriptor().Fields().ByName("state").Enum().Values().ByNumber(get(v, "state").Enum()).Name()
		s := get(v, "status").Message()
		code := s.Descriptor().Fields().ByName("error_code").Enum().Values().ByNumber(get(s, "error_code").Enum()).Name()
		out = append(out, fmt.Sprintf("%d %s %s", get(v, "version").Int(), state, code))
	}
	return strings.Join(out, ", ")
}

// becomes waits until a model has the states.
func (p *program) becomes(model, want string) {
	p.t.Helper()
	p.eventually(func() error {
		got, err := p.states(model)
		if err == nil && got != want {
			err = fmt.Errorf("%s is %q, not %q", model, got, want)
		}
		return err
	})
}

func (p *program) eventually(check func() error) {
	p.t.Helper()
	var err error
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
		select {
		case <-p.ended:
			p.t.Fatalf("the program has ended: %v", err)
		default:
		}
	}
	p.t.Fatal(err)
}

// answers wants a code and a word for a request by REST.
func (p *program) answers(method, path, body string, code int, word string) {
	p.t.Helper()
	got, text, err := p.ask(method, path, body)
	if err != nil || got != code || !strings.Contains(text, word) {
		p.t.Errorf("%s %s: %d %s (%v), not %d with %q", method, path, got, text, err, code, word)
	}
}

// logs waits until the program has printed a text.
func (p *program) logs(text string) {
	p.t.Helper()
	p.eventually(func() error {
		if !strings.Contains(p.output(), text) {
			return fmt.Errorf("it has not printed %q", text)
		}
		return nil
	})
}

// closed says that nothing listens at the ports.
func (p *program) closed(why string) {
	p.t.Helper()
	for _, port := range []int{p.grpc, p.rest} {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(p.t.Context(), "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = conn.Close()
			p.t.Errorf("port %d is open %s", port, why)
		}
	}
}

// call calls a method of ModelService with a request given as text proto.
func (p *program) call(method, request string) (proto.Message, error) {
	p.t.Helper()
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", p.grpc), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	in, out := "GetModelStatusRequest", "GetModelStatusResponse"
	if method != "GetModelStatus" {
		in, out = "ReloadConfigRequest", "ReloadConfigResponse"
	}
	m, answer := message(in), message(out)
	if err := prototext.Unmarshal([]byte(request), m); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), soon)
	defer cancel()
	return answer, conn.Invoke(ctx, "/tensorflow.serving.ModelService/"+method, m, answer)
}

func (p *program) reload(config string) error {
	p.t.Helper()
	_, err := p.call("HandleReloadConfigRequest", "config { "+config+" }")
	return err
}

// base is a base path with versions of the toy model; the bias of each is its number.
func base(t *testing.T, versions ...int64) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "m")
	if err := os.Mkdir(folder, 0o755); err != nil { //nolint:gosec // Another user may serve it.
		t.Fatal(err)
	}
	for _, v := range versions {
		add(t, folder, v)
	}
	return folder
}

func add(t *testing.T, folder string, version int64) {
	t.Helper()
	if err := WriteModel(folder, version, float32(version)); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// write writes a file as an editor that replaces it does.
func write(t *testing.T, path, text string) string {
	t.Helper()
	must(t, os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path))
	return path
}

// config is a model config of one model m with further fields.
func config(base, more string) string {
	return fmt.Sprintf("model_config_list { %s }", model("m", base, more))
}

func model(name, base, more string) string {
	return fmt.Sprintf("config { name: %q base_path: %q model_platform: %q %s }", name, base, tensorflow, more)
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "models.conf"), text)
}

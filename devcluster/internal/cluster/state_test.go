package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/devcluster/internal/component"
)

func TestStateRoundTrip(t *testing.T) {
	dir := t.TempDir()
	want := State{
		Dir: dir, Phase: PhaseHealthy, PID: 42, Server: "https://127.0.0.1:1", Kubeconfig: "/k",
		StartedAt: time.Now().UTC().Truncate(time.Second), BootSeconds: 2.5,
		Components: []ComponentStatus{{Name: component.Etcd, State: StateRunning, PID: 43, Port: 44}},
		Spec:       component.Spec{Dir: dir, Ports: component.Ports{Etcd: 44}, AuditLog: "/a"},
	}
	if err := writeState(want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadState(dir)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestMissingAndDamagedStatesSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadState(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "devcluster up") {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(StateFile(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(dir); err == nil || !strings.Contains(err.Error(), "devcluster down") {
		t.Errorf("damaged: %v", err)
	}
}

func TestSocketPathFitsTheKernel(t *testing.T) {
	short := socketPath("/c")
	if short != "/c/control.sock" {
		t.Errorf("short: %s", short)
	}
	a, b := socketPath("/"+strings.Repeat("a", 200)), socketPath("/"+strings.Repeat("b", 200))
	if len(a) > 107 || a == b {
		t.Errorf("long: %s and %s", a, b)
	}
}

func TestPortsAreReservedAndKept(t *testing.T) {
	var first, second portPool
	t.Cleanup(first.release)
	t.Cleanup(second.release)
	ports, err := first.assign(0, component.Ports{}, false)
	if err != nil {
		t.Fatal(err)
	}
	// A second cluster that wants the same ports gets others, and is told so
	// when it insists.
	others, err := second.assign(0, ports, false)
	if err != nil {
		t.Fatal(err)
	}
	if ports.Etcd == others.Etcd || ports.APIServer == others.APIServer {
		t.Errorf("%+v and %+v overlap", ports, others)
	}
	if _, err := second.assign(ports.APIServer, component.Ports{}, false); err == nil || !strings.Contains(err.Error(), "another devcluster") {
		t.Errorf("a port in use is not refused: %v", err)
	}
	// A cluster that is booted again finds its own.
	first.release()
	again, err := first.assign(0, ports, false)
	if err != nil || again != ports {
		t.Errorf("got %+v, %v; want %+v", again, err, ports)
	}
}

func TestForeignKubeconfigIsNotReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := checkKubeconfig(path); err != nil {
		t.Errorf("a new file is refused: %v", err)
	}
	foreign := "apiVersion: v1\nkind: Config\nclusters: [{name: prod, cluster: {server: https://prod.example}}]\n"
	if err := os.WriteFile(path, []byte(foreign), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkKubeconfig(path); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("a foreign file is accepted: %v", err)
	}
}

func TestRemovalLeavesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	spec := component.Spec{Dir: dir}
	if err := writeFiles(spec, filepath.Join(dir, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(dir, "thesis.txt")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeFiles(State{Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig")}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "thesis.txt" {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("1\n2\n3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Tail(path, 2); got != "2\n3" {
		t.Errorf("got %q", got)
	}
}

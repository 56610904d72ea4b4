//go:build realtrustyai

package main

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "mlkeeper.dev/api/trustyai/v1"
)

// driverFolder is where the service finds the driver of the test.
const driverFolder = "/trustyai-test-driver"

// driver takes the place of PyPI's mariadb, which has to be compiled against a library of MariaDB: it prints what the service connects
// with, and answers as a database that holds nothing. Of the other module the service needs nothing but that it is there.
var driver = map[string]string{
	"javaobj.py": "",
	"mariadb.py": `import json, os, sys, time

class Error(Exception): pass
class ProgrammingError(Error): pass
class OperationalError(Error): pass
class Cursor:
    lastrowid = 1
    def execute(self, text, *_): self.text = text
    def fetchone(self): return (1,) if self.text == "SELECT 1" else None
    def fetchall(self): return []
    def __iter__(self): return iter([])
class Connection:
    def cursor(self): return Cursor()
    def commit(self): pass
    def close(self): pass

def connect(**how):
    print("CONNECT", json.dumps(how), file=sys.stderr, flush=True)
    time.sleep(float(os.environ.get("TEST_DATABASE_DELAY", "0")))
    if os.environ.get("TEST_DATABASE") == "refuses":
        raise OperationalError("refused by the test")
    return Connection()
`,
}

// installDriver brings the driver into the container for one test.
func installDriver(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { _ = os.RemoveAll(inRoot(driverFolder)) })
	for name, content := range driver {
		path := filepath.Join(inRoot(driverFolder), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// connections are what a process has connected with.
func connections(t *testing.T, p *process) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, line := range strings.Split(p.said(), "\n") {
		if text, found := strings.CutPrefix(line, "CONNECT "); found {
			how := map[string]any{}
			if err := json.Unmarshal([]byte(text), &how); err != nil {
				t.Fatal(err)
			}
			out = append(out, how)
		}
	}
	return out
}

// TestRealServiceConnectsToTheDatabase: the variables have the names that the service reads, for its data and for its readiness.
func TestRealServiceConnectsToTheDatabase(t *testing.T) {
	for name, manifest := range map[string]string{"serving": onDatabase, "migrating": migrating} {
		t.Run(name, func(t *testing.T) {
			w := render(t, v1.GenerationPython, v1.ExposureSecured, manifest, databaseSecret())
			if len(w.plan.Problems) > 0 {
				t.Fatal(w.plan.Problems)
			}
			volume(t)
			installDriver(t)
			p := w.real()
			want := map[string]any{
				"user": "the-databaseUsername", "password": "the-databasePassword", "host": "the-databaseService", "port": 3307.0, "database": "the-databaseName",
			}
			w.ask(false, 8080, "GET", "http://pod/q/health/ready", "")
			all := connections(t, p)
			for _, how := range all {
				delete(how, "connect_timeout")
				if !maps.Equal(how, want) {
					t.Errorf("it connects with %v, not %v", how, want)
				}
			}
			if len(all) < 2 {
				t.Errorf("it connected %d times:\n%s", len(all), p.said())
			}
			if name == "migrating" && !strings.Contains(p.said(), "checking for legacy DB schema migration") {
				t.Errorf("it copies nothing:\n%s", p.said())
			}
		})
	}
}

// TestRealServiceIsSilentWhileItCopies: the service opens its storage, and copies, before it listens. What probes it meanwhile must not end
// it: what it has copied half it copies again.
func TestRealServiceIsSilentWhileItCopies(t *testing.T) {
	w := render(t, v1.GenerationPython, v1.ExposureSecured, migrating, databaseSecret())
	volume(t)
	installDriver(t)
	const long = 8 * time.Second
	p := startProcess(t, append(w.environment(), "TEST_DATABASE_DELAY=8"), nil)
	for len(connections(t, p)) == 0 {
		time.Sleep(100 * time.Millisecond)
	}
	for began := time.Now(); time.Since(began) < long-time.Second; time.Sleep(100 * time.Millisecond) {
		if all, err := sockets(); err != nil || len(all) > 0 {
			t.Fatalf("while it waits for the database it listens on %v (%v): a liveness probe can be asked", all, err)
		}
	}
	c := w.pod.Containers[0]
	if c.StartupProbe == nil || time.Duration(c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold)*time.Second < 10*time.Minute {
		t.Errorf("the pod is ended before the deadline of its Deployment, by %+v and %+v", c.StartupProbe, c.LivenessProbe)
	}
}

// TestRealServiceEndsWithoutItsDatabase: a pod whose database refuses is restarted, and not only unready.
func TestRealServiceEndsWithoutItsDatabase(t *testing.T) {
	w := render(t, v1.GenerationPython, v1.ExposureSecured, onDatabase, databaseSecret())
	installDriver(t)
	p := startProcess(t, append(w.environment(), "TEST_DATABASE=refuses"), nil)
	if got := p.listens(); got != "ends" {
		t.Errorf("it listens on %s", got)
	}
}

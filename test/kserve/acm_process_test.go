//go:build realacm

package kserve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"mlkeeper.dev/test/acmruntime"
	"mlkeeper.dev/test/cluster"
)

// realACM is ONAP's ACM runtime as a process, with an Apache Kafka and a PostgreSQL of its own. make test-acm says where its jar is.
type realACM struct {
	t     *testing.T
	kafka *realKafka
	url   string
	// ended is closed when the process has ended.
	ended chan struct{}
}

const acmUser, acmPassword = "runtimeUser", "runtime-secret"

// newRealACM starts the runtime and waits until its REST API answers. Its configuration is the jar's own, but for addresses, credentials, and
// how often it looks at what is late: every second in place of two minutes.
func newRealACM(t *testing.T) *realACM {
	t.Helper()
	jar := os.Getenv("RUNTIME_JAR")
	if jar == "" {
		t.Fatal("RUNTIME_JAR is not set: run make test-acm")
	}
	k, database := newKafka(t), newDatabase(t)
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	r := &realACM{t: t, kafka: k, url: fmt.Sprintf("http://127.0.0.1:%d/onap/policy/clamp/acm/v2", ports[0]), ended: make(chan struct{})}
	process := exec.Command(os.Getenv("RUNTIME_JAVA"), "-Xmx512m", "-jar", jar)
	process.Dir = t.TempDir()
	process.Env = append(os.Environ(), fmt.Sprintf("SERVER_PORT=%d", ports[0]), fmt.Sprintf("PROMETHEUS_PORT=%d", ports[1]),
		"RUNTIME_USER="+acmUser, "RUNTIME_PASSWORD="+acmPassword, "SQL_HOST=127.0.0.1", fmt.Sprintf("SQL_PORT=%d", database),
		"SQL_USER="+databaseUser, "SQL_PASSWORD=", "KAFKA_SERVER="+k.address, "KAFKA_SECURITY_PROTOCOL=SASL_PLAINTEXT",
		"KAFKA_SASL_MECHANISM=SCRAM-SHA-512", "KAFKA_SASL_JAAS_CONFIG="+jaas(), "HEART_BEAT=1000")
	log := os.Getenv("RUNTIME_LOG")
	launch(t, process, log)
	go func() {
		defer close(r.ended)
		_ = process.Wait()
	}()
	t.Cleanup(func() {
		_ = process.Process.Kill()
		<-r.ended
	})
	start := time.Now()
	cluster.Eventually(t, 5*patience, func() error {
		select {
		case <-r.ended:
			t.Fatalf("the runtime has ended; its log is %s", log)
		default:
		}
		return r.ask(http.MethodGet, "/participants", nil, &[]any{})
	})
	t.Logf("the runtime answers after %s", time.Since(start).Round(time.Second))
	return r
}

const databaseUser = "policy"

// newDatabase starts a PostgreSQL in a temporary folder, with an empty database for the runtime, and says at which port.
func newDatabase(t *testing.T) (port any) {
	t.Helper()
	// t.TempDir is closed to other users.
	dir, err := os.MkdirTemp("", "mlkeeper-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	port = ports[0]
	as := unprivileged(t, dir)
	program := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(os.Getenv("POSTGRES_BIN"), name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := program("initdb", "-D", data, "-U", databaseUser, "--auth=trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := program("postgres", "-D", data, "-h", "127.0.0.1", "-p", fmt.Sprint(port), "-k", "", "-F")
	launch(t, server, filepath.Join(dir, "log"))
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT)
		_ = server.Wait()
	})
	cluster.Eventually(t, patience, func() error {
		out, err := program("createdb", "-h", "127.0.0.1", "-p", fmt.Sprint(port), "-U", databaseUser, "clampacm").CombinedOutput()
		if err != nil {
			return fmt.Errorf("createdb: %w: %s", err, out)
		}
		return nil
	})
	return port
}

// unprivileged is who runs PostgreSQL, which refuses to be root's: the user that its packages make. The folder becomes his.
func unprivileged(t *testing.T, folder string) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		t.Fatalf("PostgreSQL does not run as root: %v", err)
	}
	uid, err := strconv.Atoi(postgres.Uid)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.Atoi(postgres.Gid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(folder, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// errRefused is that the runtime answers with another status than 2xx.
var errRefused = errors.New("the runtime refuses")

// ask makes a request of the REST API. Bodies are JSON; nil is none.
func (r *realACM) ask(method, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.SetBasicAuth(acmUser, acmPassword)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode/100 != 2:
		return fmt.Errorf("%w: %s %s: %s: %s", errRefused, method, path, response.Status, text)
	case answer == nil:
		return nil
	}
	return json.Unmarshal(text, answer)
}

// record writes what was said on both topics into a file, in the order of time, as the recordings in test/testdata have it.
func (r *realACM) record(file string) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.kafka.plain), kgo.ConsumeTopics(topic, acmruntime.SyncTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	var said []*kgo.Record
	for quiet := 0; quiet < 3; quiet++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		client.PollFetches(ctx).EachRecord(func(one *kgo.Record) {
			said, quiet = append(said, one), 0
		})
		cancel()
	}
	slices.SortStableFunc(said, func(a, b *kgo.Record) int { return a.Timestamp.Compare(b.Timestamp) })
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	for _, one := range said {
		if err := lines.Encode(map[string]any{"topic": one.Topic, "message": json.RawMessage(one.Value)}); err != nil {
			r.t.Errorf("%s has %q: %v", one.Topic, one.Value, err)
		}
	}
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		r.t.Error(err)
	}
}

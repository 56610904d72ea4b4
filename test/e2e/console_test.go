package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"mlkeeper.dev/config/crd"
	"mlkeeper.dev/internal/cli"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/trustyai"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

// openConsole runs mlkeeper console with a kubeconfig until the test ends, and returns where it serves and the token of the page.
func openConsole(t *testing.T, kubeconfig string) (address, token string) {
	t.Helper()
	connection := &cli.Connection{}
	flags := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	connection.Bind(flags)
	if err := flags.Set("kubeconfig", kubeconfig); err != nil {
		t.Fatal(err)
	}
	cmd := cli.NewConsoleCommand(cli.Environment{
		Connection: connection, Definitions: crd.Definitions, Now: time.Now,
		Controllers: func() []controller.Any {
			settings := trustyai.Settings{Image: trustyai.DefaultImage, ProxyImage: trustyai.DefaultProxyImage, DryRun: true}
			return []controller.Any{controller.Erase(trustyai.Definition(), trustyai.New(settings))}
		},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	out, in := io.Pipe()
	ended := make(chan error, 1)
	cmd.SetOut(in)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{"--no-open"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	go func() {
		err := cmd.ExecuteContext(ctx)
		in.CloseWithError(io.EOF)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the console ended with %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the console prints no address: %v", err)
	}
	address, code, _ := strings.Cut(strings.TrimSpace(line), "/#")
	body, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(address+"/api/session", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct{ Token string }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Token == "" {
		t.Fatalf("no token: %v", err)
	}
	return address, answer.Token
}

// look opens a stream of the console until the test ends, and returns when it has had a row that begins with a text.
func look(t *testing.T, address, token, path, row string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	found := make(chan error, 1)
	go func() {
		defer func() { found <- fmt.Errorf("%s: the stream ended", path) }()
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		for told := false; lines.Scan(); {
			if !told && strings.Contains(lines.Text(), `"`+row) {
				told = true
				found <- nil
			}
		}
	}()
	select {
	case err := <-found:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s has no row %s", path, row)
	}
}

// TestAConsoleThatIsOpenOnlyWatches has pages open, two of them the same, on a service that is Ready and one that is not, and reads in the
// audit log what they cost: nothing but watches once they are shown.
func TestAConsoleThatIsOpenOnlyWatches(t *testing.T) {
	c := cluster.Shared(t)
	start(t, c, harness.Options{})
	s := fixture.Create(t, c, fixture.Shapes[0])
	s.AwaitReady(t, c)
	ns := c.Namespace(t)
	c.Apply(t, adr(pvName(ns)), ns)
	// The audit log has the requests of the operator's namespace.
	address, token := openConsole(t, reader(t, c, cluster.OperatorNamespace))
	began := time.Now()
	of := func(view, namespace, name string) string {
		return "/api/" + view + "?" + url.Values{"group": {gvk.Group}, "kind": {gvk.Kind}, "namespace": {namespace}, "name": {name}}.Encode()
	}
	for range 2 {
		look(t, address, token, "/api/overview", gvk.Kind)
		look(t, address, token, of("stack", s.Namespace, s.Name), "pod/")
		look(t, address, token, of("stack", ns, example), "explanation")
		look(t, address, token, of("timeline", s.Namespace, s.Name), "20")
	}
	costs := func(since time.Time) []string {
		return slices.DeleteFunc(requests(t, c, "reader", since), func(request string) bool { return strings.HasPrefix(request, "watch ") })
	}
	// What is found while the pages open is shown, and explained, first.
	cluster.Eventually(t, time.Minute, func() error {
		at := time.Now()
		time.Sleep(5 * time.Second)
		if got := costs(at); len(got) > 0 {
			return fmt.Errorf("the pages still open: %v", got)
		}
		return nil
	})
	since := time.Now()
	time.Sleep(15 * time.Second)
	opened := requests(t, c, "reader", began)
	t.Logf("since the pages were opened:\n%s", strings.Join(opened, "\n"))
	for _, request := range costs(since) {
		t.Errorf("an open page costs %s", request)
	}
	if len(opened) == 0 {
		t.Error("the audit log has nothing of the console")
	}
}

func requests(t *testing.T, c *cluster.Cluster, account string, since time.Time) []string {
	t.Helper()
	out, err := c.Requested(account, since)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"mlkeeper.dev/config"
	"mlkeeper.dev/config/crd"
	"mlkeeper.dev/internal/cli"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/internal/seldon"
	"mlkeeper.dev/internal/tfserving"
	"mlkeeper.dev/internal/trustyai"
	"mlkeeper.dev/test/cluster"
)

// check runs `mlkeeper check` and returns its exit status, and what it says by subject.
func check(t *testing.T, c *cluster.Cluster, args ...string) (status int, report map[string]cli.Check) {
	t.Helper()
	connection := &cli.Connection{}
	flags := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	connection.Bind(flags)
	if err := flags.Set("kubeconfig", c.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	cmd := cli.NewCheckCommand(cli.Environment{
		Connection: connection, Definitions: crd.Definitions, Manifests: config.Manifests, Now: time.Now,
		Controllers: func() []controller.Any {
			return []controller.Any{
				controller.Erase(trustyai.Definition(), trustyai.New(trustyai.Settings{})),
				controller.Erase(tfserving.Definition(), tfserving.New(tfserving.Settings{})),
				controller.Erase(kubeflow.Definition(), kubeflow.New(kubeflow.Settings{})),
				controller.Erase(seldon.Definition(), seldon.New(seldon.Settings{})),
			}
		},
	})
	var text bytes.Buffer
	cmd.SetOut(&text)
	cmd.SetErr(&text)
	cmd.SetArgs(append(args, "-o", "json"))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	var exit *cli.Exit
	switch {
	case errors.As(err, &exit):
		status = exit.Status
	case err != nil:
		t.Fatalf("check %v: %v", args, err)
	}
	var all cli.CheckReport
	if err := json.Unmarshal(text.Bytes(), &all); err != nil {
		t.Fatalf("check %v: %v\n%s", args, err, &text)
	}
	report = map[string]cli.Check{}
	for _, one := range all.Checks {
		report[one.Subject] = one
	}
	return status, report
}

// checksAlike: before an installation, check says what make does, and finds a problem only where make installs nothing.
func checksAlike(t *testing.T, c *cluster.Cluster, definition string, refused bool) {
	t.Helper()
	status, report := check(t, c, "--pre")
	want := "change"
	if refused {
		want = "problem"
	}
	if got := report[definition]; got.State != want || got.Definition.Stands != "Foreign" || (status != 0) != refused {
		t.Errorf("check --pre ends with %d and says %+v, %+v", status, got, got.Definition)
	}
	if got := report["rights"]; got.State != "ok" {
		t.Errorf("check --pre says of an administrator's rights: %+v", got)
	}
}

// checksWell: after a deployment, check finds no problem: the definitions, the rights and the manager are those of this release.
func checksWell(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	cluster.Eventually(t, time.Minute, func() error {
		status, report := check(t, c)
		if status != 0 || report["ClusterRole mlkeeper-trustyai"].State != "ok" || report[tasDefinition].Definition == nil || report[tasDefinition].Definition.Stands != "Current" {
			return fmt.Errorf("check ends with %d: %+v", status, report)
		}
		return nil
	})
	if status, report := check(t, c, "--pre"); status != 0 || report[tasDefinition].State != "ok" {
		t.Errorf("check --pre ends with %d: %+v", status, report)
	}
}

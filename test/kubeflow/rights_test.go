package kubeflow

import (
	"bytes"
	"testing"
	"time"

	"mlkeeper.dev/config/crd"
	"mlkeeper.dev/internal/cli"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/test/cluster"
)

// account is the ServiceAccount with whose rights a KfDef is applied.
const account = "mlkeeper"

// asAccount are the settings of an operator whose KfDefs act as the ServiceAccount of their namespace.
var asAccount = kubeflow.Settings{DefaultServiceAccount: account}

// grantLeast applies what `mlkeeper rbac -f` prints for a KfDef, and nothing else: the ServiceAccount with the least rights, and those of the
// operator to use it.
func grantLeast(t *testing.T, c *cluster.Cluster, a archives, manifest string, args ...string) {
	t.Helper()
	settings := asAccount
	settings.Sources, settings.DryRun = a.store, true
	connection := &cli.Connection{}
	cmd := cli.NewRBACCommand(cli.Environment{
		Connection: connection, Definitions: crd.Definitions, Now: time.Now,
		Controllers: func() []controller.Any {
			return []controller.Any{controller.Erase(kubeflow.Definition(), kubeflow.New(settings))}
		},
	})
	var out, problems bytes.Buffer
	cmd.SetIn(bytes.NewBufferString(manifest))
	cmd.SetOut(&out)
	cmd.SetErr(&problems)
	connection.Bind(cmd.Flags())
	cmd.SetArgs(append([]string{"-f", "-"}, args...))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, problems.String())
	}
	c.Apply(t, out.String())
}

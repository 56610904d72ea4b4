package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Make runs make in a tree of the repository against the cluster, and returns what it printed. Its kubectl is told the folder of the cluster,
// not the kubeconfig, since only then does it keep what it discovers with the cluster.
func (c *Cluster) Make(t testing.TB, tree string, args ...string) (string, error) {
	t.Helper()
	devcluster, err := Binary()
	if err != nil {
		return "", err
	}
	kubectl := filepath.Join(t.TempDir(), "kubectl")
	script := fmt.Sprintf("#!/bin/sh\nexec %q kubectl --dir=%q \"$@\"\n", devcluster, c.Dir)
	if err := os.WriteFile(kubectl, []byte(script), 0o755); err != nil {
		return "", err
	}
	return run(t, nil, append([]string{"make", "-C", tree, "KUBECTL=" + kubectl}, args...)...)
}

// Helm runs the helm that the variable HELM names against a namespace of the cluster, with settings of its own, and returns what it printed.
// Of the variables, KUBECACHEDIR is where it keeps what it discovers, by host and port, as kubectl does.
func (c *Cluster) Helm(t testing.TB, namespace string, args ...string) (string, error) {
	t.Helper()
	var settings []string
	for _, name := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECACHEDIR"} {
		settings = append(settings, name+"="+t.TempDir())
	}
	return run(t, settings, append(append([]string{os.Getenv("HELM")}, args...), "--namespace", namespace, "--kubeconfig", c.Kubeconfig)...)
}

// run runs a program to its end, in cleanups too, whose context is over.
func run(t testing.TB, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s: %v", strings.Join(args, " "), err)
	return string(out), err
}

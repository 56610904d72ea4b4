package cli

import (
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestKubectlCallSeparatesTheArguments(t *testing.T) {
	t.Setenv(dirEnv, "env")
	for _, tc := range []struct {
		args, rest []string
		dir        string
		ok         bool
	}{
		{[]string{"kubectl", "get", "pods"}, []string{"get", "pods"}, "env", true},
		{[]string{"--dir", "d", "kubectl", "get"}, []string{"get"}, "d", true},
		{[]string{"kubectl", "--dir=d", "get", "--dir", "x"}, []string{"get", "--dir", "x"}, "d", true},
		{[]string{"up", "kubectl"}, nil, "", false},
		{nil, nil, "", false},
	} {
		dir, rest, ok := kubectlCall(tc.args)
		if dir != tc.dir || ok != tc.ok || !slices.Equal(rest, tc.rest) {
			t.Errorf("%v: got %q %v %t", tc.args, dir, rest, ok)
		}
	}
}

// The supervisor of a detached cluster must get exactly what up was given.
func TestUpFlagsSurviveTheHandOver(t *testing.T) {
	parse := func(args []string) upFlags {
		t.Helper()
		flags := &upFlags{}
		var dir string
		cmd := &cobra.Command{}
		flags.register(cmd)
		cmd.Flags().StringVar(&dir, "dir", "/d", "")
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if err := flags.complete(dir); err != nil {
			t.Fatal(err)
		}
		return *flags
	}
	want := parse([]string{
		"--port=1234", "--nodes=4", "--node-size=cpu=2,pods=9", "--crds=route,istio", "--fsync",
		"--audit-log=/a", "--audit-group=g", "--no-stand-in", "--timeout=9s", "--kubeconfig=/k",
	})
	if !want.opts.Spec.Fsync || want.opts.Timeout != 9*time.Second {
		t.Errorf("flags are lost: %+v", want.opts)
	}
	got := parse(want.args()[1:])
	if !slices.Equal(got.args(), want.args()) {
		t.Errorf("got %v\nwant %v", got.args(), want.args())
	}
}

func TestOnlyLocalKubectlCommandsRunWithoutACluster(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want bool
	}{
		{[]string{"get", "pods"}, true},
		{[]string{"kustomize", "."}, false},
		{[]string{"version", "--client"}, false},
		{[]string{"get", "pods", "--kubeconfig=x"}, false},
	} {
		if got := needsCluster(tc.args); got != tc.want {
			t.Errorf("%v: got %t", tc.args, got)
		}
	}
}

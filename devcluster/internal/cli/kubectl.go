package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways a foreign kubeconfig may log in
	componentcli "k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	"mlkeeper.dev/devcluster/internal/cluster"
	"mlkeeper.dev/devcluster/internal/version"
)

// kubectlCall recognises a call of kubectl and separates our --dir, which may
// stand before or directly after the word, from kubectl's own arguments. These
// never go through cobra twice, since the two would fight over the flags.
func kubectlCall(args []string) (dir string, rest []string, ok bool) {
	dir = defaultDir()
	rest = takeDir(args, &dir)
	if len(rest) == 0 || rest[0] != "kubectl" {
		return "", nil, false
	}
	return dir, takeDir(rest[1:], &dir), true
}

// takeDir consumes leading --dir flags.
func takeDir(args []string, dir *string) []string {
	for len(args) > 0 {
		if value, ok := strings.CutPrefix(args[0], "--dir="); ok {
			*dir, args = value, args[1:]
			continue
		}
		if args[0] == "--dir" && len(args) > 1 {
			*dir, args = args[1], args[2:]
			continue
		}
		break
	}
	return args
}

// runKubectl becomes kubectl, with the cluster's kubeconfig as its default.
func runKubectl(dir string, args []string) int {
	abs, err := absolute(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		return 1
	}
	version.Stamp()
	st, err := cluster.ReadState(abs)
	switch {
	case err == nil:
		if err := pointAt(st); err != nil {
			fmt.Fprintln(os.Stderr, "devcluster:", err)
			return 1
		}
	case needsCluster(args):
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		return 1
	}
	os.Args = append([]string{"kubectl"}, args...)
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := componentcli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		// CheckErr prints the error as kubectl does and exits with its code.
		util.CheckErr(err)
	}
	return 0
}

// pointAt makes a cluster kubectl's default. The cache of discovery is the cluster's
// own: kubectl files it by host and port for six hours, and a port that was another
// cluster's yesterday would bring the APIs of that one.
func pointAt(st cluster.State) error {
	if err := os.Setenv("KUBECONFIG", st.Kubeconfig); err != nil {
		return err
	}
	return os.Setenv("KUBECACHEDIR", cluster.CacheDir(st.Dir))
}

// needsCluster says whether a call makes no sense without a cluster. Without
// one, only the local commands run: nobody's other kubeconfig is ever used.
func needsCluster(args []string) bool {
	for _, a := range args {
		switch {
		case a == "--kubeconfig" || strings.HasPrefix(a, "--kubeconfig="):
			return false
		case a == "kustomize" || a == "help" || a == "completion" || a == "--client" || a == "--help" || a == "-h":
			return false
		}
	}
	return len(args) > 0
}

// newKubectlHelp shows kubectl in the help; Main takes every real call.
func newKubectlHelp() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl ...",
		Short:              "Run kubectl against the cluster",
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("give --dir directly before or after the word kubectl")
		},
	}
}

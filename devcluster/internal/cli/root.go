package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"mlkeeper.dev/devcluster/internal/catalog"
	"mlkeeper.dev/devcluster/internal/cluster"
	"mlkeeper.dev/devcluster/internal/component"
	"mlkeeper.dev/devcluster/internal/enclosure"
)

// dirEnv names the state directory for callers that do not want to repeat --dir.
const dirEnv = "DEVCLUSTER_DIR"

// defaultDir is where a cluster lives unless told otherwise.
func defaultDir() string {
	if dir := os.Getenv(dirEnv); dir != "" {
		return dir
	}
	return ".devcluster"
}

// Main runs the command line and returns the exit code.
func Main(args []string) int {
	if dir, rest, ok := kubectlCall(args); ok {
		return runKubectl(dir, rest)
	}
	// The control plane registers dozens of flags for the whole process, and
	// cobra would list them in our help.
	pflag.CommandLine = pflag.NewFlagSet("devcluster", pflag.ContinueOnError)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	cmd := newRoot()
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(ctx); err != nil {
		if enclosed := new(enclosure.ExitError); errors.As(err, &enclosed) {
			// It has said why.
			return enclosed.Code
		}
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	var dir string
	root := &cobra.Command{
		Use:   "devcluster",
		Short: "A real Kubernetes control plane with simulated nodes, in one binary",
		Long: "devcluster runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler " + component.Loopback + `-only,
with simulated kubelets and a stand-in for third-party controllers. With --node=real, pods
run: a kubelet and the machine's containerd, in namespaces of their own.

  devcluster up --detach          boot a cluster and return
  devcluster kubectl get nodes    use it
  devcluster stop kube-apiserver  break it
  devcluster down                 remove it`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&dir, "dir", defaultDir(), "state directory of the cluster; also "+dirEnv)
	root.AddCommand(
		newUp(&dir), newSupervise(), newDown(&dir), newStatus(&dir),
		newStop(&dir), newStart(&dir), newCRDs(&dir), newImage(&dir), newKubectlHelp(),
	)
	return root
}

// absolute resolves the directory once, since children run elsewhere.
func absolute(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("--dir is empty; name a directory or leave the flag out")
	}
	return filepath.Abs(dir)
}

func newDown(dir *string) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster and remove its data",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := absolute(*dir)
			if err != nil {
				return err
			}
			err = cluster.NewClient(d).Down(cmd.Context(), keep)
			if errors.Is(err, fs.ErrNotExist) {
				// Asking twice for the same end is no error.
				fmt.Fprintln(cmd.ErrOrStderr(), "there is no devcluster in", d)
				return nil
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the data, so that `up` continues with it")
	return cmd
}

func newStatus(dir *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the components; exits 1 unless all of them are healthy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := absolute(*dir)
			if err != nil {
				return err
			}
			st, err := cluster.NewClient(d).Status(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				err = enc.Encode(st)
			} else {
				err = printStatus(cmd, st)
			}
			if err != nil {
				return err
			}
			for _, c := range st.Components {
				if !c.Healthy {
					return fmt.Errorf("%s is not healthy; read %s, or `devcluster start %s`", c.Name, c.Log, c.Name)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for the whole state")
	return cmd
}

func printStatus(cmd *cobra.Command, st cluster.State) error {
	fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  supervisor %d  %s\nkubeconfig %s\n\n",
		st.Phase, st.Server, st.PID, st.KubernetesVersion, st.Kubeconfig)
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tSTATE\tPID\tPORT\tHEALTHY\tEXIT")
	for _, c := range st.Components {
		pid := "-"
		if c.PID != 0 {
			pid = fmt.Sprint(c.PID)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%t\t%s\n", c.Name, c.State, pid, c.Port, c.Healthy, c.Exit)
	}
	return w.Flush()
}

func newStop(dir *string) *cobra.Command {
	var kill bool
	cmd := &cobra.Command{
		Use:       "stop COMPONENT",
		Short:     "Stop one component (" + strings.Join(component.Names, ", ") + ")",
		Args:      cobra.ExactArgs(1),
		ValidArgs: component.Names,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := absolute(*dir)
			if err != nil {
				return err
			}
			return cluster.NewClient(d).Stop(cmd.Context(), args[0], kill)
		},
	}
	cmd.Flags().BoolVar(&kill, "kill", false, "send SIGKILL instead of SIGTERM")
	return cmd
}

func newStart(dir *string) *cobra.Command {
	wait := true
	cmd := &cobra.Command{
		Use:       "start COMPONENT",
		Short:     "Start a stopped component and wait until it is healthy",
		Args:      cobra.ExactArgs(1),
		ValidArgs: component.Names,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := absolute(*dir)
			if err != nil {
				return err
			}
			return cluster.NewClient(d).Start(cmd.Context(), args[0], wait)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", true, "wait until the component is healthy")
	return cmd
}

func newCRDs(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:       "crds [NAME...]",
		Short:     "Install third-party definitions (" + strings.Join(catalog.Names(), ", ") + ", openshift, all); without names, list them",
		ValidArgs: append(catalog.Names(), catalog.OpenShift, catalog.All),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), strings.Join(catalog.Names(), "\n"))
				return nil
			}
			d, err := absolute(*dir)
			if err != nil {
				return err
			}
			st, err := cluster.ReadState(d)
			if err != nil {
				return err
			}
			config, err := clientcmd.BuildConfigFromFlags("", st.Kubeconfig)
			if err != nil {
				return err
			}
			names, err := catalog.Install(cmd.Context(), config, args)
			if err != nil {
				return err
			}
			for _, n := range names {
				fmt.Fprintln(cmd.OutOrStdout(), n)
			}
			return nil
		},
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mlkeeper.dev/devcluster/internal/catalog"
	"mlkeeper.dev/devcluster/internal/cluster"
)

// superviseName is the hidden command of the supervisor that --detach leaves.
const superviseName = "__supervise"

// upFlags are the flags of up, shared with the supervisor that it may start.
type upFlags struct {
	opts cluster.Options
	node string
	size map[string]string
	// announce lets a supervisor print what up prints at its end.
	announce bool
}

// Kinds of nodes.
const (
	nodeSimulated = "simulated"
	nodeReal      = "real"
)

func (f *upFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.opts.Kubeconfig, "kubeconfig", "", "where to write the admin's kubeconfig (default <dir>/kubeconfig)")
	flags.IntVar(&f.opts.Port, "port", 0, "port of the API server (default: a free one)")
	flags.StringVar(&f.node, "node", nodeSimulated,
		"simulated (pods do not run), or real (kubelet and containerd; needs root and Debian's packages)")
	flags.IntVar(&f.opts.Nodes, "nodes", 3, "number of simulated nodes")
	flags.StringToStringVar(&f.size, "node-size", map[string]string{"cpu": "16", "memory": "64Gi", "pods": "110"},
		"what a simulated node has; the second one has a GPU besides, and the third one two")
	flags.StringSliceVar(&f.opts.CRDs, "crds", nil,
		"third-party definitions to install: "+strings.Join(catalog.Names(), ",")+", openshift, or all")
	flags.BoolVar(&f.opts.Spec.Fsync, "fsync", false, "let etcd write through to the disk; for fault tests of storage")
	flags.StringVar(&f.opts.Spec.AuditLog, "audit-log", "", "file for one line of metadata per request")
	flags.StringVar(&f.opts.Spec.AuditGroup, "audit-group", "", "group whose users' requests are in the audit log (default: everybody's)")
	flags.BoolVar(&f.opts.Spec.NoStandIn, "no-stand-in", false, "do not play third-party controllers")
	flags.DurationVar(&f.opts.Timeout, "timeout", 3*time.Minute, "limit of the boot")
}

// complete resolves paths and checks what can be checked before anything runs.
func (f *upFlags) complete(dir string) error {
	var err error
	if f.opts.Spec.Dir, err = absolute(dir); err != nil {
		return err
	}
	if f.opts.Nodes < 0 {
		return fmt.Errorf("--nodes is %d; give 0 or more", f.opts.Nodes)
	}
	if f.opts.Port < 0 || f.opts.Port > 65535 {
		return fmt.Errorf("--port is %d; give a port up to 65535, or 0 for a free one", f.opts.Port)
	}
	switch f.node {
	case nodeSimulated:
	case nodeReal:
		f.opts.Spec.RealNode, f.opts.Nodes = true, 1
	default:
		return fmt.Errorf("--node is %q; give %s or %s", f.node, nodeSimulated, nodeReal)
	}
	f.opts.NodeSize = corev1.ResourceList{}
	for name, text := range f.size {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("--node-size: %s is %q: %w", name, text, err)
		}
		f.opts.NodeSize[corev1.ResourceName(name)] = quantity
	}
	for _, path := range []*string{&f.opts.Kubeconfig, &f.opts.Spec.AuditLog} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	f.opts.CRDs, err = catalog.Resolve(f.opts.CRDs)
	return err
}

// args renders the flags for the supervisor.
func (f *upFlags) args() []string {
	o := f.opts
	args := []string{
		superviseName, "--node=" + f.node, "--dir=" + o.Spec.Dir, "--kubeconfig=" + o.Kubeconfig,
		fmt.Sprintf("--port=%d", o.Port), fmt.Sprintf("--nodes=%d", o.Nodes),
		fmt.Sprintf("--fsync=%t", o.Spec.Fsync), "--audit-log=" + o.Spec.AuditLog, "--audit-group=" + o.Spec.AuditGroup,
		fmt.Sprintf("--no-stand-in=%t", o.Spec.NoStandIn), fmt.Sprintf("--timeout=%s", o.Timeout),
	}
	for _, name := range slices.Sorted(maps.Keys(f.size)) {
		args = append(args, "--node-size="+name+"="+f.size[name])
	}
	if len(o.CRDs) > 0 {
		args = append(args, "--crds="+strings.Join(o.CRDs, ","))
	}
	return args
}

func newUp(dir *string) *cobra.Command {
	flags := &upFlags{}
	var detach bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Boot a cluster; ends it on Ctrl-C, or leaves it running with --detach",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.complete(*dir); err != nil {
				return err
			}
			if detach {
				return detached(cmd.Context(), flags, cmd.OutOrStdout())
			}
			flags.announce = true
			return flags.run(cmd)
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&detach, "detach", false, "return when the cluster is healthy and leave it running")
	return cmd
}

// run boots the cluster and supervises it, in an enclosure where its node is a
// real one.
func (f *upFlags) run(cmd *cobra.Command) error {
	if f.opts.Spec.RealNode && f.opts.Outside == 0 {
		return cluster.RunEnclosed(cmd.Context(), f.opts, func(o cluster.Options) []string {
			inner := *f
			inner.opts = o
			return append(inner.args(), fmt.Sprintf("--outside=%d", o.Outside), fmt.Sprintf("--announce=%t", f.announce))
		})
	}
	f.opts.Out = cmd.OutOrStdout()
	return cluster.Run(cmd.Context(), f.opts, func(st cluster.State) {
		if f.announce {
			printReady(cmd.OutOrStdout(), st)
			fmt.Fprintln(cmd.OutOrStdout(), "Ctrl-C stops the cluster; `devcluster down` removes its data")
		}
	})
}

func printReady(w io.Writer, st cluster.State) {
	fmt.Fprintf(w, "export KUBECONFIG=%s\n", st.Kubeconfig)
}

// newSupervise is what --detach leaves behind: up, without a terminal.
func newSupervise() *cobra.Command {
	flags := &upFlags{}
	var dir string
	cmd := &cobra.Command{
		Use:    superviseName,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.complete(dir); err != nil {
				return err
			}
			return flags.run(cmd)
		},
	}
	flags.register(cmd)
	// Shadows the persistent flag, so that the value is always an explicit one.
	cmd.Flags().StringVar(&dir, "dir", "", "state directory")
	cmd.Flags().IntVar(&flags.opts.Outside, "outside", 0, "process that made the enclosure of this one")
	cmd.Flags().BoolVar(&flags.announce, "announce", false, "say when the cluster is healthy")
	return cmd
}

// detached starts a supervisor without a terminal, shows its progress and
// returns when the cluster is healthy or the supervisor has given up.
func detached(ctx context.Context, flags *upFlags, out io.Writer) error {
	dir := flags.opts.Spec.Dir
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
		return fmt.Errorf("creating the state directory: %w; choose another one with --dir", err)
	}
	// Each supervisor has a log of its own until it has the lock: a second up
	// must not write into the log of the first.
	log, err := os.CreateTemp(filepath.Join(dir, "logs"), "boot-*.log")
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command("/proc/self/exe", flags.args()...)
	cmd.Args[0] = "devcluster"
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // Why it ended is in its log.
		close(done)
	}()
	return follow(ctx, flags, out, log.Name(), cmd.Process, done)
}

// follow copies the supervisor's progress until the boot is over.
func follow(ctx context.Context, flags *upFlags, out io.Writer, log string, sup *os.Process, done <-chan struct{}) error {
	progress, err := os.Open(log)
	if err != nil {
		return err
	}
	defer func() { _ = progress.Close() }()
	for {
		select {
		case <-done:
			rest, _ := io.ReadAll(progress)
			_ = os.Remove(log)
			lines, message, found := strings.Cut(string(rest), "devcluster: ")
			_, _ = fmt.Fprint(out, lines)
			if found {
				return errors.New(strings.TrimSpace(message))
			}
			return errors.New("the supervisor ended before the cluster was healthy; run `devcluster up` without --detach to see why")
		case <-ctx.Done():
			// Whoever interrupts the boot does not want the cluster.
			_ = sup.Signal(syscall.SIGTERM)
			<-done
			return errors.New("interrupted; the cluster was stopped")
		case <-time.After(20 * time.Millisecond):
		}
		_, _ = io.Copy(out, progress)
		st, err := cluster.ReadState(flags.opts.Spec.Dir)
		if err == nil && st.PID == sup.Pid && st.Phase == cluster.PhaseHealthy {
			_, _ = io.Copy(out, progress)
			printReady(out, st)
			return os.Rename(log, filepath.Join(filepath.Dir(log), "supervisor.log"))
		}
	}
}

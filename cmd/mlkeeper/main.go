// Command mlkeeper is MLKeeper: the operator itself (mlkeeper manager), and the commands that show what it would do and
// what it did. It holds flags and wiring only; the logic is in internal/engine, the controllers and internal/cli.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	_ "golang.org/x/crypto/x509roots/fallback" // an image of nothing but this binary has no root certificates
	"k8s.io/client-go/rest"

	"mlkeeper.dev/config"
	"mlkeeper.dev/config/crd"
	"mlkeeper.dev/internal/cli"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/version"
)

func main() {
	os.Exit(run())
}

// run ends every command on the first signal. The manager has a handler of its own for an orderly shutdown.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root := newRootCommand()
	callAs(root, os.Args[0])
	return report(root.ErrOrStderr(), root.ExecuteContext(ctx))
}

// report prints what went wrong and gives the exit status: 1, unless a command chose another one.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	status := 1
	var exit *cli.Exit
	if errors.As(err, &exit) {
		status = exit.Status
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(stderr, "mlkeeper: "+cli.CleanLines(text))
	}
	return status
}

// connection tells which cluster is meant and how to print; all commands share its flags.
type connection struct {
	*cli.Connection
	terminal *cli.Terminal
}

func (c connection) config() (*rest.Config, error) { return c.Config() }

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "mlkeeper",
		Short:         "Keep machine-learning serving systems in the state their owners declared",
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	connect := connection{&cli.Connection{}, &cli.Terminal{}}
	connect.Bind(root.PersistentFlags())
	connect.terminal.Bind(root.PersistentFlags())
	// It fails for a flag that does not exist.
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(
		newManagerCommand(connect),
		newParticipantCommand(connect),
		withSettings(connect, cli.NewRenderCommand, true),
		withSettings(connect, cli.NewDiffCommand, true),
		withSettings(connect, cli.NewStatusCommand, false),
		withSettings(connect, cli.NewTreeCommand, false),
		withSettings(connect, cli.NewWaitCommand, false),
		withSettings(connect, cli.NewExplainCommand, false),
		withSettings(connect, cli.NewEventsCommand, false),
		withSettings(connect, cli.NewLogsCommand, false),
		withSettings(connect, cli.NewConsoleCommand, true),
		withSettings(connect, cli.NewSuspendCommand, false),
		withSettings(connect, cli.NewResumeCommand, false),
		withSettings(connect, cli.NewReconcileCommand, false),
		withSettings(connect, cli.NewUnwireCommand, false),
		withSettings(connect, cli.NewInstallCommand, false),
		withSettings(connect, cli.NewCheckCommand, false),
		withSettings(connect, cli.NewHandBackCommand, false),
		withSettings(connect, cli.NewRBACCommand, true),
		newMonitoringCommand(),
		cli.NewConvertCommand(),
		cli.NewVersionCommand(),
		newOptionsCommand(root),
	)
	checkFlagsOf(root.Commands())
	return root
}

// callAs has the program speak of itself as it was called: kubectl runs a file kubectl-mlkeeper as kubectl mlkeeper.
func callAs(root *cobra.Command, file string) {
	if strings.HasPrefix(filepath.Base(file), "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl mlkeeper"}
	}
}

// newOptionsCommand is `mlkeeper options`, which lists the flags that all commands have.
func newOptionsCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags that all commands have",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := pflag.NewFlagSet("options", pflag.ContinueOnError)
			root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
				shown := *f
				shown.Hidden = false
				all.AddFlag(&shown)
			})
			_, err := fmt.Fprint(cmd.OutOrStdout(), all.FlagUsages())
			return err
		},
	}
}

// withSettings makes a command whose controllers have the settings of the manager: those of its own flags where it renders, so
// that it renders alike, and else the defaults, which do not matter to it.
func withSettings(connect connection, create func(cli.Environment) *cobra.Command, flags bool) *cobra.Command {
	var s settings
	env := cli.Environment{
		Connection:  connect.Connection,
		Controllers: func() []controller.Any { return controllers(s) },
		Definitions: crd.Definitions,
		Manifests:   config.Manifests,
		Terminal:    connect.terminal,
		Now:         time.Now,
	}
	cmd := create(env)
	if flags {
		s.bind(cmd.Flags())
	} else {
		s.bind(pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError))
	}
	cli.Complete(env, cmd)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		defer s.sources.close()
		if err := s.check(); err != nil {
			return cmd.FlagErrorFunc()(cmd, err)
		}
		return run(cmd, args)
	}
	return cmd
}

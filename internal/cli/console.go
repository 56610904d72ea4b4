package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"mlkeeper.dev/internal/console"
)

// consoleFlags are the flags of `mlkeeper console`.
type consoleFlags struct {
	namespace string
	all       bool
	port      int
	noOpen    bool
	actions   bool
}

// NewConsoleCommand returns `mlkeeper console`.
func NewConsoleCommand(env Environment) *cobra.Command {
	var f consoleFlags
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Show custom resources and their objects live in the browser",
		Long: `Show custom resources and their objects live in the browser, with your rights, until the command is interrupted. Nothing is installed in
the cluster. The page is served on a loopback address, and only to who opens the address that is printed, which works once. It shows no
values of Secrets.

The cluster is read and never written, unless --allow-actions is given: then custom resources can be suspended, resumed and reconciled
from the page.`,
		Example: `  mlkeeper console
  mlkeeper console -n models --no-open --port 8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runConsole(cmd, env, f) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "show this namespace alone")
	flags.BoolVarP(&f.all, "all-namespaces", "A", true, "show all namespaces, unless one is named")
	flags.IntVar(&f.port, "port", 0, "port on the loopback address; 0 for a free one")
	flags.BoolVar(&f.noOpen, "no-open", false, "print the address without opening the browser")
	flags.BoolVar(&f.actions, "allow-actions", false, "allow to suspend, resume and reconcile from the page")
	return cmd
}

func runConsole(cmd *cobra.Command, env Environment, f consoleFlags) error {
	if f.port < 0 || f.port > 65535 {
		return fmt.Errorf("--port %d: use 0 to 65535", f.port)
	}
	namespace := f.namespace
	if namespace == "" && !f.all {
		namespace = env.Connection.namespace()
	}
	r, err := newResolver(env)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port)))
	if err != nil {
		return fmt.Errorf("listen: %w; choose another --port", err)
	}
	source := &consoleSource{resolver: r, env: env, namespace: namespace}
	var failed error
	err = console.New(cmd.Context(), source, f.actions).Serve(cmd.Context(), listener, func(address string) {
		// The address alone is on standard output, for scripts.
		failed = errors.Join(
			printLines(cmd.ErrOrStderr(), "The console is at this address, which works once. Interrupt the command to end it."),
			printLines(cmd.OutOrStdout(), address))
		if !f.noOpen {
			openBrowser(cmd.Context(), address)
		}
	})
	return errors.Join(failed, err)
}

// openBrowser opens an address. Where there is no browser, the address that was printed is enough.
func openBrowser(ctx context.Context, address string) {
	program, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return
		}
	}
	_ = exec.CommandContext(context.WithoutCancel(ctx), program, args...).Start()
}

// consoleSource shows a cluster with the rights of who runs the command.
type consoleSource struct {
	*resolver
	env       Environment
	namespace string
}

// About implements console.Source.
func (s *consoleSource) About(ctx context.Context) any {
	name, server := s.env.Connection.names()
	scope := "all namespaces"
	if s.namespace != "" {
		scope = "namespace " + s.namespace
	}
	return map[string]string{"context": Clean(name), "server": Clean(server), "user": Clean(s.whoami(ctx)), "scope": Clean(scope)}
}

// whoami asks the API server for the user; empty where it does not tell.
func (s *consoleSource) whoami(ctx context.Context) string {
	gvr := schema.GroupVersionResource{Group: authenticationv1.GroupName, Version: "v1", Resource: "selfsubjectreviews"}
	asked := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": "SelfSubjectReview",
	}}
	var api dynamic.ResourceInterface = s.dynamic.Resource(gvr)
	answer, err := api.Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	user, _, _ := unstructured.NestedString(answer.Object, "status", "userInfo", "username")
	return user
}

// Explain implements console.Source.
func (s *consoleSource) Explain(ctx context.Context, ref console.Ref) (any, error) {
	one, err := s.open(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.explain(ctx, s.env, one)
}

// open reads the custom resource that is named.
func (s *consoleSource) open(ctx context.Context, ref console.Ref) (*subject, error) {
	gk := schema.GroupKind{Group: ref.Group, Kind: ref.Kind}
	if !s.isController(gk) {
		return nil, fmt.Errorf("MLKeeper has no controller for %s", gk)
	}
	if s.namespace != "" && ref.Namespace != "" && ref.Namespace != s.namespace {
		return nil, fmt.Errorf("the console shows the namespace %s alone", s.namespace)
	}
	one, err := s.read(ctx, gk, ref.Namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	if one.live == nil {
		return nil, absent(one)
	}
	return one, nil
}

// Act implements console.Source.
func (s *consoleSource) Act(ctx context.Context, ref console.Ref, verb string) error {
	one, err := s.open(ctx, ref)
	if err != nil {
		return err
	}
	set, err := actionOf(s.env, one, verb)
	if err != nil {
		return err
	}
	return s.annotate(ctx, one, set)
}

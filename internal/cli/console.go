package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	address   string
	port      int
	noOpen    bool
	actions   bool
	// users has everybody bring a token of their own, over TLS with these files.
	users             bool
	certFile, keyFile string
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
from the page. What MLKeeper would change is compared without dry runs, unless the page asks for them by its button.

With --user-tokens, as in the component console, many users share one console: each sends a bearer token of the cluster, and the console
has no other rights. That needs TLS; only then another address than loopback is allowed.`,
		Example: `  mlkeeper console
  mlkeeper console -n models --no-open --port 8080
  mlkeeper console --user-tokens --address 0.0.0.0 --port 8443 --tls-cert-file tls.crt --tls-private-key-file tls.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runConsole(cmd, env, f) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "show this namespace alone")
	flags.BoolVarP(&f.all, "all-namespaces", "A", true, "show all namespaces, unless one is named")
	flags.StringVar(&f.address, "address", "127.0.0.1", "address to serve on; another one than loopback needs --user-tokens")
	flags.IntVar(&f.port, "port", 0, "port of the address; 0 for a free one")
	flags.BoolVar(&f.noOpen, "no-open", false, "print the address without opening the browser")
	flags.BoolVar(&f.actions, "allow-actions", false, "allow to suspend, resume and reconcile from the page")
	flags.BoolVar(&f.users, "user-tokens", false, "use the bearer token that each user sends, and no other credentials; needs TLS")
	flags.StringVar(&f.certFile, "tls-cert-file", "", "certificate in PEM; read anew when the file changes")
	flags.StringVar(&f.keyFile, "tls-private-key-file", "", "private key in PEM")
	return cmd
}

// check validates the flags.
func (f consoleFlags) check() error {
	ip := net.ParseIP(f.address)
	switch {
	case f.port < 0 || f.port > 65535:
		return fmt.Errorf("--port %d: use 0 to 65535", f.port)
	case ip == nil:
		return fmt.Errorf("--address %q: use an IP address", f.address)
	case !ip.IsLoopback() && !f.users:
		return fmt.Errorf("--address %s: everybody who reaches it would have your rights; use --user-tokens with TLS, or a loopback address", f.address)
	case f.users != (f.certFile != "" && f.keyFile != "") || (f.certFile == "") != (f.keyFile == ""):
		return errors.New("--user-tokens, --tls-cert-file and --tls-private-key-file go together")
	}
	return nil
}

func runConsole(cmd *cobra.Command, env Environment, f consoleFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	namespace := f.namespace
	if namespace == "" && !f.all {
		namespace = env.Connection.namespace()
	}
	ctx := cmd.Context()
	server, secure, err := f.server(ctx, env, namespace)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(f.address, strconv.Itoa(f.port)))
	if err != nil {
		return fmt.Errorf("listen: %w; choose another --port", err)
	}
	note := "The console is at this address, which works once. Interrupt the command to end it."
	if f.users {
		note = "The console is at this address, for who has a bearer token of the cluster. Interrupt the command to end it."
	}
	var failed error
	err = server.Serve(ctx, listener, secure, func(address string) {
		// The address alone is on standard output, for scripts.
		failed = errors.Join(printLines(cmd.ErrOrStderr(), note), printLines(cmd.OutOrStdout(), address))
		if !f.noOpen && !f.users {
			openBrowser(ctx, address)
		}
	})
	return errors.Join(failed, err)
}

// server makes the server: for you, with your credentials, or for all users, with theirs.
func (f consoleFlags) server(ctx context.Context, env Environment, namespace string) (*console.Server, *tls.Config, error) {
	if !f.users {
		r, err := newResolver(env)
		if err != nil {
			return nil, nil, err
		}
		return console.New(ctx, newConsoleSource(r, env, namespace), f.actions), nil, nil
	}
	if _, err := tls.LoadX509KeyPair(f.certFile, f.keyFile); err != nil {
		return nil, nil, fmt.Errorf("--tls-cert-file %s: %w", f.certFile, err)
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		// A certificate that was renewed is used from then on.
		pair, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
		return &pair, err
	}}
	login, err := logins(env, namespace)
	if err != nil {
		return nil, nil, err
	}
	return console.NewForUsers(ctx, login, f.actions), secure, nil
}

// logins has each user see with a token of their own. The definitions, which are megabytes, are the same for all of them.
func logins(env Environment, namespace string) (console.Login, error) {
	known, err := loadDefinitions(env.Definitions)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, token string) (string, console.Source, error) {
		theirs := env
		theirs.Connection = env.Connection.as(token)
		r, err := known.connect(theirs)
		if err != nil {
			return "", nil, unauthorized(err)
		}
		source := newConsoleSource(r, theirs, namespace)
		source.shared = true
		user, err := source.user(ctx)
		if err != nil {
			return "", nil, unauthorized(err)
		}
		return user, source, nil
	}, nil
}

// unauthorized marks an error of the API server that a new login mends.
func unauthorized(err error) error {
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%w: %w", console.ErrUnauthorized, err)
	}
	return err
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
	// shared says that many users share the process.
	shared bool
	board  board
	// comparing has an element while a comparison runs.
	comparing chan struct{}
}

func newConsoleSource(r *resolver, env Environment, namespace string) *consoleSource {
	return &consoleSource{resolver: r, env: env, namespace: namespace, comparing: make(chan struct{}, 1)}
}

// About implements console.Source.
func (s *consoleSource) About(ctx context.Context) any {
	name, server := s.env.Connection.names()
	scope := "all namespaces"
	if s.namespace != "" {
		scope = "namespace " + s.namespace
	}
	return map[string]string{
		"context": Clean(name), "server": Clean(server), "user": Clean(s.whoami(ctx)), "scope": Clean(scope), "namespace": Clean(s.namespace),
	}
}

// whoami is the user; empty where the API server does not tell.
func (s *consoleSource) whoami(ctx context.Context) string {
	user, err := s.user(ctx)
	if err != nil {
		return ""
	}
	return user
}

// user asks the API server for the user. Every user may ask by the ClusterRole system:basic-user (kubernetes plugin/pkg/auth/authorizer/rbac/
// bootstrappolicy/policy.go).
func (s *consoleSource) user(ctx context.Context) (string, error) {
	gvr := schema.GroupVersionResource{Group: authenticationv1.GroupName, Version: "v1", Resource: "selfsubjectreviews"}
	asked := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": "SelfSubjectReview",
	}}
	var api dynamic.ResourceInterface = s.dynamic.Resource(gvr)
	answer, err := api.Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("the API server does not say who you are: %w", err)
	}
	user, _, _ := unstructured.NestedString(answer.Object, "status", "userInfo", "username")
	if user == "" {
		return "", errors.New("the API server does not say who you are: its SelfSubjectReview has no user")
	}
	return user, nil
}

// open reads the custom resource that is named.
func (s *consoleSource) open(ctx context.Context, ref console.Ref) (*subject, error) {
	gk := schema.GroupKind{Group: ref.Group, Kind: ref.Kind}
	if !s.isController(gk) {
		return nil, fmt.Errorf("MLKeeper has no controller for %s", gk)
	}
	if err := s.shows(ref.Namespace); err != nil {
		return nil, err
	}
	one, err := s.read(ctx, gk, ref.Namespace, ref.Name)
	if err != nil {
		return nil, unauthorized(err)
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
	return unauthorized(s.annotate(ctx, one, set))
}

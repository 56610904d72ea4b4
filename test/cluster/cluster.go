package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeperv1alpha1 "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	tfservingv1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	trustyaiv1 "mlkeeper.dev/api/trustyai/v1"
	trustyaiv1alpha1 "mlkeeper.dev/api/trustyai/v1alpha1"
)

// Cluster is one running devcluster.
type Cluster struct {
	// Config reaches the cluster as its administrator, without a rate limit on the client's side.
	Config *rest.Config
	// Client is uncached and knows Scheme; it takes unstructured objects of any kind too.
	Client client.Client
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// Dir is the state folder of the cluster; it is removed when the cluster stops.
	Dir string

	process *process
	missing missing
	// operators are the configurations and rights of those that Operator was asked for, by ServiceAccount.
	operators struct {
		sync.Mutex
		configs map[string]*rest.Config
		rights  map[string]Rights
	}
	refusals refusals
}

// Option changes how a cluster boots.
type Option func(*settings)

type settings struct {
	flags []string
}

// WithCRDs installs third-party definitions of devcluster's catalog, such as "route" and "servicemonitor", or "all".
func WithCRDs(names ...string) Option {
	return WithFlags("--crds=" + strings.Join(names, ","))
}

// WithFlags passes further flags to "devcluster up".
func WithFlags(flags ...string) Option {
	return func(s *settings) { s.flags = append(s.flags, flags...) }
}

// Start boots a cluster of the test's own and stops it when the test ends. A cluster that cannot start fails the test, and so
// does an operator that was refused what it needs a right for.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c, err := start(opts)
	if err != nil {
		t.Fatalf("no devcluster: %v", err)
	}
	t.Cleanup(func() {
		defer c.process.stop()
		if err := errors.Join(c.Granted(), c.writeUsed()); err != nil {
			t.Error(err)
		}
	})
	c.expectUntilTheEnd(t)
	c.checkAtEnd(t, "")
	return c
}

func start(opts []Option) (*Cluster, error) {
	path, err := Binary()
	if err != nil {
		return nil, err
	}
	// The path of the control socket must be short, so the test's own temporary folder is no choice.
	dir, err := os.MkdirTemp("", "mlkeeper-")
	if err != nil {
		return nil, err
	}
	var s settings
	for _, o := range opts {
		o(&s)
	}
	c := &Cluster{Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig")}
	s.flags = append(s.flags, "--audit-log="+c.auditLog(), "--audit-group=system:serviceaccounts:"+OperatorNamespace)
	if c.process, err = launch(path, dir, s.flags); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	if err := c.connect(); err != nil {
		c.process.stop()
		return nil, err
	}
	return c, nil
}

// Connect reaches a cluster that another process started.
func Connect(kubeconfig string) (*Cluster, error) {
	c := &Cluster{Kubeconfig: kubeconfig, Dir: filepath.Dir(kubeconfig)}
	return c, c.connect()
}

func (c *Cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	c.Config = config
	c.Client, err = client.New(config, client.Options{Scheme: Scheme()})
	return err
}

// Scheme knows the kinds of Kubernetes, CustomResourceDefinitions and MLKeeper's own.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		keeperv1alpha1.AddToScheme, kubeflowv1.AddToScheme, tfservingv1alpha1.AddToScheme, trustyaiv1.AddToScheme, trustyaiv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			// Registration fails only where two Go types claim one kind, a mistake in the source.
			panic(err)
		}
	}
	return scheme
}

// shared is the cluster of the test package; it boots when a test first asks for it.
var shared struct {
	once    sync.Once
	allowed bool
	opts    []Option
	cluster *Cluster
	err     error
}

// Main is the body of a TestMain whose package shares one cluster. The cluster boots at the first call of Shared, so a
// run of unit tests alone needs none, and stops after the last test. An operator that was refused what it needs a right for
// fails the package.
func Main(m *testing.M, opts ...Option) {
	shared.allowed, shared.opts = true, opts
	code := m.Run()
	if shared.cluster != nil {
		if err := errors.Join(shared.cluster.Granted(), shared.cluster.writeUsed()); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL:", err)
			code = max(code, 1)
		}
		shared.cluster.process.stop()
	}
	os.Exit(code)
}

// Shared returns the cluster of the test package, which needs a TestMain that calls Main.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() {
		if !shared.allowed {
			shared.err = errors.New("call cluster.Main in TestMain before cluster.Shared")
			return
		}
		shared.cluster, shared.err = start(shared.opts)
	})
	if shared.err != nil {
		t.Fatalf("no devcluster: %v", shared.err)
	}
	shared.cluster.expectUntilTheEnd(t)
	return shared.cluster
}

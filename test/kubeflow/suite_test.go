package kubeflow

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/internal/source"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

const inputs = "../testdata/kubeflow"

var kfDef = kubeflowv1.GroupVersion.WithKind("KfDef")

// archives serves the archives of the real inputs in place of their original addresses.
type archives struct {
	server  *httptest.Server
	store   *source.Store
	options source.Options
}

func mirror(t *testing.T) archives {
	t.Helper()
	mux := http.NewServeMux()
	for path, file := range map[string]string{
		"/kubeflow/manifests/archive/v1.2-branch.tar.gz": "manifests-1.2.0.tar.gz",
		"/opendatahub-io/odh-manifests/tarball/master":   "odh-manifests-1.1.0.tar.gz",
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, filepath.Join(inputs, file)) })
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return archives{server: server, options: source.Options{
		Dir: t.TempDir(), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Policy: source.Policy{AllowHTTP: true},
		Map: []source.Mapping{{From: "https://github.com", To: server.URL}},
	}}.again(t)
}

// again opens the store as a process does that has just started.
func (a archives) again(t *testing.T) archives {
	t.Helper()
	if a.store != nil {
		_ = a.store.Close()
	}
	store, err := source.New(a.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	a.store = store
	return a
}

// trusting are the settings of config/components/trusted.
var trusting = kubeflow.Settings{Trusted: true}

// start runs the operator with the controller.
func start(t *testing.T, c *cluster.Cluster, a archives, opts harness.Options, settings kubeflow.Settings) *harness.Operator {
	t.Helper()
	c.InstallCRDs(t)
	opts.Verbose = testing.Verbose()
	settings.Sources = a.store
	run := harness.Controller(kubeflow.Definition(), kubeflow.New(settings))
	if settings.Trusted {
		run = harness.Trusted(run)
	}
	return harness.Start(t, c, opts, run)
}

func get(t *testing.T, c *cluster.Cluster, ns, name string) *kubeflowv1.KfDef {
	t.Helper()
	u := c.Get(t, kfDef, ns, name)
	if u == nil {
		return nil
	}
	cr := &kubeflowv1.KfDef{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cr); err != nil {
		t.Fatal(err)
	}
	return cr
}

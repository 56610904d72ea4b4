package kubeflow

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/internal/manifest/manifesttest"
	"mlkeeper.dev/internal/source"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/harness"
)

// TestWhatAnAddressNamesOutlivesItsServer deploys a file that a kustomization refers to by address, with a patch whose variable comes of a
// Secret: both are followed, and what the address gave stays when it is gone.
func TestWhatAnAddressNamesOutlivesItsServer(t *testing.T) {
	c := cluster.Start(t)
	repository, err := manifesttest.Pack(fstest.MapFS{
		"first/kustomization.yaml": {Data: []byte("resources: ['https://example.test/v1.0.0/deployed.yaml']\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var status atomic.Int32
	var elsewhere atomic.Value
	elsewhere.Store("one")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch code := status.Load(); {
		case !strings.HasSuffix(r.URL.Path, ".yaml"):
			_, _ = w.Write(repository)
		case code != 0:
			w.WriteHeader(int(code))
		default:
			_, _ = fmt.Fprintf(w, "{apiVersion: v1, kind: ConfigMap, metadata: {name: deployed}, data: {value: %s}}", elsewhere.Load())
		}
	}))
	t.Cleanup(server.Close)
	a := archives{server: server, options: source.Options{
		Dir: t.TempDir(), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Map: []source.Mapping{{From: "https://example.test", To: server.URL}},
	}}.again(t)
	ns := c.Namespace(t)
	grant(t, c, ns)
	o := start(t, c, a, harness.Options{}, kubeflow.Settings{})
	secret := func(text string) {
		t.Helper()
		c.Apply(t, "\n{apiVersion: v1, kind: Secret, metadata: {name: values}, stringData: {TEXT: "+text+"}}\n", ns)
	}
	secret("first")
	c.Apply(t, `
apiVersion: kfdef.apps.kubeflow.org/v1
kind: KfDef
metadata: {name: kf}
spec:
  rendering: Kustomize
  serviceAccountName: mlkeeper
  repos: [{name: manifests, uri: "https://example.test/manifests.tar.gz"}]
  applications:
  - name: first
    kustomizeConfig: {repoRef: {name: manifests, path: first}}
    patches: [{patch: "- {op: add, path: /data/patched, value: '${TEXT}'}", target: {kind: ConfigMap}}]
    postBuild: {substituteFrom: [{kind: Secret, name: values}]}
    commonMetadata: {labels: {team: a}}
`, ns)
	patched := func(want string) {
		t.Helper()
		cluster.Eventually(t, patience, func() error {
			o := c.Get(t, configMaps, ns, "deployed")
			if o == nil {
				return fmt.Errorf("it is not there")
			}
			if data, _ := o.Object["data"].(map[string]any); data["patched"] != want || o.GetLabels()["team"] != "a" {
				return fmt.Errorf("data %v and labels %v, want %s", data, o.GetLabels(), want)
			}
			return nil
		})
	}
	again := func(when string) {
		t.Helper()
		c.Kubectl(t, "-n", ns, "annotate", "--overwrite", "kfdef", "kf", "keeper.mlkeeper.dev/reconcile-at="+when)
	}
	value(t, c, ns, "one")
	patched("first")
	secret("second")
	patched("second")
	elsewhere.Store("two")
	again("1")
	value(t, c, ns, "two")

	status.Store(http.StatusNotFound)
	again("2")
	since := unavailable(t, c, ns, "NotFound", "stays declared", nil)
	restores(t, c, ns)
	value(t, c, ns, "two")

	// What was kept is lost, as an emptyDir with its pod.
	o.Stop()
	a.options.Dir = t.TempDir()
	a = a.again(t)
	start(t, c, a, harness.Options{}, kubeflow.Settings{})
	unavailable(t, c, ns, "NotFound", "v1.0.0/deployed.yaml", since)
	value(t, c, ns, "two")

	elsewhere.Store("three")
	status.Store(0)
	again("3")
	value(t, c, ns, "three")
	cluster.Eventually(t, patience, func() error { return ready(get(t, c, ns, "kf")) })
}

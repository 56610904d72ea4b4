package tfserv

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
	"mlkeeper.dev/test/harness"
)

const (
	seedFile = "../testdata/seeds/tfserv.yaml"
	sample   = "tfserv-sample"
)

var (
	tfserv     = v1alpha1.GroupVersion.WithKind("Tfserv")
	deployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	service    = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	configMap  = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)

func TestMain(m *testing.M) { cluster.Main(m, cluster.WithCRDs("servicemonitor", "gateway", "keda")) }

// start runs the operator with the controller.
func start(t *testing.T, c *cluster.Cluster, opts harness.Options, servers http.RoundTripper) *harness.Operator {
	t.Helper()
	c.InstallCRDs(t)
	opts.Verbose = testing.Verbose()
	return harness.Start(t, c, opts, fixture.TfservController("", servers))
}

func get(t *testing.T, c *cluster.Cluster, ns, name string) *v1alpha1.Tfserv {
	t.Helper()
	u := c.Get(t, tfserv, ns, name)
	if u == nil {
		return nil
	}
	cr := &v1alpha1.Tfserv{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cr); err != nil {
		t.Fatal(err)
	}
	return cr
}

// condition waits until a condition has a status, and a reason if one is given, for the current generation.
func condition(t *testing.T, c *cluster.Cluster, ns, name, kind string, want metav1.ConditionStatus, reason ...string) metav1.Condition {
	t.Helper()
	var got metav1.Condition
	cluster.Eventually(t, 60*time.Second, func() error {
		cr := get(t, c, ns, name)
		if cr == nil {
			return fmt.Errorf("Tfserv %s/%s does not exist", ns, name)
		}
		found := meta.FindStatusCondition(cr.Status.Conditions, kind)
		if found == nil || found.Status != want || len(reason) > 0 && found.Reason != reason[0] || cr.Status.ObservedGeneration != cr.Generation {
			return fmt.Errorf("%s is %+v at generation %d of %d", kind, found, cr.Status.ObservedGeneration, cr.Generation)
		}
		got = *found
		return nil
	})
	return got
}

// documents are the ConfigMap, the Secret and the Tfserv of the tutorial.
func documents(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(seedFile)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(raw), "\n---\n")
}

func patch(t *testing.T, c *cluster.Cluster, gvk schema.GroupVersionKind, ns, name, body string) {
	t.Helper()
	c.Kubectl(t, "-n", ns, "patch", strings.ToLower(gvk.Kind), name, "--type=merge", "-p", body)
}

func field(t *testing.T, u *unstructured.Unstructured, path ...string) any {
	t.Helper()
	v, _, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

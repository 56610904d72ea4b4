package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestMain(m *testing.M) { Main(m, WithCRDs("route")) }

func TestClusterIsUsable(t *testing.T) {
	c := Shared(t)
	if c != Shared(t) {
		t.Fatal("two clusters for one package")
	}
	c.InstallCRDs(t)
	ns := c.Namespace(t)
	c.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\n---\n---\n"+
		"apiVersion: route.openshift.io/v1\nkind: Route\nmetadata:\n  name: two\nspec:\n  to: {kind: Service, name: two}\n  port:\n    targetPort: 8080\n", ns)
	if c.Get(t, schema.GroupVersionKind{Group: "route.openshift.io", Version: "v1", Kind: "Route"}, ns, "two") == nil {
		t.Fatal("the Route is missing")
	}
	if c.Get(t, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, ns, "none") != nil {
		t.Fatal("found an object that nobody made")
	}
	if out := c.Kubectl(t, "get", "configmap", "one", "-n", ns, "-o", "name"); strings.TrimSpace(out) != "configmap/one" {
		t.Fatalf("kubectl printed %q", out)
	}
	if _, err := c.TryKubectl("get", "configmap", "none", "-n", ns); err == nil {
		t.Fatal("kubectl found what is not there")
	}
}

func TestCounterOnACluster(t *testing.T) {
	c := Shared(t)
	ns := c.Namespace(t)
	cfg, counter := WithCounter(c.Config)
	counted, err := client.New(cfg, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	before := counter.Snapshot()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "counted"}}
	if err := counted.Create(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	if err := counted.Get(t.Context(), client.ObjectKeyFromObject(cm), cm); err != nil {
		t.Fatal(err)
	}
	since := counter.Since(before)
	if since[Request{Verb: "CREATE", Resource: "configmaps"}] != 1 || since[Request{Verb: "GET", Resource: "configmaps"}] != 1 {
		t.Fatalf("counted:\n%s", Describe(since))
	}
}

func TestComponentsStopAndStart(t *testing.T) {
	c := Shared(t)
	c.StopComponent(t, "kube-controller-manager")
	ns := c.Namespace(t)
	Consistently(t, 300*time.Millisecond, func() error {
		if c.Get(t, schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, ns, "default") != nil {
			return errors.New("somebody made a ServiceAccount while the controller-manager is stopped")
		}
		return nil
	})
	c.StartComponent(t, "kube-controller-manager")
	Eventually(t, 60*time.Second, func() error {
		if c.Get(t, schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"}, ns, "default") == nil {
			return errors.New("no ServiceAccount yet")
		}
		return nil
	})
}

// TestUnboundClaimsGoWithTheirTest: a claim that waits takes any volume that the next test makes, until the namespace is gone.
func TestUnboundClaimsGoWithTheirTest(t *testing.T) {
	c := Shared(t)
	var ns string
	t.Run("first", func(t *testing.T) {
		ns = c.Namespace(t)
		c.Apply(t, "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: waits\nspec:\n  storageClassName: ''\n"+
			"  accessModes: [ReadWriteOnce]\n  resources: {requests: {storage: 1Gi}}\n", ns)
	})
	if c.Get(t, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), ns, "waits") != nil {
		t.Error("the claim is still there after its test")
	}
}

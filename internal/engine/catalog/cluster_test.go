package catalog

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mlkeeper.dev/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.catalog.example.com}
spec:
  group: catalog.example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1alpha1, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
`

var gadget = schema.GroupKind{Group: "catalog.example.com", Kind: "Gadget"}

func newCatalog(t *testing.T, cfg *rest.Config) *Catalog {
	t.Helper()
	return New(discovery.NewDiscoveryClientForConfigOrDie(cfg), dynamic.NewForConfigOrDie(cfg), testr.New(t))
}

// run starts a catalog, and checks that it leaks no goroutines when the test ends.
func run(t *testing.T, c *Catalog) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		c.Wait()
		goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
			goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"),
			goleak.IgnoreAnyFunction("net/http.(*http2clientConnReadLoop).run"),
			goleak.IgnoreAnyFunction("os/exec.(*Cmd).Start.func2"), goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"))
	})
	start, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("start: %v", err)
		}
	case <-start.Done():
		t.Fatal("the catalog does not start")
	}
}

func TestServedFollowsCRDs(t *testing.T) {
	k := cluster.Shared(t)
	c := newCatalog(t, k.Config)
	var mu sync.Mutex
	var seen []bool
	c.OnChange(func(gk schema.GroupKind, served bool) {
		if gk == gadget {
			mu.Lock()
			seen = append(seen, served)
			mu.Unlock()
			// A callback may call the catalog.
			c.Versions(gk)
		}
	})
	run(t, c)
	m, ok := c.Lookup(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	if !ok || m.Resource.Resource != "deployments" || !m.Namespaced {
		t.Fatalf("Deployment = %v, %v", m, ok)
	}
	if m, ok := c.Lookup(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}); !ok || m.Namespaced {
		t.Fatalf("Namespace = %v, %v", m, ok)
	}
	there, err := c.CRDExists(t.Context(), schema.GroupResource{Group: gadget.Group, Resource: "gadgets"})
	if there || err != nil {
		t.Fatalf("CRDExists = %v, %v before it exists", there, err)
	}
	crd := k.Apply(t, gadgets)[0]
	cluster.Eventually(t, time.Minute, func() error {
		if got := fmt.Sprint(c.Versions(gadget)); got != "[v1 v1beta1]" {
			return fmt.Errorf("versions = %s", got)
		}
		return nil
	})
	if _, ok := c.Lookup(gadget.WithVersion("v1alpha1")); ok {
		t.Fatal("a version that is not served is found")
	}
	if there, err := c.CRDExists(t.Context(), schema.GroupResource{Group: gadget.Group, Resource: "gadgets"}); !there || err != nil {
		t.Fatalf("CRDExists = %v, %v while it exists", there, err)
	}
	if err := k.Client.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, 20*time.Second, func() error {
		if v := c.Versions(gadget); len(v) != 0 {
			return fmt.Errorf("still served: %v", v)
		}
		// A callback follows what the catalog tells.
		mu.Lock()
		defer mu.Unlock()
		if len(seen) < 2 || !seen[0] || seen[len(seen)-1] {
			return fmt.Errorf("callbacks = %v", seen)
		}
		return nil
	})
}

// TestUnavailableAPIServiceIsNotServed shows that an aggregated API whose server does not respond is not served, and does not
// affect other APIs.
func TestUnavailableAPIServiceIsNotServed(t *testing.T) {
	k := cluster.Shared(t)
	k.Apply(t, `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.nowhere.example.com}
spec:
  group: nowhere.example.com
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 100
  service: {name: nowhere, namespace: default}
`)
	c := newCatalog(t, k.Config)
	run(t, c)
	if _, ok := c.Lookup(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}); !ok {
		t.Fatal("Deployment is not found")
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if s := c.apiServices["v1.nowhere.example.com"]; s == nil || s.available {
		t.Fatalf("service = %+v", s)
	}
}

func TestStartsWithoutPermissionToWatchAPIServices(t *testing.T) {
	k := cluster.Shared(t)
	meta := metav1.ObjectMeta{Name: "catalog-limited"}
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{crdResource.Group}, Resources: []string{crdResource.Resource},
			Verbs: []string{"get", "list", "watch"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "limited"}},
		},
	} {
		if err := k.Client.Create(t.Context(), o); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	cfg := rest.CopyConfig(k.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "limited", Groups: []string{"system:authenticated"}}
	c := newCatalog(t, cfg)
	run(t, c)
	if _, ok := c.Lookup(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}); !ok {
		t.Fatal("Deployment is not found")
	}
}

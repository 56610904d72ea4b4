package act

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/dynamic"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"

	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/fieldownership"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

const path = "/api/v1/namespaces/ns/configmaps/cm"

var (
	stack = plan.Stack{
		Controller: "trustyai", GVK: schema.GroupVersionKind{Group: "g.io", Version: "v1", Kind: "Thing"},
		Namespace: "ns", Name: "cr", UID: "cr-uid",
	}
	self = plan.Owner{APIVersion: "g.io/v1", Kind: "Thing", Name: "cr", UID: "cr-uid"}

	configMapGVK = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	crdGVK       = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

// catalogOnce is the catalog of all tests, since it takes a moment to start.
var catalogOnce = sync.OnceValues(func() (*catalog.Catalog, error) {
	disco := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment", Namespaced: true}}},
		{
			GroupVersion: "rbac.authorization.k8s.io/v1",
			APIResources: []metav1.APIResource{{Name: "rolebindings", Kind: "RoleBinding", Namespaced: true}},
		},
		{
			GroupVersion: "apiextensions.k8s.io/v1",
			APIResources: []metav1.APIResource{{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition"}},
		},
	}}}
	dyn := fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}: "CustomResourceDefinitionList",
		{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}:             "APIServiceList",
	})
	c := catalog.New(disco, dyn, logr.Discard())
	return c, c.Start(context.Background())
})

// memory keeps what the engine is told of its own writes.
type memory struct {
	mu      sync.Mutex
	told    []*observe.Object
	deleted []types.UID
}

func (m *memory) Wrote(_ string, o *observe.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, o)
}

func (m *memory) Deleted(_ string, _ plan.Key, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deleted = append(m.deleted, uid)
}

// cast is one actor on one API server.
type cast struct {
	*Actor
	*memory
	server *apiServer
	counts []string
	// causes are the causes of failed writes.
	causes []string
}

func newCast(t *testing.T) *cast {
	t.Helper()
	server, url := newAPIServer(t)
	client, err := dynamic.NewForConfig(&rest.Config{Host: url, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	served, err := catalogOnce()
	if err != nil {
		t.Fatal(err)
	}
	c := &cast{server: server, memory: &memory{}}
	var mu sync.Mutex
	c.Actor = &Actor{
		Client: client, Catalog: served, Memory: c.memory, Tracker: &fieldownership.Tracker{},
		Clock: testclock.NewFakePassiveClock(time.Unix(1e9, 0)), Log: logr.Discard(),
		Count: func(key plan.Key, verb decide.Verb, reason string) {
			mu.Lock()
			defer mu.Unlock()
			c.counts = append(c.counts, fmt.Sprintf("%s %s %s", verb, key.Name, reason))
		},
		CountFailed: func(_ plan.Key, cause string) {
			mu.Lock()
			defer mu.Unlock()
			c.causes = append(c.causes, cause)
		},
	}
	return c
}

func configMap(name string, data map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"data": data}}
	u.SetGroupVersionKind(configMapGVK)
	u.SetNamespace("ns")
	u.SetName(name)
	return u
}

func stamp(t *testing.T, o plan.Object) plan.Stamped {
	t.Helper()
	st, err := plan.Stamp(digest.Key{}, o, stack, self, 0)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// declared is the ConfigMap that most tests are about.
func declared(t *testing.T, change func(*plan.Object)) plan.Stamped {
	t.Helper()
	o := plan.Object{Desired: configMap("cm", map[string]any{"a": "1"})}
	if change != nil {
		change(&o)
	}
	return stamp(t, o)
}

func creates(st plan.Stamped) decide.Action {
	return decide.Action{Verb: decide.Create, Object: st, Key: st.Key, Reason: decide.ReasonMissing}
}

func applies(st plan.Stamped, uid types.UID, reason string) decide.Action {
	return decide.Action{Verb: decide.Apply, Object: st, Key: st.Key, UID: uid, Reason: reason}
}

func deletes(st plan.Stamped, uid types.UID) decide.Action {
	return decide.Action{Verb: decide.Delete, Key: st.Key, Version: "v1", UID: uid, Reason: decide.ReasonPruned}
}

// do performs one action.
func (c *cast) do(t *testing.T, action decide.Action, change ...func(*Request)) Result {
	t.Helper()
	req := Request{Stack: stack, Owners: []plan.Owner{self}, Actions: []decide.Action{action}}
	for _, f := range change {
		f(&req)
	}
	results := c.Do(context.Background(), req)
	if len(results) != 1 {
		t.Fatalf("%d results", len(results))
	}
	return results[0]
}

func adopting(r *Request) { r.Adopt = true }

// verbs are the requests that were made, without their paths.
func (c *cast) verbs() string {
	var out []string
	for _, r := range c.server.asked() {
		out = append(out, strings.Fields(r)[0])
	}
	return strings.Join(out, " ")
}

// entries are the field managers of an object with what they did.
func entries(u *unstructured.Unstructured) (out []string) {
	for _, e := range u.GetManagedFields() {
		out = append(out, e.Manager+" "+string(e.Operation))
	}
	return out
}

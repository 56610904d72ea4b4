package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"

	"mlkeeper.dev/test/cluster"
)

var route = schema.GroupVersionKind{Group: "route.openshift.io", Version: "v1", Kind: "Route"}

// aggregated serves one group version. Its first request fails.
func aggregated(t *testing.T) (*rest.Config, *atomic.Int32) {
	t.Helper()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 || r.URL.Path != "/apis/route.openshift.io/v1" {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: "route.openshift.io/v1",
			APIResources: []metav1.APIResource{{Name: "routes", Kind: "Route", Namespaced: true}},
		})
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, &requests
}

// TestAPIServiceIsServedWhileAvailable calls the event handler of the APIService informer, since the devcluster runs no pod that
// could serve an aggregated API.
func TestAPIServiceIsServedWhileAvailable(t *testing.T) {
	cfg, _ := aggregated(t)
	c := New(discovery.NewDiscoveryClientForConfigOrDie(cfg), nil, logr.Discard())
	c.tasks = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[task](10*time.Millisecond, time.Second))
	var wg sync.WaitGroup
	wg.Go(func() { c.runWorker(context.Background()) })
	t.Cleanup(func() {
		c.tasks.ShutDown()
		wg.Wait()
	})
	s := &apiServiceInfo{version: route.GroupVersion(), aggregated: true, available: true}
	s.Name = "v1.route.openshift.io"
	expect := func(served bool) {
		t.Helper()
		cluster.Eventually(t, 5*time.Second, func() error {
			if m, ok := c.Lookup(route); ok != served || ok && m.Resource.Resource != "routes" {
				return fmt.Errorf("served: %v, %v", ok, m)
			}
			return nil
		})
	}
	c.setAPIService(s, false)
	expect(true)
	away := *s
	away.available = false
	c.setAPIService(&away, false)
	expect(false)
	c.setAPIService(s, false)
	expect(true)
	c.setAPIService(s, true)
	expect(false)
}

func TestRediscoveryIsRateLimited(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	c := newWithClock(nil, nil, logr.Discard(), clock)
	c.ReportNotFound(route)
	c.tasks = workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[task](),
		workqueue.TypedRateLimitingQueueConfig[task]{Clock: clock})
	defer c.tasks.ShutDown()
	c.cache.replace(apiSource{rank: sourceCRD, name: "x"}, one(widget, "v1"), nil)
	c.ReportNotFound(widget.WithVersion("v1"))
	if c.tasks.Len() != 0 {
		t.Fatal("a kind of a definition is discovered")
	}
	for range 5 {
		c.ReportNotFound(route)
	}
	if c.tasks.Len() != 1 {
		t.Fatalf("%d discoveries", c.tasks.Len())
	}
	item, _ := c.tasks.Get()
	c.tasks.Done(item)
	if due := c.rediscovered[task{}]; !due.Equal(time.Unix(60, 0)) {
		t.Fatalf("the next discovery is due at %s", due)
	}
}

package faults

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// namespacePrefix begins the namespace of every run; what holds it in its name belongs to that run.
const namespacePrefix = "faults-"

// ofRun finds the namespace of a run in the name or the marks of a cluster-scoped object.
var ofRun = regexp.MustCompile(namespacePrefix + `[0-9a-z]{8}`)

// passing are resources that mirror others, expire, or belong to the simulated nodes: no plan is judged by them.
var passing = []string{
	"events", "events.events.k8s.io", "endpoints", "endpointslices.discovery.k8s.io", "leases.coordination.k8s.io", "pods",
	"replicasets.apps", "controllerrevisions.apps", "nodes", "namespaces", "componentstatuses",
	"csinodes.storage.k8s.io", "flowschemas.flowcontrol.apiserver.k8s.io",
	"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", "apiservices.apiregistration.k8s.io",
}

// given are the objects that every namespace has, which come a little after it.
var given = []string{"serviceaccounts/default", "configmaps/kube-root-ca.crt"}

// Event is a change of an object, as the API server told it.
type Event struct {
	Type     watch.EventType
	Resource string
	Object   *unstructured.Unstructured
	Version  uint64
	At       time.Time
}

// history is everything that happened to the objects of one run.
type history struct {
	namespace string
	mu        sync.Mutex
	events    []Event
	state     map[string]*unstructured.Unstructured
	armed     uint64
}

// recorder watches every resource of the cluster, once for all runs.
type recorder struct {
	client dynamic.Interface

	mu   sync.Mutex
	runs map[string]*history
	// tolerated are the resources whose watch may have a gap, since plans change their API; allResources stands for each. Such a watch
	// goes on from a list.
	tolerated map[string]bool
	// versions are those in which the resources are watched.
	versions map[string]schema.GroupVersionResource
	err      error
}

// allResources stands for every resource.
const allResources = "*"

// tolerate has the watch of a resource begin anew after a gap.
func (r *recorder) tolerate(resource string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tolerated[resource] = true
}

// record starts to watch everything that the cluster serves.
func record(ctx context.Context, cfg *rest.Config) (*recorder, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("learn which resources there are: %w", err)
	}
	r := &recorder{
		client: client, runs: map[string]*history{}, tolerated: map[string]bool{}, versions: map[string]schema.GroupVersionResource{},
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, one := range list.APIResources {
			gvr := gv.WithResource(one.Name)
			if !slices.Contains(one.Verbs, "watch") || slices.Contains(passing, gvr.GroupResource().String()) {
				continue
			}
			if err := r.follow(ctx, gvr); err != nil {
				return nil, err
			}
			r.versions[gvr.GroupResource().String()] = gvr
		}
	}
	return r, nil
}

// relist lists a resource every second beside its watch, until the returned function is called. What the API server has pruned when it was read, and
// not where it is stored, is there again with the former definition: under the same resourceVersion, of which no watch tells.
func (r *recorder) relist(ctx context.Context, resource string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			r.resume(ctx, r.versions[resource])
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

// follow watches one resource until the context is done.
func (r *recorder) follow(ctx context.Context, gvr schema.GroupVersionResource) error {
	list, err := r.client.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("list %s: %w", gvr, err)
	}
	version := list.GetResourceVersion()
	go func() {
		for ctx.Err() == nil {
			version, err = r.hear(ctx, gvr, version)
			switch {
			case err == nil || ctx.Err() != nil:
			case r.tolerates(gvr.GroupResource().String()):
				version = r.resume(ctx, gvr)
			default:
				r.mu.Lock()
				r.err = fmt.Errorf("the watch of %s has a gap: %w", gvr, err)
				r.mu.Unlock()
				return
			}
		}
	}()
	return nil
}

// resume lists a resource as soon as it is served again, and takes what happened in the gap from the difference.
func (r *recorder) resume(ctx context.Context, gvr schema.GroupVersionResource) string {
	list, err := r.client.Resource(gvr).List(ctx, metav1.ListOptions{})
	for err != nil && ctx.Err() == nil {
		time.Sleep(look)
		list, err = r.client.Resource(gvr).List(ctx, metav1.ListOptions{})
	}
	if err != nil {
		return ""
	}
	resource := gvr.GroupResource().String()
	var live []string
	for i := range list.Items {
		u := &list.Items[i]
		live = append(live, string(u.GetUID()))
		if known := r.known(resource, u); known == nil {
			r.take(resource, watch.Added, u)
		} else if !equality.Semantic.DeepEqual(known.Object, u.Object) {
			r.take(resource, watch.Modified, u)
		}
	}
	for _, gone := range r.others(resource, live) {
		gone.SetResourceVersion(list.GetResourceVersion())
		r.take(resource, watch.Deleted, gone)
	}
	return list.GetResourceVersion()
}

// known is an object as it was told of last; nil where it was not.
func (r *recorder) known(resource string, u *unstructured.Unstructured) *unstructured.Unstructured {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.runs {
		if known := h.get(resource, u.GetName()); known != nil && known.GetUID() == u.GetUID() {
			return known
		}
	}
	return nil
}

// others are copies of the objects of a resource that are not among the live ones.
func (r *recorder) others(resource string, live []string) []*unstructured.Unstructured {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*unstructured.Unstructured
	for _, h := range r.runs {
		for _, u := range h.all(resource) {
			if !slices.Contains(live, string(u.GetUID())) {
				out = append(out, u.DeepCopy())
			}
		}
	}
	return out
}

// hear watches a resource from a version on until the watch ends, and returns the version that it came to.
func (r *recorder) hear(ctx context.Context, gvr schema.GroupVersionResource, version string) (string, error) {
	w, err := r.client.Resource(gvr).Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	if err != nil {
		return version, err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Error {
			return version, errors.New("an error in the stream")
		}
		version = u.GetResourceVersion()
		if e.Type != watch.Bookmark {
			r.take(gvr.GroupResource().String(), e.Type, u)
		}
	}
	return version, nil
}

// tolerates says that the watch of a resource may have a gap.
func (r *recorder) tolerates(resource string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tolerated[allResources] || r.tolerated[resource]
}

// take sorts an event to the run that it belongs to.
func (r *recorder) take(resource string, kind watch.EventType, u *unstructured.Unstructured) {
	namespace := u.GetNamespace()
	if namespace == "" {
		namespace = ofRun.FindString(u.GetName())
	}
	if namespace == "" {
		namespace = ofRun.FindString(u.GetAnnotations()[keeper.OwnerAnnotation])
	}
	r.mu.Lock()
	h := r.runs[namespace]
	r.mu.Unlock()
	if h == nil || slices.Contains(given, resource+"/"+u.GetName()) || ofKServe(u) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, Event{Type: kind, Resource: resource, Object: u, Version: versionOf(u), At: time.Now()})
	if kind == watch.Deleted {
		delete(h.state, resource+"/"+u.GetName())
	} else {
		h.state[resource+"/"+u.GetName()] = u
	}
}

// versionOf is the version of an object, by which all changes of the cluster are in order; 0 where it has none.
func versionOf(u *unstructured.Unstructured) uint64 {
	version, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// ofKServe says that KServe made an object for an InferenceService, as the Deployment controller makes ReplicaSets: it mirrors the
// service and its autoscaler, and MLKeeper never writes it.
func ofKServe(u *unstructured.Unstructured) bool {
	ref := metav1.GetControllerOfNoCopy(u)
	return ref != nil && ref.Kind == "InferenceService"
}

// begin starts the history of a run.
func (r *recorder) begin(namespace string) *history {
	h := &history{namespace: namespace, state: map[string]*unstructured.Unstructured{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[namespace] = h
	return h
}

// forget drops the history of a run.
func (r *recorder) forget(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.runs, namespace)
}

// failed says why the recorder cannot be relied on; nil when it can.
func (r *recorder) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// get returns an object as it is now, or nil. It is shared and never changed.
func (h *history) get(resource, name string) *unstructured.Unstructured {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state[resource+"/"+name]
}

// all returns the objects of a resource, or of all when it is empty.
func (h *history) all(resource string) map[string]*unstructured.Unstructured {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]*unstructured.Unstructured{}
	for key, u := range h.state {
		if resource == "" || strings.HasPrefix(key, resource+"/") {
			out[key] = u
		}
	}
	return out
}

// has says that an object was told of in a version, or a later one.
func (h *history) has(uid types.UID, version uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range slices.Backward(h.events) {
		if e.Object.GetUID() == uid && e.Version >= version {
			return true
		}
	}
	return false
}

// shorten forgets all events but the last, in a run that has no end.
func (h *history) shorten() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = slices.Clone(h.events[max(len(h.events)-1, 0):])
}

// length is the number of events so far.
func (h *history) length() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.events)
}

// arm marks the beginning of what the oracles look at.
func (h *history) arm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		h.armed = max(h.armed, e.Version)
	}
}

// sorted returns all events in the order in which they happened: watches of different resources come in any order, but
// the versions of all resources are those of one store.
func (h *history) sorted() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := slices.Clone(h.events)
	slices.SortStableFunc(out, func(a, b Event) int {
		switch {
		case a.Version < b.Version:
			return -1
		case a.Version > b.Version:
			return 1
		}
		return 0
	})
	return out
}

// last is when something last happened.
func (h *history) last() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) == 0 {
		return time.Time{}
	}
	return h.events[len(h.events)-1].At
}

// before is the version just before the back-th last change of a resource, "*" for all; 0 where there is none.
func (h *history) before(resource string, back int) uint64 {
	events := h.sorted()
	for _, e := range slices.Backward(events) {
		if resource == "*" || e.Resource == resource {
			back--
		}
		if back == 0 {
			return e.Version - 1
		}
	}
	return 0
}

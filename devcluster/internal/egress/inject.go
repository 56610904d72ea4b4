package egress

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// The kinds that name a Service for the API server to call.
var (
	mutating    = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	validating  = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// injector fills in caBundles.
type injector struct {
	client    dynamic.Interface
	pods      *pods
	factory   dynamicinformer.DynamicSharedInformerFactory
	informers map[schema.GroupVersionResource]cache.SharedIndexInformer
	// changed has an item while something has changed that the next round has not seen.
	changed chan struct{}

	// looked are the calls that need nothing more, as they were with the pod that answers: only the round uses it.
	looked map[string]bool

	// mu guards defaulters, the calls of mutating webhooks.
	mu         sync.Mutex
	defaulters map[string]bool
}

// pause is between an event and the round that it causes, so that many events cause one.
const pause = 50 * time.Millisecond

func newInjector(client dynamic.Interface, p *pods) (*injector, error) {
	in := &injector{
		client: client, pods: p, factory: dynamicinformer.NewDynamicSharedInformerFactory(client, 0),
		informers: map[schema.GroupVersionResource]cache.SharedIndexInformer{}, changed: make(chan struct{}, 1),
	}
	for _, resource := range []schema.GroupVersionResource{mutating, validating, definitions, apiServices} {
		informer := in.factory.ForResource(resource).Informer()
		if err := informer.SetTransform(onlyCalls); err != nil {
			return nil, err
		}
		in.informers[resource] = informer
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { in.wake() }, UpdateFunc: func(any, any) { in.wake() }, DeleteFunc: func(any) { in.wake() },
	}
	for _, informer := range in.informers {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	_, err := p.factory.Discovery().V1().EndpointSlices().Informer().AddEventHandler(handler)
	return in, err
}

// onlyCalls drops what a definition holds beside its conversion: schemas can be a megabyte each.
func onlyCalls(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(u.Object, "spec", "versions")
		u.SetManagedFields(nil)
	}
	return obj, nil
}

func (in *injector) wake() {
	select {
	case in.changed <- struct{}{}:
	default:
	}
}

// run fills in until ctx ends.
func (in *injector) run(ctx context.Context) {
	in.pods.factory.Start(ctx.Done())
	in.factory.Start(ctx.Done())
	in.pods.factory.WaitForCacheSync(ctx.Done())
	in.factory.WaitForCacheSync(ctx.Done())
	for {
		select {
		case <-ctx.Done():
			return
		case <-in.changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err := in.round(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "egress:", err)
			in.wake()
		}
	}
}

// round looks at everything that the API server calls.
func (in *injector) round(ctx context.Context) error {
	defaulters := map[string]bool{}
	for _, obj := range in.informers[mutating].GetStore().List() {
		for _, c := range callsOf(obj) {
			defaulters[c.namespace+"/"+c.name+c.path] = true
		}
	}
	in.mu.Lock()
	in.defaulters = defaulters
	in.mu.Unlock()
	before := in.looked
	in.looked = map[string]bool{}
	for resource, informer := range in.informers {
		for _, obj := range informer.GetStore().List() {
			for _, c := range callsOf(obj) {
				if err := in.look(ctx, resource, c, before); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					return err
				}
			}
		}
	}
	return nil
}

// look fills in the caBundle of a call, unless that was right when the last round looked at the same object and the same pod: what
// serves is read from the API server, which a round at every change of an endpoint must not ask each time.
func (in *injector) look(ctx context.Context, resource schema.GroupVersionResource, c call, before map[string]bool) error {
	s, err := in.pods.services.Services(c.namespace).Get(c.name)
	if err != nil {
		return err
	}
	pod, err := in.pods.ready(s, c.port)
	if err != nil {
		return nil // Nobody answers, and so nobody fills in.
	}
	id := strings.Join([]string{string(c.object.GetUID()), c.object.GetResourceVersion(), c.pointer, pod}, " ")
	if !before[id] {
		right, err := in.fill(ctx, resource, c, s)
		if err != nil || !right {
			return err
		}
	}
	in.looked[id] = true
	return nil
}

// mutates says that a path of a Service is that of a mutating webhook.
func (in *injector) mutates(namespace, name, path string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	// An aggregated API is called by way of the API server, as cert-manager 0.11 has it.
	return in.defaulters[namespace+"/"+name+path] || in.defaulters["default/kubernetes"+path]
}

// fill writes the caBundle of a call whose server is ready, and says whether it was right already.
func (in *injector) fill(ctx context.Context, resource schema.GroupVersionResource, c call, s *corev1.Service) (right bool, err error) {
	answers, err := in.pods.serving(ctx, s, c.port)
	if errors.Is(err, errNotReady) {
		return false, nil // The pod is gone meanwhile: its event follows.
	}
	if err != nil {
		return false, err
	}
	if answers.verifies(c.bundle, dnsName(c.namespace, c.name)) || len(c.bundle) > 0 && !answers.own {
		return true, nil
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/resourceVersion", "value": c.object.GetResourceVersion()},
		{"op": "add", "path": c.pointer + "/caBundle", "value": answers.authority},
	})
	if err != nil {
		return false, err
	}
	_, err = in.client.Resource(resource).Patch(ctx, c.object.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "cainjector"})
	if apierrors.IsInvalid(err) {
		// The object has changed: its event follows.
		return false, nil
	}
	return false, err
}

// call is what the API server calls a Service for.
type call struct {
	object *unstructured.Unstructured
	// pointer is where the caBundle is, as JSON pointers are written (RFC 6901).
	pointer         string
	namespace, name string
	port            int32
	path            string
	bundle          []byte
}

// callsOf are the calls that an object names.
func callsOf(obj any) []call {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	var out []call
	add := func(pointer string, config map[string]any) {
		service, _ := config["service"].(map[string]any)
		if service == nil || config["insecureSkipTLSVerify"] == true {
			return
		}
		c := call{object: u, pointer: pointer, port: 443}
		c.namespace, _ = service["namespace"].(string)
		c.name, _ = service["name"].(string)
		c.path, _ = service["path"].(string)
		if port, ok := service["port"].(int64); ok {
			c.port = int32(port) //nolint:gosec // The API server has checked that it is a port.
		}
		text, _ := config["caBundle"].(string)
		c.bundle, _ = base64.StdEncoding.DecodeString(text)
		out = append(out, c)
	}
	hooks, _, _ := unstructured.NestedSlice(u.Object, "webhooks")
	for i, hook := range hooks {
		if config, _, _ := unstructured.NestedMap(hook.(map[string]any), "clientConfig"); config != nil {
			add(fmt.Sprintf("/webhooks/%d/clientConfig", i), config)
		}
	}
	if config, _, _ := unstructured.NestedMap(u.Object, "spec", "conversion", "webhook", "clientConfig"); config != nil {
		add("/spec/conversion/webhook/clientConfig", config)
	}
	if spec, _, _ := unstructured.NestedMap(u.Object, "spec"); u.GetKind() == "APIService" && spec != nil {
		add("/spec", spec)
	}
	return out
}

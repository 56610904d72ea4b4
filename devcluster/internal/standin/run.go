package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/devcluster/internal/health"
)

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// Main is the entry point of the stand-in process; it returns when ctx ends.
func Main(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet("stand-in", pflag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cluster")
	listen := flags.String("listen", "127.0.0.1:0", "address of the health endpoint")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 500, 1000
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	hooks, err := serveHooks(ctx, client)
	if err != nil {
		return err
	}
	if err := hooks.register(ctx, client); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	// A cluster is reported ready when this process is healthy. So that is when no object escapes the webhooks any more.
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	// Without its endpoint the process counts as one that hangs.
	go func() { fmt.Fprintln(os.Stderr, "stand-in: health endpoint:", health.Serve(listener)) }()
	return newTroupe(client).run(ctx)
}

// troupe holds the roles that are on stage right now.
type troupe struct {
	client dynamic.Interface
	mu     sync.Mutex
	active map[string]context.CancelFunc
}

func newTroupe(client dynamic.Interface) *troupe {
	return &troupe{client: client, active: map[string]context.CancelFunc{}}
}

// run follows the CRDs and plays each role for as long as its CRD is served.
func (t *troupe) run(ctx context.Context) error {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(t.client, 0)
	informer := factory.ForResource(crdResource).Informer()
	// A CRD schema can be a megabyte, and only two fields of it matter here.
	if err := informer.SetTransform(trimCRD); err != nil {
		return err
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { t.cast(ctx, obj) },
		UpdateFunc: func(_, obj any) { t.cast(ctx, obj) },
		DeleteFunc: t.dismiss,
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

func trimCRD(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(u.Object, "spec", "versions")
		u.SetManagedFields(nil)
	}
	return obj, nil
}

// cast starts a role once its CRD is established.
func (t *troupe) cast(ctx context.Context, obj any) {
	crd, ok := obj.(*unstructured.Unstructured)
	if !ok || !established(crd) {
		return
	}
	for _, r := range roles {
		if r.crd != crd.GetName() {
			continue
		}
		t.mu.Lock()
		if _, on := t.active[r.crd]; !on {
			roleCtx, cancel := context.WithCancel(ctx)
			t.active[r.crd] = cancel
			go t.play(roleCtx, r)
		}
		t.mu.Unlock()
	}
}

// dismiss ends a role whose CRD is gone; its informer would retry for ever. The webhooks stay, as those of any controller do: there
// is nothing any more that they could be called for.
func (t *troupe) dismiss(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	crd, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if cancel, on := t.active[crd.GetName()]; on {
		cancel()
		delete(t.active, crd.GetName())
	}
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		m, ok := c.(map[string]any)
		if ok && m["type"] == "Established" && m["status"] == "True" {
			return true
		}
	}
	return false
}

// actors is how many objects of a role are acted on at once. One after the other, a thousand would wait for the stand-in, and
// not for what is measured.
const actors = 8

// play runs one role until its context ends.
func (t *troupe) play(ctx context.Context, r role) {
	if r.run != nil {
		r.run(ctx, t.client)
		return
	}
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 5*time.Second))
	informer := dynamicinformer.NewDynamicSharedInformerFactory(t.client, 0).ForResource(r.resource).Informer()
	enqueue := func(obj any) {
		if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
			queue.Add(key)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, obj any) { enqueue(obj) },
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "stand-in: %s: %v\n", r.crd, err)
		return
	}
	go func() {
		<-ctx.Done()
		queue.ShutDown()
	}()
	go informer.RunWithContext(ctx)
	for _, child := range r.children {
		go t.followChildren(ctx, r, child, queue)
	}
	var workers sync.WaitGroup
	for range actors {
		workers.Go(func() {
			for t.next(ctx, r, queue, informer.GetStore()) {
			}
		})
	}
	workers.Wait()
}

// followChildren queues the objects whose children change. A kind whose CRD comes later is followed when it is there, since the
// informer lists again until it may.
func (t *troupe) followChildren(
	ctx context.Context, r role, resource schema.GroupVersionResource, queue workqueue.TypedRateLimitingInterface[string],
) {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(t.client, 0, metav1.NamespaceAll, func(o *metav1.ListOptions) {
		o.LabelSelector = r.childOf
	})
	informer := factory.ForResource(resource).Informer()
	enqueue := func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if u, ok := obj.(*unstructured.Unstructured); ok {
			queue.Add(u.GetNamespace() + "/" + u.GetLabels()[r.childOf])
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue}
	if resource == pods {
		// KServe wakes up for nothing else of a pod (controller.go, podInitContainersPredicate).
		handler = cache.ResourceEventHandlerFuncs{UpdateFunc: func(old, obj any) {
			if !settled(initContainers(old), initContainers(obj)) {
				enqueue(obj)
			}
		}}
	}
	_, err := informer.AddEventHandler(handler)
	if err != nil {
		fmt.Fprintf(os.Stderr, "stand-in: %s: %v\n", resource.Resource, err)
		return
	}
	informer.RunWithContext(ctx)
}

// initContainers is what a pod tells of them.
func initContainers(obj any) any {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "initContainerStatuses")
	return list
}

// next brings the next object of the queue to its healthy state; it is false once there is none any more.
func (t *troupe) next(ctx context.Context, r role, queue workqueue.TypedRateLimitingInterface[string], store cache.Store) bool {
	key, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(key)
	if err := t.act(ctx, r, store, key); err != nil {
		queue.AddRateLimited(key)
	} else {
		queue.Forget(key)
	}
	return true
}

// act brings one object to its healthy state.
func (t *troupe) act(ctx context.Context, r role, store cache.Store, key string) error {
	item, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return err
	}
	cached, ok := item.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	obj := cached.DeepCopy()
	client := t.client.Resource(r.resource).Namespace(obj.GetNamespace())
	if obj.GetDeletionTimestamp() != nil {
		// Also where the object has opted out: that gives its status to the test, and not the finalizer that was put on it here.
		return ignoreGone(finalize(ctx, client, r, obj))
	}
	if obj.GetAnnotations()[optOut] == "off" {
		return nil
	}
	if r.finalizer != "" && !slices.Contains(obj.GetFinalizers(), r.finalizer) {
		if obj, err = setFinalizers(ctx, client, obj, append(obj.GetFinalizers(), r.finalizer)); err != nil {
			return ignoreGone(err)
		}
	}
	if r.reconcile != nil {
		wanted, problem := r.reconcile(ctx, t.client, obj, timestamp(time.Now()))
		if wanted != nil && !equality.Semantic.DeepEqual(obj.Object["status"], wanted) {
			obj.Object["status"] = wanted
			if _, err := client.UpdateStatus(ctx, obj, metav1.UpdateOptions{}); err != nil {
				return ignoreGone(err)
			}
		}
		// What it refers to may be gone, and come back; of the object itself the store tells next time.
		return problem
	}
	wanted := r.status(obj, timestamp(time.Now()))
	if settled(obj.Object["status"], wanted) {
		return nil
	}
	status, _, _ := unstructured.NestedMap(obj.Object, "status")
	if status == nil {
		status = map[string]any{}
	}
	// What others have written into the status stays.
	maps.Copy(status, wanted)
	obj.Object["status"] = status
	_, err = client.UpdateStatus(ctx, obj, metav1.UpdateOptions{})
	return ignoreGone(err)
}

// finalize lets an object go that is deleted.
func finalize(ctx context.Context, client dynamic.ResourceInterface, r role, obj *unstructured.Unstructured) error {
	left := slices.DeleteFunc(obj.GetFinalizers(), func(one string) bool { return one == r.finalizer })
	if r.finalizer == "" || len(left) == len(obj.GetFinalizers()) {
		return nil
	}
	_, err := setFinalizers(ctx, client, obj, left)
	return err
}

// setFinalizers writes the whole list whatever it has become since, as KServe does (controller.go, Reconcile).
func setFinalizers(
	ctx context.Context, client dynamic.ResourceInterface, obj *unstructured.Unstructured, finalizers []string,
) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	if err != nil {
		return nil, err
	}
	return client.Patch(ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
}

// ignoreGone drops the errors after which a newer event is on its way.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

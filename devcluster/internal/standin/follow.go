package standin

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// follow calls act for the objects of an informer that wakes names, until the context ends; wakes is called for what an object
// was and what it is. act is not called before wakes was for everything that there is. What cannot be done is tried again. Objects
// that opted out, and those being deleted, are left alone.
func follow(
	ctx context.Context, informer cache.SharedIndexInformer,
	wakes func(obj *unstructured.Unstructured, enqueue func(*unstructured.Unstructured)), act func(*unstructured.Unstructured) error,
) {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 5*time.Second))
	wake := func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if u, ok := obj.(*unstructured.Unstructured); ok {
			wakes(u, func(u *unstructured.Unstructured) { queue.Add(u.GetNamespace() + "/" + u.GetName()) })
		}
	}
	heard, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: wake, DeleteFunc: wake,
		UpdateFunc: func(old, obj any) {
			wake(old)
			wake(obj)
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand-in:", err)
		return
	}
	go func() {
		<-ctx.Done()
		queue.ShutDown()
	}()
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), heard.HasSynced) {
		return
	}
	var workers sync.WaitGroup
	for range actors {
		workers.Go(func() {
			for {
				key, shutdown := queue.Get()
				if shutdown {
					return
				}
				if err := actOn(informer.GetStore(), key, act); err != nil {
					queue.AddRateLimited(key)
				} else {
					queue.Forget(key)
				}
				queue.Done(key)
			}
		})
	}
	workers.Wait()
}

// actOn calls act for the object under a key of the queue.
func actOn(store cache.Store, key string, act func(*unstructured.Unstructured) error) error {
	if key[0] == '/' {
		key = key[1:] // Of a cluster-scoped kind.
	}
	item, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return err
	}
	u, ok := item.(*unstructured.Unstructured)
	if !ok || u.GetAnnotations()[optOut] == "off" || u.GetDeletionTimestamp() != nil {
		return nil
	}
	return act(u)
}

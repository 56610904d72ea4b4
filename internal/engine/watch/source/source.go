package source

import (
	"context"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Scope says what is listed and watched.
type Scope struct {
	Resource schema.GroupVersionResource
	// Namespace is empty for all namespaces and for cluster-scoped resources.
	Namespace string
	// LabelSelector and FieldSelector restrict the watch; both may be empty.
	LabelSelector, FieldSelector string
}

// Metadata lists and watches the metadata of the objects in scope.
func Metadata(client metadata.Interface, scope Scope, backoff *Backoff) cache.ListerWatcher {
	api := client.Resource(scope.Resource)
	get := metadata.ResourceInterface(api)
	if scope.Namespace != "" {
		get = api.Namespace(scope.Namespace)
	}
	return listWatch(client, scope, backoff,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return get.List(ctx, o) },
		get.Watch)
}

// Dynamic lists and watches the full objects in scope.
func Dynamic(client dynamic.Interface, scope Scope, backoff *Backoff) cache.ListerWatcher {
	api := client.Resource(scope.Resource)
	get := dynamic.ResourceInterface(api)
	if scope.Namespace != "" {
		get = api.Namespace(scope.Namespace)
	}
	return listWatch(client, scope, backoff,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return get.List(ctx, o) },
		get.Watch)
}

func listWatch(client any, scope Scope, backoff *Backoff,
	list func(context.Context, metav1.ListOptions) (runtime.Object, error),
	open func(context.Context, metav1.ListOptions) (watch.Interface, error),
) cache.ListerWatcher {
	withSelectors := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector, o.FieldSelector = scope.LabelSelector, scope.FieldSelector
		return o
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if err := backoff.wait(ctx); err != nil {
				return nil, err
			}
			out, err := list(ctx, withSelectors(o))
			// A successful list does not prove the permission to watch, so only an error counts.
			if err != nil {
				count(scope, backoff.observe(err))
			}
			return out, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if err := backoff.wait(ctx); err != nil {
				return nil, err
			}
			out, err := open(ctx, withSelectors(o))
			// After a failed WatchList request the reflector falls back to a list, whose response counts instead.
			if err == nil || o.SendInitialEvents == nil {
				count(scope, backoff.observe(err))
			}
			return out, err
		},
	}
	return cache.ToListWatcherWithWatchListSemantics(lw, client)
}

// Context returns a context under which client-go logs to log, one level lower than usual. Its messages about single watches
// are for debugging; Backoff logs what an administrator must see.
func Context(ctx context.Context, log logr.Logger) context.Context {
	return klog.NewContext(ctx, log.V(1))
}

// RealClock is the clock in production.
var RealClock clock.WithTicker = clock.RealClock{}

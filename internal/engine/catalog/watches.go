package catalog

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/internal/engine/watch/source"
)

// watchCRDs starts the watch on CustomResourceDefinitions. The result reports whether the cache has all of them.
func (c *Catalog) watchCRDs(ctx context.Context) (func() bool, error) {
	synced, _, err := c.watch(ctx, crdResource, transformCRD, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.setCRD(obj, false) },
		UpdateFunc: func(_, obj any) { c.setCRD(obj, false) },
		DeleteFunc: func(obj any) { c.setCRD(unwrapTombstone(obj), true) },
	})
	return synced, err
}

// watchAPIServices starts the watch on APIServices.
func (c *Catalog) watchAPIServices(ctx context.Context) (func() bool, *source.Backoff, error) {
	return c.watch(ctx, apiServiceResource, transformAPIService, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.setAPIService(obj, false) },
		UpdateFunc: func(_, obj any) { c.setAPIService(obj, false) },
		DeleteFunc: func(obj any) { c.setAPIService(unwrapTombstone(obj), true) },
	})
}

func (c *Catalog) watch(ctx context.Context, resource schema.GroupVersionResource, transform cache.TransformFunc,
	handler cache.ResourceEventHandler,
) (func() bool, *source.Backoff, error) {
	log := c.log.WithValues("resource", resource.Resource)
	backoff := source.NewBackoff(c.clock, log)
	informer := cache.NewSharedIndexInformerWithOptions(source.Dynamic(c.dyn, source.Scope{Resource: resource}, backoff),
		&unstructured.Unstructured{}, cache.SharedIndexInformerOptions{ObjectDescription: resource.Resource})
	err := informer.SetTransform(transform)
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			backoff.LogError(err)
		})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("prepare the watch on %s: %w", resource.Resource, err)
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return nil, nil, fmt.Errorf("prepare the watch on %s: %w", resource.Resource, err)
	}
	c.wg.Go(func() { informer.RunWithContext(source.Context(ctx, log)) })
	return registration.HasSynced, backoff, nil
}

// unwrapTombstone returns the last known state of an object whose deletion the watch has missed.
func unwrapTombstone(obj any) any {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return t.Obj
	}
	return obj
}

func (c *Catalog) setCRD(obj any, deleted bool) {
	d, ok := obj.(*crdInfo)
	if !ok {
		return
	}
	serves := map[schema.GroupKind]api{}
	if !deleted && d.established && len(d.api.versions) > 0 {
		serves[d.kind] = d.api
	}
	c.update(func(dc *discoveryCache) []schema.GroupKind {
		if a, ok := serves[d.kind]; ok {
			if before, since := dc.generation(d.kind); before == a.generation {
				a.changedAt = since
			} else if before != 0 {
				a.changedAt = c.clock.Now()
			}
			serves[d.kind] = a
		}
		changed := dc.replace(apiSource{rank: sourceCRD, name: d.Name}, serves, nil)
		// Discovery may have seen the definition before the watch did, and counted its kind as built in. From now on
		// the watch covers the kind, also its deletion.
		return append(changed, dc.removeVersions(func(gk schema.GroupKind, _ string) bool { return gk == d.kind })...)
	})
}

func (c *Catalog) setAPIService(obj any, deleted bool) {
	s, ok := obj.(*apiServiceInfo)
	if !ok {
		return
	}
	c.mu.Lock()
	old := c.apiServices[s.Name]
	if deleted || !s.aggregated {
		delete(c.apiServices, s.Name)
	} else {
		c.apiServices[s.Name] = s
	}
	now := c.apiServices[s.Name]
	c.mu.Unlock()
	if old == nil && now == nil {
		return
	}
	// The status of an APIService is written more often than it changes.
	if old != nil && now != nil && old.UID == now.UID && old.available == now.available && old.version == now.version {
		return
	}
	item := task{apiService: s.Name}
	c.tasks.Forget(item)
	c.tasks.Add(item)
}

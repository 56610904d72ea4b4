package catalog

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/internal/engine/watch/source"
)

// watchDefinitions starts the watch of CustomResourceDefinitions. The result says whether all that exist are in the book.
func (c *Catalog) watchDefinitions(ctx context.Context) (func() bool, error) {
	synced, _, err := c.watch(ctx, crdResource, reduceDefinition, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.setDefinition(obj, false) },
		UpdateFunc: func(_, obj any) { c.setDefinition(obj, false) },
		DeleteFunc: func(obj any) { c.setDefinition(untomb(obj), true) },
	})
	return synced, err
}

// watchServices starts the watch of APIServices.
func (c *Catalog) watchServices(ctx context.Context) (func() bool, *source.Patience, error) {
	return c.watch(ctx, apiServiceResource, reduceService, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.setService(obj, false) },
		UpdateFunc: func(_, obj any) { c.setService(obj, false) },
		DeleteFunc: func(obj any) { c.setService(untomb(obj), true) },
	})
}

func (c *Catalog) watch(ctx context.Context, resource schema.GroupVersionResource, reduce cache.TransformFunc,
	handler cache.ResourceEventHandler,
) (func() bool, *source.Patience, error) {
	log := c.log.WithValues("resource", resource.Resource)
	patience := source.NewPatience(c.clock, log)
	informer := cache.NewSharedIndexInformerWithOptions(source.Dynamic(c.dyn, source.Scope{Resource: resource}, patience),
		&unstructured.Unstructured{}, cache.SharedIndexInformerOptions{ObjectDescription: resource.Resource})
	err := informer.SetTransform(reduce)
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			patience.Report(err)
		})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("prepare the watch of %s: %w", resource.Resource, err)
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return nil, nil, fmt.Errorf("prepare the watch of %s: %w", resource.Resource, err)
	}
	c.wg.Go(func() { informer.RunWithContext(source.Context(ctx, log)) })
	return registration.HasSynced, patience, nil
}

func untomb(obj any) any {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return t.Obj
	}
	return obj
}

func (c *Catalog) setDefinition(obj any, gone bool) {
	d, ok := obj.(*definition)
	if !ok {
		return
	}
	serves := map[schema.GroupKind]api{}
	if !gone && d.established && len(d.api.versions) > 0 {
		serves[d.kind] = d.api
	}
	c.change(func(b *book) []schema.GroupKind {
		c.young.put(d, c.clock.Now(), len(serves) > 0)
		changed := b.put(origin{rank: fromDefinition, name: d.Name}, serves, nil)
		// A definition that was too young for the watch may have been discovered as built in; from now on the
		// watch answers for it, also when it goes.
		return append(changed, b.disown(func(gk schema.GroupKind, _ string) bool { return gk == d.kind })...)
	})
}

func (c *Catalog) setService(obj any, gone bool) {
	s, ok := obj.(*service)
	if !ok {
		return
	}
	c.mu.Lock()
	old := c.services[s.Name]
	if gone || !s.aggregated {
		delete(c.services, s.Name)
	} else {
		c.services[s.Name] = s
	}
	now := c.services[s.Name]
	c.mu.Unlock()
	if old == nil && now == nil {
		return
	}
	// An APIService's status is written more often than it changes.
	if old != nil && now != nil && old.UID == now.UID && old.available == now.available && old.version == now.version {
		return
	}
	what := task{service: s.Name}
	c.tasks.Forget(what)
	c.tasks.Add(what)
}

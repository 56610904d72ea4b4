package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/console"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// stackRow is a custom resource in the overview.
type stackRow struct {
	Group string `json:"group"`
	StackStatus
	// Objects hides those of the status: the overview does not read them.
	Objects []ObjectStatus `json:"objects,omitempty"`
	URL     string         `json:"url,omitempty"`
	// Parts counts the applications, components or models that are ready, such as 12/44.
	Parts string `json:"parts,omitempty"`
}

// noteRow says what the page cannot show.
type noteRow struct {
	Note string `json:"note"`
}

// Overview implements console.Source: one watch for each kind.
func (s *consoleSource) Overview(ctx context.Context, namespace string, feed *console.Feed) error {
	if err := s.shows(namespace); err != nil {
		return err
	}
	namespace = cmp.Or(namespace, s.namespace)
	// What client-go logs about watches that are refused is told by us.
	ctx, cancel := context.WithCancelCause(logr.NewContext(ctx, logr.Discard()))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	if s.discover != nil && slices.ContainsFunc(s.controllers, s.unserved) {
		// The definition may have come since. Where that cannot be asked, it is told as missing.
		_ = s.learn()
	}
	for _, c := range s.controllers {
		kind := c.GVK().Kind
		mapping, err := s.lookup(c.GVK())
		switch {
		case err != nil:
			return err
		case mapping == nil:
			if err := feed.Set("note/"+kind, noteRow{"The cluster does not serve " + kind + ": its CustomResourceDefinition is not installed."}); err != nil {
				return err
			}
			continue
		}
		within := namespace
		if mapping.Scope.Name() == meta.RESTScopeNameRoot {
			within = ""
		}
		i := s.watched(mapping.Resource, within, func() { feed.Remove("note/" + kind) })
		if err := s.feed(c, i, s.remedy(within), feed, cancel); err != nil {
			return err
		}
		running.Go(func() { i.RunWithContext(ctx) })
	}
	const note = "note/API server"
	s.follow(ctx, func(lost string) {
		if feed.Remove(note); lost != "" {
			_ = feed.Set(note, noteRow{unanswered(lost)})
		}
	})
	if err := context.Cause(ctx); errors.Is(err, console.ErrUnauthorized) {
		return err
	}
	return nil
}

// shows refuses a namespace that is not the one of the command.
func (s *consoleSource) shows(namespace string) error {
	if s.namespace != "" && namespace != "" && namespace != s.namespace {
		return fmt.Errorf("the console shows the namespace %s alone", s.namespace)
	}
	return nil
}

// remedy is what helps a user who may not watch a kind in a namespace, or in all of them. The flags of a shared console are not the user's.
func (s *consoleSource) remedy(namespace string) string {
	switch {
	case namespace != "":
		return "Request the rights list and watch in the namespace " + namespace + "."
	case s.shared:
		return "Request the rights list and watch, or enter a namespace in which you have them at Read namespace."
	}
	return "Request the rights list and watch, or name a namespace with -n."
}

// unserved says that the definition of a controller was missing when that was asked last.
func (s *consoleSource) unserved(c controller.Any) bool {
	mapping, err := s.lookup(c.GVK())
	return err == nil && mapping == nil
}

// watched is a watch on objects, which calls opened when it was opened. There may be nothing to see then, so that no event says that the
// right is there.
func (s *consoleSource) watched(resource schema.GroupVersionResource, namespace string, opened func()) cache.SharedIndexInformer {
	api := s.dynamic.Resource(resource).Namespace(namespace)
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := api.Watch(ctx, o)
			if err == nil {
				opened()
			}
			return w, err
		},
	}, s.dynamic), &unstructured.Unstructured{}, 0, cache.Indexers{})
}

// feed turns the events of a watch into rows. Credentials that are not accepted any more end all watches, so that no rows stay that were
// read with them.
func (s *consoleSource) feed(c controller.Any, i cache.SharedIndexInformer, remedy string, feed *console.Feed, end context.CancelCauseFunc) error {
	note := "note/" + c.GVK().Kind
	remove := func(item any) {
		if last, ok := item.(cache.DeletedFinalStateUnknown); ok {
			item = last.Obj
		}
		if u, ok := item.(*unstructured.Unstructured); ok {
			feed.Remove(rowKey(plan.KeyOf(u)))
		}
	}
	err := i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsUnauthorized(err) {
			end(unauthorized(err))
		}
		if apierrors.IsForbidden(err) {
			// What was read before may be otherwise by now.
			for _, item := range i.GetStore().List() {
				remove(item)
			}
			_ = feed.Set(note, noteRow{Clean(fmt.Sprintf("%s is not shown: %v. %s", c.GVK().Kind, err, remedy))})
		}
	})
	if err != nil {
		return err
	}
	if err := i.SetTransform(reduceStack); err != nil {
		return err
	}
	set := func(item any) {
		if u, ok := item.(*unstructured.Unstructured); ok {
			_ = feed.Set(rowKey(plan.KeyOf(u)), s.row(c, u))
		}
	}
	_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: set, UpdateFunc: func(_, item any) { set(item) },
		DeleteFunc: remove,
	})
	return err
}

// partsReady are the fields of a status that count what is ready.
var partsReady = []string{"applicationsReady", "componentsReady", "modelsAvailable"}

// reduceStack keeps of a custom resource what its row shows. What is declared, who wrote it and which objects it has may be a megabyte.
func reduceStack(item any) (any, error) {
	u, ok := item.(*unstructured.Unstructured)
	if !ok {
		return item, nil
	}
	out := identityOf(u)
	out.SetGeneration(u.GetGeneration())
	if value, found := u.GetAnnotations()[keeper.SuspendAnnotation]; found {
		out.SetAnnotations(map[string]string{keeper.SuspendAnnotation: value})
	}
	if suspended, found, _ := unstructured.NestedBool(u.Object, "spec", "suspend"); found {
		out.Object["spec"] = map[string]any{"suspend": suspended}
	}
	if status, ok := u.Object["status"].(map[string]any); ok {
		kept := map[string]any{}
		for _, field := range append([]string{"conditions", "observedGeneration", "url"}, partsReady...) {
			if value, found := status[field]; found {
				kept[field] = value
			}
		}
		out.Object["status"] = kept
	}
	return out, nil
}

// identityOf is an object with what tells it from others, and when it came and goes.
func identityOf(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind()}}
	out.SetNamespace(u.GetNamespace())
	out.SetName(u.GetName())
	out.SetUID(u.GetUID())
	out.SetResourceVersion(u.GetResourceVersion())
	out.SetCreationTimestamp(u.GetCreationTimestamp())
	out.SetDeletionTimestamp(u.GetDeletionTimestamp())
	return out
}

// row describes a custom resource by its own status.
func (s *consoleSource) row(c controller.Any, u *unstructured.Unstructured) stackRow {
	out := stackRow{Group: c.GVK().Group, StackStatus: (&collector{cluster: s.cluster}).stack(c, u, found{}, nil)}
	out.URL, _, _ = unstructured.NestedString(u.Object, "status", "url")
	for _, field := range partsReady {
		if text, found, _ := unstructured.NestedString(u.Object, "status", field); found {
			out.Parts = Clean(text)
		}
	}
	return out
}

// rowKey tells objects apart, also those of two groups that have kinds of one name.
func rowKey(k plan.Key) string { return k.GroupKind.String() + "/" + k.Namespace + "/" + k.Name }

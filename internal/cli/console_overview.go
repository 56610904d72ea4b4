package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

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
func (s *consoleSource) Overview(ctx context.Context, feed *console.Feed) error {
	// What client-go logs about watches that are refused is told by us.
	ctx, cancel := context.WithCancelCause(logr.NewContext(ctx, logr.Discard()))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
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
		namespace := s.namespace
		if mapping.Scope.Name() == meta.RESTScopeNameRoot {
			namespace = ""
		}
		i := dynamicinformer.NewFilteredDynamicInformer(s.dynamic, mapping.Resource, namespace, 0, cache.Indexers{}, nil).Informer()
		if err := s.feed(c, i, feed, cancel); err != nil {
			return err
		}
		running.Go(func() { i.RunWithContext(ctx) })
	}
	<-ctx.Done()
	if err := context.Cause(ctx); errors.Is(err, console.ErrUnauthorized) {
		return err
	}
	return nil
}

// feed turns the events of a watch into rows. Credentials that are not accepted any more end all watches, so that no rows stay that were
// read with them.
func (s *consoleSource) feed(c controller.Any, i cache.SharedIndexInformer, feed *console.Feed, end context.CancelCauseFunc) error {
	note := "note/" + c.GVK().Kind
	err := i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsUnauthorized(err) {
			end(unauthorized(err))
		}
		if apierrors.IsForbidden(err) {
			_ = feed.Set(note, noteRow{Clean(fmt.Sprintf("%s is not shown: %v. Request the rights list and watch, or name a namespace with -n.", c.GVK().Kind, err))})
		}
	})
	if err != nil {
		return err
	}
	// What the rows do not show is not kept.
	if err := i.SetTransform(func(item any) (any, error) {
		if u, ok := item.(*unstructured.Unstructured); ok {
			u.SetManagedFields(nil)
			suspended, found, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
			if delete(u.Object, "spec"); found {
				u.Object["spec"] = map[string]any{"suspend": suspended}
			}
		}
		return item, nil
	}); err != nil {
		return err
	}
	set := func(item any) {
		if u, ok := item.(*unstructured.Unstructured); ok {
			feed.Remove(note)
			_ = feed.Set(rowKey(plan.KeyOf(u)), s.row(c, u))
		}
	}
	_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: set, UpdateFunc: func(_, item any) { set(item) },
		DeleteFunc: func(item any) {
			if last, ok := item.(cache.DeletedFinalStateUnknown); ok {
				item = last.Obj
			}
			if u, ok := item.(*unstructured.Unstructured); ok {
				feed.Remove(rowKey(plan.KeyOf(u)))
			}
		},
	})
	return err
}

// row describes a custom resource by its own status.
func (s *consoleSource) row(c controller.Any, u *unstructured.Unstructured) stackRow {
	out := stackRow{Group: c.GVK().Group, StackStatus: (&collector{cluster: s.cluster}).stack(c, u, found{}, nil)}
	out.URL, _, _ = unstructured.NestedString(u.Object, "status", "url")
	for _, field := range []string{"applicationsReady", "componentsReady", "modelsAvailable"} {
		if text, found, _ := unstructured.NestedString(u.Object, "status", field); found {
			out.Parts = Clean(text)
		}
	}
	return out
}

// rowKey tells objects apart, also those of two groups that have kinds of one name.
func rowKey(k plan.Key) string { return k.GroupKind.String() + "/" + k.Namespace + "/" + k.Name }

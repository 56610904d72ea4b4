package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/internal/console"
	"mlkeeper.dev/internal/engine/plan"
)

// maxChanges bounds the changes of Ready that are remembered of one custom resource while somebody looks.
const maxChanges = 200

// happened is one line of a timeline.
type happened struct {
	At time.Time `json:"at"`
	// What is Event, Condition, Created or Ready.
	What string `json:"what"`
	// Bad says that it is a warning.
	Bad     bool   `json:"bad"`
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// board has what the views of open stacks know, for their timelines: each is watched once, whoever tells of it.
type board struct {
	mu  sync.Mutex
	all map[console.Ref]*posted
	// next is closed when something is posted.
	next chan struct{}
}

// posted is what is known of one custom resource.
type posted struct {
	// of are the custom resource and its objects.
	of map[plan.Key]bool
	// told are the times at which objects were created and conditions changed, changes those of Ready that were seen.
	told, changes []happened
	last          string
}

// put remembers what a view shows now.
func (b *board) put(ref console.Ref, now *snapshot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[console.Ref]*posted{}
	}
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
	p := b.all[ref]
	if p == nil {
		p = &posted{}
		b.all[ref] = p
	}
	p.of, p.told = map[plan.Key]bool{plan.KeyOf(now.live): true}, conditionTimes(now.live)
	for i := range now.status.Objects {
		p.of[now.status.Objects[i].key()] = true
	}
	for _, u := range append([]*unstructured.Unstructured{now.live}, now.whole...) {
		p.told = append(p.told, happened{At: u.GetCreationTimestamp().UTC(), What: "Created", Object: u.GetKind() + "/" + u.GetName()})
	}
	s := &now.status
	if sign := s.Ready + s.Reason; p.last != sign {
		// The first is what was so before: its condition tells of it.
		if p.last != "" {
			p.changes = append(p.changes, happened{
				At: time.Now().UTC(), What: "Ready", Bad: s.Ready != string(metav1.ConditionTrue), Object: s.Kind + "/" + s.Name,
				Reason: s.Reason, Message: "Ready is " + s.Ready + ": " + s.Message,
			})
		}
		p.last, p.changes = sign, p.changes[max(0, len(p.changes)-maxChanges):]
	}
}

// remove forgets a custom resource that nobody looks at.
func (b *board) remove(ref console.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, ref)
}

// get is what is known of a custom resource, at least its name, and a channel that is closed when something else is known.
func (b *board) get(ref console.Ref) (of map[plan.Key]bool, told []happened, next <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	p := b.all[ref]
	if p == nil {
		return map[plan.Key]bool{keyOfRef(ref): true}, nil, b.next
	}
	return maps.Clone(p.of), slices.Concat(p.told, p.changes), b.next
}

func keyOfRef(ref console.Ref) plan.Key {
	key := plan.Key{Namespace: ref.Namespace, Name: ref.Name}
	key.Group, key.Kind = ref.Group, ref.Kind
	return key
}

// conditionTimes are the last changes of the conditions of a custom resource.
func conditionTimes(u *unstructured.Unstructured) []happened {
	var out []happened
	for _, c := range conditionsOf(u) {
		if !c.LastTransitionTime.IsZero() {
			out = append(out, happened{
				At: c.LastTransitionTime.UTC(), What: "Condition", Object: u.GetKind() + "/" + u.GetName(), Reason: c.Reason,
				Message: Clean(fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message)),
			})
		}
	}
	return out
}

// Timeline implements console.Source: the events of the custom resource, its objects and their pods by one watch for each namespace, and what
// the view of the stack has seen.
func (s *consoleSource) Timeline(ctx context.Context, ref console.Ref, feed *console.Feed) error {
	one, err := s.open(ctx, ref)
	if err != nil {
		return err
	}
	t := &timeline{
		consoleSource: s, by: map[string]*informer{}, changed: make(chan struct{}, 1), failed: make(chan error, 1), refused: map[string]string{},
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		t.running.Wait()
	}()
	if err := t.watch(ctx, cmp.Or(one.namespace, metav1.NamespaceDefault)); err != nil {
		return err
	}
	for {
		of, told, next := s.board.get(ref)
		for key := range of {
			if err := t.watch(ctx, cmp.Or(key.Namespace, metav1.NamespaceDefault)); err != nil {
				return err
			}
		}
		if err := feed.Replace(t.rows(of, told)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-t.failed:
			return err
		case <-t.changed:
		case <-next:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
	}
}

// timeline is what happened to one custom resource.
type timeline struct {
	*consoleSource
	by      map[string]*informer
	changed chan struct{}
	// failed gets that the credentials are not accepted any more.
	failed  chan error
	running sync.WaitGroup

	mu sync.Mutex
	// refused says why the events of a namespace are not shown, as long as that is so.
	refused map[string]string
}

// watch watches the events of a namespace, once.
func (t *timeline) watch(ctx context.Context, namespace string) error {
	if t.by[namespace] != nil {
		return nil
	}
	mapping, err := t.lookup(eventKind)
	if err != nil || mapping == nil {
		return err
	}
	wake := func(any) {
		select {
		case t.changed <- struct{}{}:
		default:
		}
	}
	i := t.watched(mapping.Resource, namespace, func() {
		t.mu.Lock()
		delete(t.refused, namespace)
		t.mu.Unlock()
		wake(nil)
	})
	if err := i.SetTransform(reduceEvent); err != nil {
		return err
	}
	if err := i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsUnauthorized(err) {
			select {
			case t.failed <- unauthorized(err):
			default:
			}
		}
		if apierrors.IsForbidden(err) {
			t.mu.Lock()
			t.refused[namespace] = Clean(fmt.Sprintf("Events are not shown: %v. Request the rights list and watch.", err))
			t.mu.Unlock()
			wake(nil)
		}
	}); err != nil {
		return err
	}
	if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: wake, UpdateFunc: func(any, any) { wake(nil) }, DeleteFunc: wake,
	}); err != nil {
		return err
	}
	t.by[namespace] = &informer{i, eventKind}
	ctx = logr.NewContext(ctx, logr.Discard())
	t.running.Go(func() { i.RunWithContext(ctx) })
	return nil
}

// reduceEvent keeps of an event what a line shows: a namespace may have ten thousand of them.
func reduceEvent(item any) (any, error) {
	u, ok := item.(*unstructured.Unstructured)
	if !ok {
		return item, nil
	}
	out := identityOf(u)
	for _, field := range []string{"type", "reason", "message", "lastTimestamp", "eventTime"} {
		if text, ok := u.Object[field].(string); ok {
			out.Object[field] = cut(text, maxEventText)
		}
	}
	about, _, _ := unstructured.NestedMap(u.Object, "involvedObject")
	out.Object["involvedObject"] = map[string]any{
		"apiVersion": textOf(about["apiVersion"]), "kind": textOf(about["kind"]), "namespace": textOf(about["namespace"]), "name": textOf(about["name"]),
	}
	if at, found, _ := unstructured.NestedString(u.Object, "series", "lastObservedTime"); found {
		out.Object["series"] = map[string]any{"lastObservedTime": at}
	}
	return out, nil
}

// maxEventText bounds a text of an event.
const maxEventText = 1024

// rows are the latest of what happened.
func (t *timeline) rows(of map[plan.Key]bool, all []happened) map[string]any {
	for _, i := range t.by {
		for _, event := range i.objects() {
			if !concerns(of, event) {
				continue
			}
			e := readEvent(event)
			all = append(all, happened{
				At: e.LastSeen.UTC(), What: "Event", Bad: e.Type == "Warning", Object: Clean(e.Kind + "/" + e.Name), Reason: Clean(e.Reason),
				Message: Clean(e.Message),
			})
		}
	}
	slices.SortStableFunc(all, func(a, b happened) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	out := map[string]any{}
	for _, one := range all[:min(len(all), maxEvents)] {
		out[strings.Join([]string{one.At.Format(time.RFC3339Nano), one.What, one.Object, one.Reason, cut(one.Message, 80)}, "/")] = one
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for namespace, why := range t.refused {
		out["note/"+namespace] = noteRow{why}
	}
	return out
}

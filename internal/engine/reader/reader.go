// Package reader gives controllers the reads with which they gather facts (controller.Reader), from caches where it can. It never
// writes, and it opens watches through the informer manager only.
package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/apistatus"
	"mlkeeper.dev/internal/engine/background"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/digest"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/watch"
)

// Informers is the part of the informer manager that readers need.
type Informers interface {
	Reference(ctx context.Context, referrer watch.Referrer, gvk schema.GroupVersionKind, namespace, name string) (
		*metav1.PartialObjectMetadata, bool, error)
	ReferenceWatchError(gvk schema.GroupVersionKind, namespace, name string) error
	ReleaseReferences(referrer watch.Referrer, except ...watch.Ref)
	Child(controller string, key plan.Key) (*observe.Object, bool)
	ChildSynced(gk schema.GroupKind, controller string) bool
	ChildWatchError(gk schema.GroupKind, controller string) error
	ListResources(gk schema.GroupKind, namespace string) []metav1.Object
	ListTargets(name, namespace string) []*unstructured.Unstructured
}

// Catalog is the part of the catalog of served APIs that readers need.
type Catalog interface {
	Lookup(gvk schema.GroupVersionKind) (catalog.Mapping, bool)
	ServesVersion(gv schema.GroupVersion) bool
	Kinds() []schema.GroupVersionKind
	KubernetesVersion() string
}

// Readers makes the readers of all reconciles. They share the contents of the objects that were read live.
type Readers struct {
	Informers Informers
	Catalog   Catalog
	// Live is what objects and background jobs read with.
	Live  controller.Live
	Jobs  *background.Jobs[watch.Referrer]
	Clock clock.PassiveClock
	// DigestKey returns the key of Digest.
	DigestKey func() digest.Key

	contents contents
}

// Request says for which custom resource a reader reads.
type Request struct {
	Stack plan.Stack
	// Declared says of a kind whether the controller watches it for all its custom resources.
	Declared func(schema.GroupKind) bool
	// Recorded says of an object whether it was recorded as a child of the custom resource.
	Recorded func(plan.Key) bool
	// WatchGroup receives the groups whose APIs the controller asks for; they are none that its definition names.
	WatchGroup func(group string)
	// WatchKinds says that the controller asks for all kinds.
	WatchKinds func()
}

// New makes the reader of one reconcile.
func (r *Readers) New(req Request) *Reader {
	return &Reader{shared: r, Request: req, referrer: watch.Referrer{
		Kind: req.Stack.GVK.GroupKind(), Namespace: req.Stack.Namespace, Name: req.Stack.Name,
	}}
}

// Drop drops the contents of objects that a custom resource no longer reads.
func (r *Readers) Drop(refs []watch.Ref) {
	for _, ref := range refs {
		r.contents.drop(ref)
	}
}

// Evict drops the contents that a custom resource read and, since it is Ready, hardly reads again, while there are many.
func (r *Readers) Evict(refs []watch.Ref) { r.contents.evict(refs) }

// Reader reads for one reconcile of one custom resource, and records which objects of others that refers to.
type Reader struct {
	Request
	shared   *Readers
	referrer watch.Referrer
	// used are the objects of others that the custom resource refers to, read those with contents that were read.
	used, read []watch.Ref
	// lost are the objects that were read live because they were recorded as children and are not seen as such, and whether they were there.
	lost map[watch.Ref]bool
	// opening names the object whose watch is being opened, and unseen is the problem that a child is not seen for that.
	opening string
	unseen  *plan.Problem
	// jobs are the names of the background jobs, due is when the first of them runs again.
	jobs []string
	due  time.Time
	// unanswered says that a job runs and has no result yet, waits that such a job has waited for long, panicked that the last run of one
	// panicked.
	unanswered, waits, panicked bool
}

var _ controller.Reader = (*Reader)(nil)

// Referenced implements controller.Reader.
func (r *Reader) Referenced(
	ctx context.Context, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	return r.ReferencedAs(ctx, "", gvk, namespace, name)
}

// ReferencedAs implements controller.Reader.
func (r *Reader) ReferencedAs(
	ctx context.Context, user string, gvk schema.GroupVersionKind, namespace, name string,
) (*unstructured.Unstructured, error) {
	ref := watch.Ref{GVK: gvk, Namespace: namespace, Name: name}
	// A child is watched already.
	if own := r.Child(gvk, namespace, name); own != nil && own.Annotations[keeper.OwnerAnnotation] == r.Stack.ID() {
		return r.content(ctx, user, ref, &own.ObjectMeta)
	} else if r.Recorded(plan.Key{GroupKind: gvk.GroupKind(), Namespace: namespace, Name: name}) {
		// It is gone, or has lost the label by which children are watched.
		live, err := r.live(ctx, user, ref)
		if r.lost == nil {
			r.lost = map[watch.Ref]bool{}
		}
		r.lost[ref] = live != nil
		return live, err
	}
	r.used = append(r.used, ref)
	meta, known, err := r.shared.Informers.Reference(ctx, r.referrer, gvk, namespace, name)
	if apierrors.IsForbidden(err) {
		return nil, plan.Problem{
			Class: plan.Blocked, Reason: "Forbidden", Field: gvk.Kind, Value: name,
			Message: "MLKeeper may not watch " + gvk.Kind + " in namespace " + namespace,
			Remedy:  "grant get, list and watch on it to MLKeeper's service account: `mlkeeper rbac` prints its roles, with -f or --namespace also those in a namespace",
		}
	}
	if errors.Is(err, watch.ErrTooManyNamespaces) {
		return nil, plan.Problem{
			Class: plan.Blocked, Reason: "TooManyNamespaces", Field: gvk.Kind, Value: namespace + "/" + name, Message: err.Error(),
			Remedy: "refer to fewer namespaces",
		}
	}
	if err != nil {
		return nil, err
	}
	if !known {
		r.opening = fmt.Sprintf("%s %s/%s", gvk.Kind, namespace, name)
		return nil, unwatched(gvk, name, r.shared.Informers.ReferenceWatchError(gvk, namespace, name))
	}
	if meta == nil {
		r.shared.contents.drop(ref)
		return nil, nil
	}
	return r.content(ctx, user, ref, &meta.ObjectMeta)
}

// unwatched says that it is not known yet whether an object exists, and why the watch on it cannot be opened, if that is so.
func unwatched(gvk schema.GroupVersionKind, name string, failure error) plan.Problem {
	out := plan.Problem{
		Class: plan.Waiting, Reason: decide.ReasonNotSynced,
		Message: "the watch on " + gvk.Kind + " " + name + " is being opened", Remedy: "nothing to do",
	}
	if failure == nil {
		return out
	}
	resource := strings.ToLower(gvk.Kind)
	if gvk.Group != "" {
		resource += "." + gvk.Version + "." + gvk.Group
	}
	out.Message = fmt.Sprintf("%s %s cannot be watched: %v", gvk.Kind, name, failure)
	out.Remedy = fmt.Sprintf("look whether `kubectl get %s` fails too, such as for a conversion webhook or an aggregated API server that "+
		"does not answer; it is tried again by itself", resource)
	return out
}

// content returns an object that exists, read live only when its metadata changed.
func (r *Reader) content(ctx context.Context, user string, ref watch.Ref, meta *metav1.ObjectMeta) (*unstructured.Unstructured, error) {
	r.read = append(r.read, ref)
	if kept := r.shared.contents.get(user, ref, meta.UID, meta.ResourceVersion); kept != nil {
		return kept, nil
	}
	live, err := r.live(ctx, user, ref)
	if err != nil || live == nil {
		return nil, err
	}
	r.shared.contents.put(user, ref, live)
	return live, nil
}

// live reads an object; nil where it is absent.
func (r *Reader) live(ctx context.Context, user string, ref watch.Ref) (*unstructured.Unstructured, error) {
	live, err := r.shared.Live.Get(ctx, user, ref.GVK, ref.Namespace, ref.Name)
	if user != "" && apistatus.MayNotActAs(err, user) {
		return nil, plan.Problem{
			Class: plan.Blocked, Reason: "Forbidden", Field: ref.GVK.Kind, Value: ref.Name,
			Message: "MLKeeper may not act as " + user,
			Remedy:  "grant it: `mlkeeper rbac -f` prints the roles for a custom resource, `mlkeeper rbac --namespace` those for a namespace",
		}
	}
	if user != "" && apierrors.IsForbidden(err) {
		return nil, controller.UserRefused{Problem: plan.Problem{
			Class: plan.Blocked, Reason: "Forbidden", Field: ref.GVK.Kind, Value: ref.Name,
			Message: fmt.Sprintf("%s may not read %s %s in namespace %s", user, ref.GVK.Kind, ref.Name, ref.Namespace),
			Remedy:  "grant it the verb get on this object",
		}}
	}
	return live, err
}

// Child implements controller.Reader.
func (r *Reader) Child(gvk schema.GroupVersionKind, namespace, name string) *observe.Object {
	gk, informers := gvk.GroupKind(), r.shared.Informers
	opening := r.Declared(gk) && !informers.ChildSynced(gk, r.Stack.Controller) && informers.ChildWatchError(gk, r.Stack.Controller) == nil
	o, seen := informers.Child(r.Stack.Controller, plan.Key{GroupKind: gk, Namespace: namespace, Name: name})
	if opening && !seen {
		r.opening = fmt.Sprintf("%s %s/%s", gvk.Kind, namespace, name)
		problem := unwatched(gvk, name, nil)
		r.unseen = &problem
	}
	if o != nil && r.Stack.OfAnother(o) {
		return nil
	}
	return o
}

// Unseen is the problem that a child which was asked for is not seen because the watch on its kind is still being opened; nil where there is none.
// A watch that cannot be opened holds up nothing.
func (r *Reader) Unseen() *plan.Problem { return r.unseen }

// Serves implements controller.Reader.
func (r *Reader) Serves(gvk schema.GroupVersionKind) bool {
	r.WatchGroup(gvk.Group) // The kind may be none of those that the controller declares.
	_, served := r.shared.Catalog.Lookup(gvk)
	return served
}

// Namespaced implements controller.Reader.
func (r *Reader) Namespaced(gvk schema.GroupVersionKind) (namespaced, served bool) {
	mapping, ok := r.shared.Catalog.Lookup(gvk)
	return mapping.Namespaced, ok
}

// ServesVersion implements controller.Reader.
func (r *Reader) ServesVersion(gv schema.GroupVersion) bool {
	r.WatchGroup(gv.Group)
	return r.shared.Catalog.ServesVersion(gv)
}

// Kinds implements controller.Reader.
func (r *Reader) Kinds() []schema.GroupVersionKind {
	r.WatchKinds()
	return r.shared.Catalog.Kinds()
}

// KubernetesVersion implements controller.Reader.
func (r *Reader) KubernetesVersion() string { return r.shared.Catalog.KubernetesVersion() }

// Siblings implements controller.Reader.
func (r *Reader) Siblings() []client.Object {
	all := Alive(r.shared.Informers.ListResources(r.Stack.GVK.GroupKind(), r.Stack.Namespace))
	out := all[:0]
	for _, o := range all {
		if o.GetUID() != r.Stack.UID {
			out = append(out, o)
		}
	}
	return out
}

// Alive keeps what decodes and is not being deleted, oldest first (creationTimestamp, then UID).
func Alive(all []metav1.Object) []client.Object {
	var out []client.Object
	for _, o := range all {
		if _, bad := o.(*watch.Undecodable); bad {
			continue
		}
		if c, ok := o.(client.Object); ok && o.GetDeletionTimestamp() == nil {
			out = append(out, c)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i].GetCreationTimestamp(), out[j].GetCreationTimestamp()
		if !a.Equal(&b) {
			return a.Before(&b)
		}
		return out[i].GetUID() < out[j].GetUID()
	})
	return out
}

// Targets implements controller.Reader.
func (r *Reader) Targets(wire, namespace string) []*unstructured.Unstructured {
	return r.shared.Informers.ListTargets(wire, namespace)
}

// Background implements controller.Reader.
func (r *Reader) Background(name string, every time.Duration, job controller.Job) any {
	return r.note(name, r.shared.Jobs.Get(r.referrer, name, every, func(ctx context.Context) any { return job(ctx, r.shared.Live) }))
}

// Render implements controller.Reader.
func (r *Reader) Render(name string, every time.Duration, job controller.Job) any {
	return r.note(name, r.shared.Jobs.Render(r.referrer, name, every, func(ctx context.Context) any { return job(ctx, r.shared.Live) }))
}

// note notes what is known of a job, and returns its result.
func (r *Reader) note(name string, state background.State) any {
	r.jobs = append(r.jobs, name)
	r.unanswered = r.unanswered || state.Running && state.Result == nil
	r.waits = r.waits || state.Waits && state.Result == nil
	r.panicked = r.panicked || state.Panicked
	if !state.Due.IsZero() && (r.due.IsZero() || state.Due.Before(r.due)) {
		r.due = state.Due
	}
	return state.Result
}

// Digest implements controller.Reader.
func (r *Reader) Digest(secrets ...map[string][]byte) string {
	return r.shared.DigestKey().For(string(r.Stack.UID)).Secrets(secrets...)
}

// Now implements controller.Reader.
func (r *Reader) Now() time.Time { return r.shared.Clock.Now() }

// Due is when the first of the background jobs runs again; the zero time where none does.
func (r *Reader) Due() time.Time { return r.due }

// Opening names the object whose watch is being opened, which this reconcile could not go on without; empty for none.
func (r *Reader) Opening() string { return r.opening }

// Unanswered says that a background job runs and has no result yet.
func (r *Reader) Unanswered() bool { return r.unanswered }

// Waits says that a background job without a result has waited for its turn for as long as it may work.
func (r *Reader) Waits() bool { return r.waits }

// Panicked says that the last run of a background job panicked.
func (r *Reader) Panicked() bool { return r.panicked }

// Read returns what this reconcile or the one before read with its contents. A reconcile that ends early keeps it, so that the contents
// are dropped later.
func (r *Reader) Read(before []watch.Ref) []watch.Ref {
	out := slices.Clone(before)
	for _, ref := range r.read {
		if !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	return out
}

// WatchLost has the lost objects watched that a plan no longer has: an object of somebody else may have taken the place of one, and no watch on
// children tells when that goes. ended says that one has gone since it was read: a watch that was open already sends no event for it.
func (r *Reader) WatchLost(ctx context.Context, p plan.Plan) (ended bool) {
	for ref, found := range r.lost {
		if p.Has(plan.Key{GroupKind: ref.GVK.GroupKind(), Namespace: ref.Namespace, Name: ref.Name}) {
			continue
		}
		// What keeps the watch from opening is told when the object is read the next time.
		there, known := r.Occupied(ctx, ref.GVK, ref.Namespace, ref.Name)
		ended = ended || found && known && !there
	}
	return ended
}

// Occupied has the object watched that another owner has under the name of a child. It says whether there is one, and whether that is known: the
// custom resource is enqueued once the watch is open, and when the object goes.
func (r *Reader) Occupied(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (there, known bool) {
	r.used = append(r.used, watch.Ref{GVK: gvk, Namespace: namespace, Name: name})
	meta, synced, err := r.shared.Informers.Reference(ctx, r.referrer, gvk, namespace, name)
	return meta != nil, synced && err == nil
}

// Done ends the reconcile: it releases the references that were not used, ends the background jobs that were not asked for, and drops
// the contents that the reconcile before read and this one did not. It returns what was read.
func (r *Reader) Done(before []watch.Ref) []watch.Ref {
	for _, ref := range before {
		if !slices.Contains(r.read, ref) {
			r.shared.contents.drop(ref)
		}
	}
	r.shared.Informers.ReleaseReferences(r.referrer, r.used...)
	r.shared.Jobs.Keep(r.referrer, r.jobs...)
	return r.read
}

package controller

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/backoff"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/engine/wiring"
)

// Common points at the fields of a custom resource that every kind has and that the engine fills.
type Common struct {
	Conditions             *[]metav1.Condition
	ObservedGeneration     *int64
	LastHandledReconcileAt *string
	// Inventory is the inventory of a stack without Inventories.
	Inventory *keeper.ResourceInventory
	// LastUpdateTime is stamped when the status changed otherwise; nil for kinds without the field.
	LastUpdateTime **metav1.Time
}

// Definition describes a kind to the engine.
type Definition[C client.Object] struct {
	// Controller is the name of the controller, a DNS label such as trustyai; it is also the value of the controller label.
	Controller string
	// GVK is the stored version of the kind, the one that is watched.
	GVK schema.GroupVersionKind
	// Resource is the plural of the kind, as its CustomResourceDefinition has it. A guess would not do: a definition of the
	// wrong name is not found, which would mean that every custom resource is gone (invariant 4).
	Resource string
	// New returns an empty custom resource.
	New func() C
	// Common points at the shared fields of a custom resource.
	Common func(C) Common
	// Children are the kinds that the controller may render, in the version it renders them.
	Children []schema.GroupVersionKind
	// AnyChildren says that the controller renders kinds that users choose: each is watched while it is rendered or recorded.
	AnyChildren bool
	// RendersAnswers says that rendering needs the answers of probes, so that a command that renders has to ask.
	RendersAnswers bool
	// DefaultName is the name that a command gives a custom resource whose file has none, as those of some originals; empty
	// where a name is required.
	DefaultName string
	// Retained are the kinds of which the controller retains objects (plan.Object.Retain) that the previous operator made
	// owned by the custom resource; they are freed from it although nothing can be rendered (invariant 8).
	Retained []schema.GroupVersionKind
	// AlsoServed are kinds that the controller asks Reader.Serves about without rendering them.
	AlsoServed []schema.GroupVersionKind
	// Shared are objects that custom resources of every namespace refer to under the same name; one watch serves them all.
	Shared []Named
	// ConfirmAbsence are the kinds of objects that are created right before a custom resource which refers to them. The watch of the custom
	// resource may be ahead of theirs, so that an absence is confirmed by a live read, once for each reference.
	ConfirmAbsence []schema.GroupVersionKind
	// WakeSiblings wakes the other custom resources of the namespace when one is created, becomes Ready, ceases to be so or is
	// deleted, for controllers in which one of several comes first.
	WakeSiblings bool
	// Depends says that a custom resource depends on others of its kind in the namespace: it is woken when one of them is created, gets
	// another spec, becomes Ready, ceases to be so or is deleted. Nil for kinds that never do.
	Depends func(C) bool
	// WarningsOnly says that a custom resource that becomes Ready is no event, for kinds whose custom resources are made by a
	// program that hears of each in a way of its own.
	WarningsOnly bool
	// Suspended says that the spec itself suspends the custom resource, as the annotation keeper.mlkeeper.dev/suspend does;
	// nil for kinds without such a field.
	Suspended func(C) bool
	// Wires are the objects of others that the controller edits (invariant 7).
	Wires []wiring.Wire
	// Annotations are the names of the annotations of a custom resource that the controller reads beside MLKeeper's own, and StripFinalizers are
	// the finalizers that it may ask for: no others are kept, nor labels, nor owner references (observe.Metadata).
	Annotations []string
	// StripFinalizers are the finalizers of the previous operator: they are taken off at once (invariant 8).
	StripFinalizers []string
	// PreviousManagers are the names under which the previous operator wrote its objects: what it declared and the controller
	// does not goes when such an object is adopted (invariant 8). Other programs may have the same names, so a name counts only together
	// with another mark of that operator (fieldownership.PreviousManagers).
	PreviousManagers []string
	// PreviousTakesBack says that the previous operator can take its custom resources over again, for which `mlkeeper hand-back` prepares
	// them. That its field managers are known does not say so.
	PreviousTakesBack bool
	// Rules are the RBAC rules that the controller needs on top of those for its children, as "group/resource: verbs".
	Rules []Rule
}

// Named is an object of a kind, in whatever namespace.
type Named struct {
	GVK  schema.GroupVersionKind
	Name string
}

// Rule is one RBAC rule, from which the ClusterRole of the controller is generated.
type Rule struct {
	Group     string
	Resources []string
	Names     []string
	Verbs     []string
	// Why says what the right is needed for; it becomes a comment in the generated role.
	Why string
	// PerNamespace says that the right is needed in the namespaces of the custom resources only, and that an administrator grants it there:
	// the ClusterRole of the controller does not have it.
	PerNamespace bool
}

// Controller gathers, renders and projects for its kind C with facts F.
type Controller[C client.Object, F any] interface {
	// Gather does every read that rendering needs. A returned plan.Problem ends the reconcile as Stalled or waiting;
	// any other error is transient.
	Gather(ctx context.Context, read Reader, cr C) (F, error)
	// Render is pure: the same custom resource and facts give the same plan.
	Render(cr C, facts F) plan.Plan
	// Project writes what was observed onto the status of cr, but for the conditions Ready, Reconciling and Stalled,
	// observedGeneration and the inventory, which the engine writes. It is pure. The returned verdict may reword Ready.
	Project(cr C, facts F, seen ObservedState) Verdict
}

// Watched lists every kind whose appearance or disappearance concerns the controller.
func (d Definition[C]) Watched() []schema.GroupVersionKind {
	out := append([]schema.GroupVersionKind(nil), d.Children...)
	out = append(out, d.AlsoServed...)
	for _, w := range d.Wires {
		out = append(out, w.GVK)
	}
	return out
}

// PlanCache is implemented by controllers with large plans whose facts say cheaply that they give the same plan: while the spec of the
// custom resource is the same, too, nothing is rendered again. Render then depends on nothing else of the custom resource but its name,
// namespace and UID.
type PlanCache[F any] interface {
	SamePlan(before, now F) bool
}

// Forgetful is implemented by controllers that keep something of a custom resource, and forget it when that is gone or was made anew.
type Forgetful interface {
	Forget(key types.NamespacedName)
}

// Evicting is implemented by controllers that drop what they keep of custom resources where memory is needed for others. OnEvict has a
// function called with each of these, so that the engine drops what it keeps of the same, too; it calls no method of the controller.
type Evicting interface {
	OnEvict(evicted func(types.NamespacedName))
}

// Reader is every read that a controller may do.
type Reader interface {
	// Referenced returns an object of somebody else that the custom resource refers to by name. The engine watches
	// its metadata under that name only and reads it live only when it changed (invariant 13). It returns nil without error
	// when the object is absent; the custom resource is woken when it appears. Only a Secret has its managedFields.
	Referenced(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	// ReferencedAs is Referenced with the rights of a user, for what the author of the custom resource may have read for him: a
	// UserRefused says where the user may not read it. An empty user has the operator's rights.
	ReferencedAs(ctx context.Context, user string, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	// Child returns what was observed of an object under a child's name, or nil. What somebody else controls is no child, whatever its labels are.
	Child(gvk schema.GroupVersionKind, namespace, name string) *observe.Object
	// Serves says whether the cluster serves a kind; the custom resource is woken when that changes.
	Serves(gvk schema.GroupVersionKind) bool
	// Namespaced says whether the objects of a kind are in namespaces; it is only known while the kind is served.
	Namespaced(gvk schema.GroupVersionKind) (namespaced, served bool)
	// ServesVersion says whether the cluster serves any kind of a group and version; the custom resource is woken when a kind
	// of the group comes or goes.
	ServesVersion(gv schema.GroupVersion) bool
	// Kinds returns every kind that the cluster serves, in every version, in a fixed order; the custom resource is woken when one comes or
	// goes.
	Kinds() []schema.GroupVersionKind
	// KubernetesVersion is the version of the API server, such as v1.36.2; empty where it tells none.
	KubernetesVersion() string
	// Siblings returns the other custom resources of the same kind in the namespace, oldest first (creationTimestamp,
	// then UID), without those that are being deleted.
	Siblings() []client.Object
	// Targets returns the objects that the named wire watches in the namespace, reduced by the wire's Strip.
	Targets(wire, namespace string) []*unstructured.Unstructured
	// Background runs a job that asks for what cannot be watched, such as the state of a server in a pod (invariant 15), outside the
	// reconcile. It returns the last result, nil while there is none; the end of a run enqueues the custom resource. The job runs
	// again when its last result is older than every, never with Once. After a failure, which is a nil result or a Retryable one
	// that says so, it runs again with backoff from five seconds to five minutes, or to what the result says. A job ends when a
	// reconcile does not name it. It has three minutes, without what it waits for its turn; where it has no result and has waited for as long, the
	// message of a plan.Problem that is Brief says so. In the steady state a job runs Once, or seldom and without a read of the cluster.
	Background(name string, every time.Duration, job Job) any
	// Render is Background for a job that fetches or renders: it may take minutes, and neither waits for those of Background nor holds them up.
	Render(name string, every time.Duration, job Job) any
	// Digest returns a digest of the data of Secrets, for annotations that restart pods when it changes (invariant 16). Its key is that of
	// the installation, so that who reads the annotation cannot try passwords against it. Equal data of two custom resources has two
	// digests.
	Digest(secrets ...map[string][]byte) string
	// Now is the engine's clock.
	Now() time.Time
}

// UserRefused is the error of ReferencedAs where the user may not read an object: a plan.Problem that a controller which can do without the
// object tells from the operator's own refusal, which an administrator has to know of.
type UserRefused struct{ Problem plan.Problem }

// Error implements error.
func (e UserRefused) Error() string { return e.Problem.Error() }

// Unwrap gives the plan.Problem.
func (e UserRefused) Unwrap() error { return e.Problem }

// Once is how often a job runs whose result stays valid.
const Once time.Duration = 0

// Job returns a result of any type, or nil if it failed. It may block until its context is done, and runs concurrently with other jobs of
// its custom resource.
type Job func(ctx context.Context, live Live) any

// Retryable is implemented by results that may report a failure, such as a repository that does not answer. The job runs again with
// backoff up to Retry; zero means no failure.
type Retryable interface {
	Retry() time.Duration
}

// Failing is implemented by results that tell why their job failed, as the reason of a condition; empty where it did not.
type Failing interface {
	Cause() string
}

// The longest backoff of a job: after a failure that may pass by itself, and after one that most likely needs a change by a user, which
// may be where no watch reports it.
const (
	RetryPassing = backoff.Longest
	RetryLasting = time.Hour
)

// Live is what a job may read of the cluster.
type Live interface {
	// List returns at most limit objects of a namespace whose labels match.
	List(ctx context.Context, gvk schema.GroupVersionKind, namespace, selector string, limit int64) ([]unstructured.Unstructured, error)
	// ListAs returns the objects of a kind in a namespace, or in all where it is empty, as a user may read them, in the order of their
	// names; none where the kind is not served, and an error where they are more than limit, or larger than a few MiB.
	ListAs(ctx context.Context, user string, gvk schema.GroupVersionKind, namespace string, limit int) ([]unstructured.Unstructured, error)
	// Get returns an object as a user may read it, with the operator's own rights where the user is empty; nil where it is
	// absent or its kind is not served.
	Get(ctx context.Context, user string, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
}

// ObservedState is what the engine observed and did in this reconcile, for the projection onto status.
type ObservedState struct {
	// Plan is what Render gave.
	Plan plan.Plan
	// Objects holds what is known of every object of the plan, after this reconcile's writes.
	Objects map[plan.Key]State
	// Leaving are the objects of earlier plans that are still there.
	Leaving []plan.Key
	// Skipped names the optional objects whose API is not served.
	Skipped []string
	// Problems are those of the plan and those that the writes met.
	Problems []plan.Problem
	// Ready says that every object of the plan that counts is healthy and nothing stands in the way.
	Ready bool
	// Warnings tell of input that was accepted but not used as given.
	Warnings []string
	// Wiring holds the outcomes of the wires for this custom resource, by the object that is edited ("Kind ns/name").
	Wiring map[string][]wiring.Outcome
	// Waiting is one sentence on what is waited for; empty when Ready.
	Waiting string
	// Now is the engine's clock.
	Now time.Time
}

// State is what is known of one object of the plan.
type State struct {
	// Observed is nil while the object does not exist; a Job that has completed and is gone is Current all the same.
	Observed *observe.Object
	// Current says that the object is as declared and healthy.
	Current bool
}

// WaitingFor says what an object waits for.
func (s State) WaitingFor(key plan.Key) string {
	switch {
	case s.Observed == nil:
		return "waiting for " + key.String() + " to exist"
	case s.Observed.Health.Message != "":
		return "waiting for " + key.String() + ": " + s.Observed.Health.Message
	}
	return "waiting for " + key.String()
}

// Find returns the state of the first object of a kind and name, whatever its namespace.
func (s ObservedState) Find(kind, name string) (State, bool) {
	for key, state := range s.Objects {
		if key.Kind == kind && key.Name == name {
			return state, true
		}
	}
	return State{}, false
}

// Verdict is how a controller words the Ready condition. It cannot turn a stack that is not ready into one that is; Hold
// can do the opposite.
type Verdict struct {
	// Reason and Message of the Ready condition; empty leaves the engine's.
	Reason, Message string
	// Progress tells how far the custom resource is while it is not ready, before what it waits for; such as "12/44
	// applications ready".
	Progress string
	// Hold keeps Ready False although every object is healthy.
	Hold bool
	// Step says that later reconciles follow from what this status stores: it is written at once, and only if nobody else has
	// written the custom resource meanwhile.
	Step bool
	// Failed says that what was asked for has failed, which is an event.
	Failed bool
	// Again says that the next plan is another because of what this status stores: it is a step, and another reconcile follows.
	Again bool
}

package finalize

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/catalog"
	"mlkeeper.dev/internal/engine/decide"
	"mlkeeper.dev/internal/engine/inventory"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// Inventories stores the Inventories.
type Inventories interface {
	// Complete reports whether all Inventories are cached.
	Complete() bool
	// Of returns the Inventories of one custom resource that are not being deleted, by stage.
	Of(ownerUID string) []*keeper.Inventory
	Get(name string) (*keeper.Inventory, bool)
	List() []*keeper.Inventory
	// UpdateStatus writes the status of an Inventory, unless it has changed since it was read.
	UpdateStatus(ctx context.Context, inv *keeper.Inventory) (*keeper.Inventory, error)
	Delete(ctx context.Context, inv *keeper.Inventory) error
}

// Children has the cached children of all stacks.
type Children interface {
	ChildrenOfStack(controller, stackHash string) []*observe.Object
}

// Catalog knows which APIs the cluster serves.
type Catalog interface {
	Lookup(gvk schema.GroupVersionKind) (catalog.Mapping, bool)
	Versions(gk schema.GroupKind) []string
	// CRDExists reads the CustomResourceDefinition live.
	CRDExists(ctx context.Context, resource schema.GroupResource) (bool, error)
}

// Options are what a Finalizer works with.
type Options struct {
	Client dynamic.Interface
	// As returns the client with the rights of a user, and the operator's own for an empty name.
	As       func(user string) (dynamic.Interface, error)
	Metadata metadata.Interface
	// NamespacedResources discovers the resources that Namespaces can contain.
	NamespacedResources func() ([]*metav1.APIResourceList, error)
	Catalog             Catalog
	Inventories         Inventories
	Children            Children
	// Owner returns what the caches know of the owner of an Inventory; false if its controller is disabled in this manager.
	Owner func(owner keeper.InventoryOwner) (Owner, bool)
	// WatchChildren watches the kinds of listed children, and reports whether the caches have them.
	WatchChildren func(owner keeper.InventoryOwner, listed map[plan.Key]keeper.InventoryEntry) (synced bool)
	// StopWatching ends the watches of a finalization.
	StopWatching func(ownerUID types.UID)
	Recorder     events.EventRecorder
	Clock        clock.PassiveClock
	// Count is called for every acknowledged write, for metrics.
	Count func(key plan.Key, verb decide.Verb, reason string)
}

// Finalizer deletes the Inventories of deleted custom resources. Requests are keyed by the UID of the custom resource. It has no state
// of its own: the conditions of the Inventories are the state.
type Finalizer struct{ Options }

// New returns a finalizer.
func New(opts Options) *Finalizer { return &Finalizer{Options: opts} }

// Reconcile deletes the last Inventory of a deleted custom resource, or waits until the objects of the later ones are gone.
func (f *Finalizer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if !f.Inventories.Complete() {
		// The last stage that is seen may not be the last, and what another custom resource lists may seem to be this one's alone.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	invs := f.Inventories.Of(req.Name)
	if len(invs) == 0 {
		f.StopWatching(types.UID(req.Name))
		return reconcile.Result{}, nil
	}
	owner, ok := f.Owner(invs[0].Spec.Owner)
	switch {
	case !ok || !owner.MayFinalize:
		return reconcile.Result{}, nil
	case owner.UID == invs[0].Spec.Owner.UID:
		return reconcile.Result{}, f.reset(ctx, invs)
	}
	deleted, err := f.isOwnerDeleted(ctx, invs[0], owner)
	if err != nil || !deleted {
		return reconcile.Result{}, err
	}
	again, err := f.begin(ctx, invs, owner)
	if err == nil && again == 0 {
		again, err = f.deleteLast(ctx, invs, owner)
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// begin deletes the webhooks of a stack and records the deletion of its owner on the Inventory of the first stage, which it replaces by what was
// written. again is when to try again what could not be decided; zero if it is recorded.
func (f *Finalizer) begin(ctx context.Context, invs []*keeper.Inventory, owner Owner) (again time.Duration, err error) {
	conditions := []metav1.Condition{{
		Type: ConditionOwnerDeleted, Reason: ReasonOwnerNotFound, Message: "a live read confirmed that the custom resource is deleted",
	}}
	if owner.DynamicKinds {
		if !isTrue(invs[0], ConditionWebhooksDeleted) {
			if again, err := f.deleteWebhooks(ctx, invs); err != nil || again > 0 {
				return again, err
			}
		}
		conditions = append(conditions, metav1.Condition{
			Type: ConditionWebhooksDeleted, Reason: ReasonWebhooksDeleted, Message: "webhooks and APIServices that call the stack's Services are deleted",
		})
	}
	written, err := f.setConditions(ctx, invs[0], conditions...)
	if err == nil {
		invs[0] = written
	}
	return 0, err
}

// deleteLast deletes the Inventory of the last stage. again is when to check again what it waits for; zero if it is deleted.
func (f *Finalizer) deleteLast(ctx context.Context, invs []*keeper.Inventory, owner Owner) (again time.Duration, err error) {
	last := invs[len(invs)-1]
	if !f.WatchChildren(last.Spec.Owner, inventory.Entries(invs)) {
		// Without the caches, a stage would seem to be deleted.
		rest, err := f.wait(ctx, last, ReasonCacheNotSynced, "waiting for the watches on the kinds of its objects")
		if err != nil || rest > 0 {
			return min(rest, time.Second), err
		}
	}
	if object := f.remaining(invs); object != "" {
		again, err := f.wait(ctx, last, ReasonWaitingForObjects, "waiting for "+object+" to be deleted")
		if err != nil || again > 0 {
			return again, err
		}
		log.FromContext(ctx).Info("finalization continues although an object of a later stage still exists", "object", object)
	}
	if owner.DynamicKinds {
		if again, err := f.deleteRetained(ctx, last); err != nil || again > 0 {
			return again, err
		}
	}
	if err := f.Inventories.Delete(ctx, last); err != nil {
		return 0, err
	}
	log.FromContext(ctx).Info("Inventory of a deleted custom resource deleted", "inventory", last.Name)
	return 0, nil
}

// remaining names an object that still exists and whose Inventory, one of a later stage of the same custom resource, is deleted; empty for
// none. It is the first by name, so that the condition changes only when that object is gone. The label of a stack can be computed, so that
// whoever may write an object anywhere can give it that: the name of the Inventory tells, which has a part of the UID of the custom resource.
func (f *Finalizer) remaining(invs []*keeper.Inventory) string {
	existing := map[string]bool{}
	for _, inv := range invs {
		existing[inv.Name] = true
	}
	first, last, out := invs[0], invs[len(invs)-1], ""
	for _, seen := range f.Children.ChildrenOfStack(first.Labels[keeper.ControllerLabel], first.Labels[keeper.StackLabel]) {
		ref := metav1.GetControllerOfNoCopy(&seen.ObjectMeta)
		if ref == nil || ref.APIVersion != keeper.GroupVersion.String() || ref.Kind != inventory.GVK.Kind || existing[ref.Name] ||
			!inventory.SameOwner(ref.Name, last) || inventory.SameStage(ref.Name, last) {
			continue
		}
		if name := seen.Key.String(); out == "" || name < out {
			out = name
		}
	}
	return out
}

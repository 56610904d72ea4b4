package finalize

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	// Of returns the Inventories of one custom resource that are not being deleted, by stage.
	Of(ownerUID string) []*keeper.Inventory
	Get(name string) (*keeper.Inventory, bool)
	List() []*keeper.Inventory
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
	Owner    func(owner keeper.InventoryOwner) (Owner, bool)
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Count is called for every acknowledged write, for metrics.
	Count func(key plan.Key, verb decide.Verb, reason string)
}

// Finalizer deletes the Inventories of deleted custom resources. Requests are keyed by the UID of the custom resource.
type Finalizer struct {
	Options

	mu sync.Mutex
	// waitingSince is since when the deletion of the next Inventory waits, by owner UID.
	waitingSince map[string]time.Time
	// webhooksDeleted and ownerDeleted hold the UIDs of owners whose webhooks were deleted, and whose deletion was read live.
	webhooksDeleted, ownerDeleted map[string]bool
}

// New returns a finalizer.
func New(opts Options) *Finalizer {
	return &Finalizer{
		Options: opts, waitingSince: map[string]time.Time{}, webhooksDeleted: map[string]bool{}, ownerDeleted: map[string]bool{},
	}
}

// Reconcile deletes the last Inventory of a deleted custom resource, or waits until the objects of the later ones are gone.
func (f *Finalizer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	invs := f.Inventories.Of(req.Name)
	if len(invs) == 0 {
		f.setOwnerDeleted(req.Name, false)
		return reconcile.Result{}, nil
	}
	owner, ok := f.Owner(invs[0].Spec.Owner)
	if !ok {
		return reconcile.Result{}, nil
	}
	deleted, err := f.isOwnerDeleted(ctx, invs[0].Spec.Owner, owner)
	if err != nil || !deleted {
		return reconcile.Result{}, err
	}
	if owner.DynamicKinds && !f.hasDeletedWebhooks(req.Name) {
		if err := f.deleteWebhooks(ctx, invs); err != nil {
			return reconcile.Result{}, err
		}
		f.mu.Lock()
		f.webhooksDeleted[req.Name] = true
		f.mu.Unlock()
	}
	if waitingFor, ok := f.remaining(invs); ok {
		if rest := f.remainingWait(req.Name); rest > 0 {
			log.FromContext(ctx).Info("finalization waits for an object of a later stage to be gone", "waitingFor", waitingFor)
			return reconcile.Result{RequeueAfter: rest}, nil
		}
		log.FromContext(ctx).Info("finalization continues although an object of a later stage still exists", "object", waitingFor)
	}
	last := invs[len(invs)-1]
	if owner.DynamicKinds {
		if again, err := f.deleteRetained(ctx, last); err != nil || again > 0 {
			return reconcile.Result{RequeueAfter: again}, err
		}
	}
	f.mu.Lock()
	delete(f.waitingSince, req.Name)
	if len(invs) == 1 {
		delete(f.webhooksDeleted, req.Name)
	}
	f.mu.Unlock()
	if err := f.Inventories.Delete(ctx, last); err != nil {
		return reconcile.Result{}, err
	}
	log.FromContext(ctx).Info("Inventory of a deleted custom resource deleted", "inventory", last.Name)
	return reconcile.Result{}, nil
}

func (f *Finalizer) hasDeletedWebhooks(ownerUID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.webhooksDeleted[ownerUID]
}

// remainingWait returns for how much longer the next Inventory waits; zero if it has waited long enough.
func (f *Finalizer) remainingWait(ownerUID string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.Clock.Now()
	since, ok := f.waitingSince[ownerUID]
	if !ok {
		since = now
		f.waitingSince[ownerUID] = now
	}
	return max(since.Add(plan.DefaultGateTimeout).Sub(now), 0)
}

// remaining names an object that still exists and whose Inventory, one of the same custom resource, is deleted.
func (f *Finalizer) remaining(invs []*keeper.Inventory) (string, bool) {
	existing := map[string]bool{}
	for _, inv := range invs {
		existing[inv.Name] = true
	}
	first := invs[0]
	for _, seen := range f.Children.ChildrenOfStack(first.Labels[keeper.ControllerLabel], first.Labels[keeper.StackLabel]) {
		ref := metav1.GetControllerOfNoCopy(&seen.ObjectMeta)
		if ref == nil || ref.Kind != inventory.GVK.Kind || existing[ref.Name] {
			continue
		}
		// The children of a newer custom resource of the same name have the same label.
		if inv, ok := f.Inventories.Get(ref.Name); ok && inv.Spec.Owner.UID != first.Spec.Owner.UID {
			continue
		}
		return seen.Key.String(), true
	}
	return "", false
}

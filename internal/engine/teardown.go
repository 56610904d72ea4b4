package engine

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// teardown deletes the Inventories of a custom resource that is gone, the last stage first; the garbage collector
// deletes what they own. Requests are keyed by the UID of the custom resource.
type teardown struct{ *inventories }

// Reconcile deletes the next Inventory, or waits for what the one before owned to be gone.
func (t *teardown) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	invs := t.of(req.Name)
	if len(invs) == 0 {
		t.setEnded(req.Name, false)
		return reconcile.Result{}, nil
	}
	owner := invs[0].Spec.Owner
	gone, err := t.gone(ctx, owner)
	if err != nil || !gone {
		return reconcile.Result{}, err
	}
	last := invs[len(invs)-1]
	brought := t.brought(owner)
	if brought && !t.unhooked(req.Name) {
		if err := t.unhook(ctx, invs); err != nil {
			return reconcile.Result{}, err
		}
		t.mu.Lock()
		t.swept[req.Name] = true
		t.mu.Unlock()
	}
	if waitingFor, held := t.left(invs); held {
		if rest := t.holdsBack(req.Name); rest > 0 {
			log.FromContext(ctx).Info("teardown waits for the later stage to be gone", "waitingFor", waitingFor)
			return reconcile.Result{RequeueAfter: rest}, nil
		}
		log.FromContext(ctx).Info("teardown goes on although an object is held", "held", waitingFor)
	}
	if brought {
		if again, err := t.retainedObjects(ctx, last); err != nil || again > 0 {
			return reconcile.Result{RequeueAfter: again}, err
		}
	}
	t.mu.Lock()
	delete(t.heldSince, req.Name)
	if len(invs) == 1 {
		delete(t.swept, req.Name)
	}
	t.mu.Unlock()
	if err := t.remove(ctx, last); err != nil {
		return reconcile.Result{}, err
	}
	log.FromContext(ctx).Info("the custom resource is gone: its Inventory is deleted", "inventory", last.Name)
	return reconcile.Result{}, nil
}

// brought says that the kinds of a custom resource's children are its users', among them definitions and Namespaces.
func (t *teardown) brought(owner keeper.InventoryOwner) bool {
	r, ok := t.controller(schema.GroupKind{Group: owner.Group, Kind: owner.Kind})
	return ok && r.anyChildren()
}

// unhooked says that what calls the servers of a stack was deleted by this process.
func (t *teardown) unhooked(ownerUID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.swept[ownerUID]
}

// holdsBack returns for how much longer an object of a later stage holds back the next; zero when long enough.
func (t *teardown) holdsBack(ownerUID string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Clock.Now()
	since, ok := t.heldSince[ownerUID]
	if !ok {
		since = now
		t.heldSince[ownerUID] = now
	}
	return max(since.Add(plan.DefaultGateTimeout).Sub(now), 0)
}

// gone says whether the custom resource is really gone (invariant 4). What was asked live once stays true, unless the caches show
// that UID again, as after a backup was restored: each object that goes enqueues the teardown.
func (t *teardown) gone(ctx context.Context, owner keeper.InventoryOwner) (bool, error) {
	gk := schema.GroupKind{Group: owner.Group, Kind: owner.Kind}
	r, ok := t.controller(gk)
	if !ok {
		return false, nil // A controller that is switched off here may be on elsewhere.
	}
	uid, found, known := r.alive(owner.Namespace, owner.Name)
	there := found && uid == string(owner.UID)
	if there {
		t.setEnded(uid, false)
	}
	if !known || there || !t.shard.mayEnd(owner.Namespace) {
		return false, nil
	}
	if t.hasEnded(string(owner.UID)) {
		return true, nil
	}
	gone, err := t.askWhetherGone(ctx, owner, gk, r)
	if gone {
		t.setEnded(string(owner.UID), true)
	}
	return gone, err
}

func (t *teardown) hasEnded(ownerUID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended[ownerUID]
}

func (t *teardown) setEnded(ownerUID string, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ended {
		t.ended[ownerUID] = true
	} else {
		delete(t.ended, ownerUID)
	}
}

// askWhetherGone says that a live GET of the custom resource is answered with NotFound, or another UID, while its CRD is
// served, or that a live GET shows that the CRD itself is gone. Every other answer means wait.
func (t *teardown) askWhetherGone(ctx context.Context, owner keeper.InventoryOwner, gk schema.GroupKind, r reconciler) (bool, error) {
	for _, version := range t.catalog.Versions(gk) {
		mapping, served := t.catalog.Lookup(gk.WithVersion(version))
		if !served {
			continue
		}
		live, err := t.client.Resource(mapping.Resource).Namespace(owner.Namespace).Get(ctx, owner.Name,
			metav1.GetOptions{})
		switch {
		case err == nil:
			return live.GetUID() != owner.UID, nil
		case !apierrors.IsNotFound(err):
			return false, fmt.Errorf("ask whether %s %s/%s is gone: %w", owner.Kind, owner.Namespace, owner.Name, err)
		}
		// NotFound is the answer for a missing object and for a missing API alike: only with the CRD there it counts.
		there, err := t.catalog.CRDExists(ctx, mapping.Resource.GroupResource())
		if err != nil {
			return false, err
		}
		if there {
			return true, nil
		}
	}
	there, err := t.catalog.CRDExists(ctx, r.groupResource())
	return err == nil && !there, err
}

// left names an object that a deleted Inventory of the same custom resource owned and that is still going, so that
// stages go one after the other in reverse. An object that is held for longer than a gate's timeout, by a finalizer
// that nobody serves for instance, no longer holds back the rest.
func (t *teardown) left(invs []*keeper.Inventory) (string, bool) {
	standing := map[string]bool{}
	for _, inv := range invs {
		standing[inv.Name] = true
	}
	first := invs[0]
	for _, seen := range t.informers.ChildrenOfStack(first.Labels[keeper.ControllerLabel], first.Labels[keeper.StackLabel]) {
		ref := metav1.GetControllerOfNoCopy(&seen.ObjectMeta)
		if ref == nil || ref.Kind != inventoryGVK.Kind || standing[ref.Name] {
			continue
		}
		// The children of a newer custom resource of the same name carry the same label.
		if inv, ok := t.get(ref.Name); ok && inv.Spec.Owner.UID != first.Spec.Owner.UID {
			continue
		}
		return seen.Key.String(), true
	}
	return "", false
}

package finalize

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/apistatus"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/plan"
)

// leftovers are the objects that a step of a finalization has not deleted.
type leftovers struct {
	kept map[*unstructured.Unstructured]string // Why each object stays if it does.
	// reason and message say what is undecided; empty if everything is decided.
	reason, message string
}

// keep records why an object stays.
func (l *leftovers) keep(u *unstructured.Unstructured, why string) {
	if l.kept == nil {
		l.kept = map[*unstructured.Unstructured]string{}
	}
	l.kept[u] = why
}

// undecided records why an object stays if that is still so after the wait.
func (l *leftovers) undecided(u *unstructured.Unstructured, why, reason, message string) {
	l.keep(u, why)
	l.reason, l.message = reason, message
}

// deleteObject deletes a cluster-scoped object by UID, and by resourceVersion if one is given, with the rights that the stack was
// written with. An object that may not be deleted stays: finalization never waits for rights that were deleted with the custom
// resource, nor for a policy that refuses. Every other failure, such as of a webhook whose server is down, may end by itself.
func (f *Finalizer) deleteObject(
	ctx context.Context, inv *keeper.Inventory, resource schema.GroupVersionResource, u *unstructured.Unstructured, version *string, left *leftovers,
) error {
	client, err := f.As(inv.Spec.Impersonate)
	if err != nil {
		return err
	}
	uid, background := u.GetUID(), metav1.DeletePropagationBackground
	err = client.Resource(resource).Delete(ctx, u.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: version}, PropagationPolicy: &background,
	})
	key := plan.KeyOf(u)
	switch {
	case err == nil:
		f.Count(key, "Delete", "Teardown")
		log.FromContext(ctx).Info("deleted with its custom resource", "object", key.String())
	case apierrors.IsNotFound(err):
	case apierrors.IsForbidden(err), apistatus.Denied(err):
		left.keep(u, "its deletion was refused: "+controller.Cut(err.Error(), maxAnswer))
	default:
		log.FromContext(ctx).Info("the deletion failed and is tried again", "object", key.String(), "error", err.Error())
		left.undecided(u, "its deletion failed: "+controller.Cut(err.Error(), maxAnswer),
			ReasonDeletionFailed, "waiting for "+key.String()+" to be deleted, which failed: "+cause(err))
	}
	return nil
}

// maxAnswer is how much of the API server's answer an event has, whose note has at most 1024 bytes (k8s.io/api/events/v1, Event).
const maxAnswer = 600

// cause says in few different words why a deletion failed, since each change of a condition is a write.
func cause(err error) string {
	if webhook := apistatus.FailedWebhook(err); webhook != "" {
		return "the API server could not call the " + webhook
	}
	return apistatus.Cause(err)
}

// settle waits while something is undecided, with growing pauses. Then it reports what stays, on the objects themselves. again is the pause;
// zero if the finalization goes on.
func (f *Finalizer) settle(ctx context.Context, inv *keeper.Inventory, left leftovers) (again time.Duration, err error) {
	if left.reason != "" {
		rest, err := f.wait(ctx, inv, left.reason, left.message)
		if err != nil || rest > 0 {
			return pause(rest), err
		}
	}
	for u, why := range left.kept {
		log.FromContext(ctx).Info("kept after its custom resource", "object", plan.KeyOf(u).String(), "reason", why)
		f.Recorder.Eventf(u, nil, corev1.EventTypeNormal, "Retained", "Teardown",
			"%s was deleted; this stays, since %s", inv.Annotations[keeper.OwnerAnnotation], why)
	}
	return 0, nil
}

// maxPause is the longest pause between two checks of what is undecided.
const maxPause = time.Minute

// pause returns the pause before the next check of an Inventory that waits for so much longer: as long as it has waited so far.
func pause(rest time.Duration) time.Duration {
	return min(rest, max(maxWait-rest, time.Second), maxPause)
}

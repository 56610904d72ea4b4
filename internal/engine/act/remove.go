package act

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"mlkeeper.dev/internal/engine/plan"
)

// remove deletes by UID in the background, so that the call never waits for dependents.
func (a *Actor) remove(ctx context.Context, client dynamic.ResourceInterface, res *Result) {
	background := metav1.DeletePropagationBackground
	uid := res.Action.UID
	err := client.Delete(ctx, res.Action.Key.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		// Gone already, or replaced by an object that is not the one we judged: the watch will tell.
		return
	}
	if err != nil {
		res.Err = err
		return
	}
	res.Wrote = true
}

// recreates says whether an object may be deleted and made again for the sake of an immutable field. Nothing that
// holds data or serves is, unless the plan says so.
func recreates(o plan.Stamped) bool {
	switch o.OnImmutable {
	case plan.ImmutableRecreate:
		return o.Key.Kind != "PersistentVolumeClaim"
	case plan.ImmutableStall:
		return false
	}
	switch o.Key.Kind {
	case "Job", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "Secret":
		return !o.Retain
	}
	return false
}

package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/observe"
	"mlkeeper.dev/internal/engine/plan"
)

// KeepsLimits says that the API server refused a Deployment's strategy Recreate because of the limits of a rolling update
// that another field manager holds. An apply cannot take these out: it removes only what we held, and null is no value to it.
func KeepsLimits(err error, desired *unstructured.Unstructured) bool {
	var status apierrors.APIStatus
	strategy, _, _ := unstructured.NestedString(desired.Object, "spec", "strategy", "type")
	if strategy != "Recreate" || !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "spec.strategy.rollingUpdate"
	})
}

// replaceStrategy gives a Deployment the strategy Recreate and takes the limits out, whoever holds them. Both must be in one
// write: without the other, the API server refuses the one and fills in the other again. One that is adopted has no mark of its owner yet,
// without which the admission policies let nothing be written.
func (a *Actor) replaceStrategy(ctx context.Context, client dynamic.ResourceInterface, desired *unstructured.Unstructured) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": desired.GetUID(), "annotations": map[string]any{keeper.OwnerAnnotation: desired.GetAnnotations()[keeper.OwnerAnnotation]},
		},
		"spec": map[string]any{"strategy": map[string]any{"type": "Recreate", "rollingUpdate": nil}},
	})
	if err != nil {
		return fmt.Errorf("encode %s: %w", plan.KeyOf(desired), err)
	}
	live, err := client.Patch(ctx, desired.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: observe.FieldManager})
	if err != nil {
		return err
	}
	return a.migrate(ctx, client, live, sets.New(observe.FieldManager))
}

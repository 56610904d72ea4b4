package tfserving

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// unscaledAfter is how long a HorizontalPodAutoscaler is without metrics before that is told. Pods that start have none until the metrics server
// has asked their kubelet twice, a minute at most between the two where it is as most clusters have it.
const unscaledAfter = 2 * time.Minute

// unscaled warns of an autoscaler that does not scale: a HorizontalPodAutoscaler that only an edit helps, or that has long had no metrics, such as
// where there is no metrics server or nobody knows the metric, and a ScaledObject whose triggers fail. The message of the autoscaler is not
// repeated: that of a trigger may have what KEDA read from a Secret.
func (v *view) unscaled() []string {
	for _, gvk := range scalers {
		state := v.seen.Objects[plan.Key{GroupKind: gvk.GroupKind(), Namespace: v.cr.Namespace, Name: v.cr.Name}]
		if state.Observed == nil {
			continue
		}
		h := state.Observed.Health
		waits := h.Status == health.InProgress && h.Reason != health.ReasonNotObserved && h.Reason != health.ReasonNotReady
		if h.Status == health.Failed || waits && (gvk == gvkScaledObject || v.longUnscaled(state.Observed.Stripped())) {
			return []string{fmt.Sprintf("the %s does not scale: %s; see kubectl describe %s %s", gvk.Kind, h.Reason, strings.ToLower(gvk.Kind), v.cr.Name)}
		}
	}
	return nil
}

// longUnscaled says that a HorizontalPodAutoscaler has not scaled for long while there are pods with metrics: one that loads its models has no
// reading that counts (pkg/controller/podautoscaler/replica_calculator.go).
func (v *view) longUnscaled(autoscaler *unstructured.Unstructured) bool {
	since := scalingFails(autoscaler)
	rollout, _ := v.rollout()
	return rollout.Ready > 0 && !since.IsZero() && v.seen.Now.Sub(since) >= unscaledAfter
}

// scalingFails says since when a HorizontalPodAutoscaler has not scaled; zero where it does, or does not say. It writes nothing while it goes on
// to fail.
func scalingFails(autoscaler *unstructured.Unstructured) time.Time {
	conditions, _, _ := unstructured.NestedSlice(autoscaler.Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if c["status"] != "False" || c["type"] != "AbleToScale" && c["type"] != "ScalingActive" || c["reason"] == "ScalingDisabled" {
			continue
		}
		text, _ := c["lastTransitionTime"].(string)
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at
		}
	}
	return time.Time{}
}

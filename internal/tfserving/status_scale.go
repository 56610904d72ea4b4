package tfserving

import (
	"fmt"
	"strings"

	"mlkeeper.dev/internal/engine/health"
	"mlkeeper.dev/internal/engine/plan"
)

// unscaled warns of an autoscaler that does not scale: a HorizontalPodAutoscaler that only an edit helps, and a ScaledObject whose triggers fail.
// A HorizontalPodAutoscaler that has no metrics yet is not told, as it has none whenever pods start. The message of the autoscaler is not
// repeated: that of a trigger may have what KEDA read from a Secret.
func (v *view) unscaled() []string {
	for _, gvk := range scalers {
		state := v.seen.Objects[plan.Key{GroupKind: gvk.GroupKind(), Namespace: v.cr.Namespace, Name: v.cr.Name}]
		if state.Observed == nil {
			continue
		}
		h := state.Observed.Health
		waits := h.Status == health.InProgress && h.Reason != health.ReasonNotObserved && h.Reason != health.ReasonNotReady
		if h.Status == health.Failed || waits && gvk == gvkScaledObject {
			return []string{fmt.Sprintf("the %s does not scale: %s; see kubectl describe %s %s", gvk.Kind, h.Reason, strings.ToLower(gvk.Kind), v.cr.Name)}
		}
	}
	return nil
}

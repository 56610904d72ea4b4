package tfserving

import (
	"cmp"

	"mlkeeper.dev/internal/engine/plan"
)

// monitor renders the ServiceMonitor.
func (r *renderer) monitor() {
	spec := r.cr.Spec.Monitoring
	if spec == nil {
		return
	}
	r.add(plan.Foreign(gvkServiceMonitor, r.cr.Namespace, r.cr.Name, spec.Labels, map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{selectorLabel: r.cr.Name}},
		"endpoints": []any{map[string]any{
			"port": restPortName, "path": cmp.Or(spec.Path, defaultMetrics), "interval": cmp.Or(spec.Interval, defaultInterval),
		}},
	}))
}

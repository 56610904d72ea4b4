package rendering

import (
	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/manifest/kustomize"
)

// AdjustmentsOf are the patches and the metadata of an application or a component.
func AdjustmentsOf(patches []keeper.Patch, m *keeper.CommonMetadata) (out kustomize.Adjustments) {
	if m != nil {
		out.Labels, out.Annotations = m.Labels, m.Annotations
	}
	for _, p := range patches {
		one := kustomize.Patch{Patch: p.Patch}
		if p.Target != nil {
			target := kustomize.Selector(*p.Target)
			one.Target = &target
		}
		out.Patches = append(out.Patches, one)
	}
	return out
}

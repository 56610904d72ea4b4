package tfserving

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
)

// strategy says how pods are replaced. Never fewer servers than declared is the rule: the old ones serve until the new ones have loaded
// their models. Where an additional pod could not start, since all GPUs are in use or the claim is on another node, such an update would
// never end, so that one pod stops first.
func (r *renderer) strategy() appsv1.DeploymentStrategy {
	spec := ptr.Deref(r.cr.Spec.Strategy, v1alpha1.StrategySpec{})
	kind := spec.Type
	if kind == "" && spec.RollingUpdate == nil && r.facts.SingleNode && r.maxReplicas() <= 1 {
		// A pod that is started elsewhere while the old one ends would wait for its volume, and fail with an error of the attachment.
		kind = appsv1.RecreateDeploymentStrategyType
	}
	if kind == appsv1.RecreateDeploymentStrategyType {
		return appsv1.DeploymentStrategy{Type: kind}
	}
	declared := ptr.Deref(spec.RollingUpdate, v1alpha1.RollingUpdateSpec{})
	surge, unavailable := declared.MaxSurge, declared.MaxUnavailable
	if surge == nil {
		surge = ptr.To(intstr.FromInt32(1))
		if (r.facts.SingleNode || usesGPU(r.cr.Spec.Resources)) && (unavailable == nil || !isZero(*unavailable)) {
			surge = ptr.To(intstr.FromInt32(0))
		}
	}
	if unavailable == nil {
		unavailable = ptr.To(intstr.FromInt32(0))
		if isZero(*surge) {
			unavailable = ptr.To(intstr.FromInt32(1))
		}
	}
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: surge, MaxUnavailable: unavailable},
	}
}

func isZero(n intstr.IntOrString) bool {
	return n.Type == intstr.Int && n.IntVal == 0 || n.Type == intstr.String && n.StrVal == "0%"
}

// maxReplicas is how many pods there may be.
func (r *renderer) maxReplicas() int32 {
	if a := r.cr.Spec.Autoscaling; a != nil {
		return a.MaxReplicas
	}
	return ptr.Deref(r.cr.Spec.Replicas, 1)
}

const (
	nvidiaGPU = "nvidia.com/gpu"
	nvidiaMIG = "nvidia.com/mig-"
	amdGPU    = "amd.com/gpu"
)

// usesGPU says that a container asks for GPUs or parts of them, each of which one pod has for itself.
func usesGPU(res *corev1.ResourceRequirements) bool {
	return asksFor(res, func(name string) bool {
		return name == nvidiaGPU || name == amdGPU || strings.HasPrefix(name, nvidiaMIG)
	})
}

// usesNVIDIA says that the GPUs are those that the default image for GPUs is built for.
func usesNVIDIA(res *corev1.ResourceRequirements) bool {
	return asksFor(res, func(name string) bool { return name == nvidiaGPU || strings.HasPrefix(name, nvidiaMIG) })
}

func asksFor(res *corev1.ResourceRequirements, match func(string) bool) bool {
	if res == nil {
		return false
	}
	for _, list := range []corev1.ResourceList{res.Limits, res.Requests} {
		for name, n := range list {
			if match(string(name)) && !n.IsZero() {
				return true
			}
		}
	}
	return false
}

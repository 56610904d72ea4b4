// Package workload has what the controllers render alike for their pods, and how they read the status of a Deployment. It asks the API
// server nothing and decides nothing.
package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
)

// Schedule gives a pod what its spec says of nodes; nil for nothing.
func Schedule(pod *corev1.PodSpec, spec *keeper.SchedulingSpec) {
	if spec == nil {
		return
	}
	pod.NodeSelector, pod.Tolerations = spec.NodeSelector, spec.Tolerations
	pod.Affinity, pod.TopologySpreadConstraints = spec.Affinity, spec.TopologySpreadConstraints
}

// RestrictedPod is what the restricted Pod Security Standard asks of a pod.
func RestrictedPod() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot:   ptr.To(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// RestrictedContainer is what it asks of each container of such a pod.
func RestrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// Budget is the PodDisruptionBudget of the pods with some labels. A pod that runs without being ready may always be evicted: where too many
// of them crash, none could be else, and no node be drained until somebody repairs them.
func Budget(meta metav1.ObjectMeta, pods map[string]string, spec *keeper.DisruptionSpec) *policyv1.PodDisruptionBudget {
	number := func(n *int32) *intstr.IntOrString {
		if n == nil {
			return nil
		}
		return ptr.To(intstr.FromInt32(*n))
	}
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: meta,
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: number(spec.MinAvailable), MaxUnavailable: number(spec.MaxUnavailable),
			Selector:                   &metav1.LabelSelector{MatchLabels: pods},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}

// Undrainable warns of a budget that lets none of so many pods be drained; empty where it does.
func Undrainable(spec *keeper.DisruptionSpec, replicas int32) string {
	if n := spec.MaxUnavailable; n != nil && *n == 0 && replicas > 0 {
		return "spec.podDisruptionBudget.maxUnavailable (0) lets no pod be drained: raise it"
	}
	n := spec.MinAvailable
	if n == nil || *n < replicas || replicas == 0 {
		return ""
	}
	return fmt.Sprintf("spec.podDisruptionBudget.minAvailable (%d) lets no pod be drained: lower it, or raise spec.replicas above it", *n)
}

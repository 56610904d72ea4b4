package simkubelet

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	kubeletstatus "k8s.io/kubernetes/pkg/kubelet/status"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"
	kubepod "k8s.io/kubernetes/pkg/util/pod"
)

func terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// restarts says whether a container is started again after it ended with a code.
func restarts(p *corev1.Pod, c *corev1.Container, code int32) bool {
	return podutil.ContainerShouldRestart(*c, p.Spec, code)
}

// ended is how a container ended last, unless it runs or never did.
func ended(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if s.State.Terminated != nil {
		return s.State.Terminated
	}
	if s.State.Waiting != nil {
		return s.LastTerminationState.Terminated
	}
	return nil
}

// initPhase is the phase that follows from the init containers alone, empty once they are through.
func initPhase(p *corev1.Pod, s *corev1.PodStatus) corev1.PodPhase {
	pending, initialized := false, conditionTrue(s, corev1.PodInitialized)
	for i := range p.Spec.InitContainers {
		c, status := &p.Spec.InitContainers[i], &s.InitContainerStatuses[i]
		if podutil.IsRestartableInitContainer(c) {
			pending = pending || !isTrue(status.Started) && !initialized
			continue
		}
		last := ended(status)
		if last != nil && last.ExitCode != 0 && !restarts(p, c, last.ExitCode) {
			return corev1.PodFailed
		}
		pending = pending || !completed(status)
	}
	if pending {
		return corev1.PodPending
	}
	return ""
}

// phase follows from the statuses of the containers: pkg/kubelet/kubelet_pods.go, getPhase.
func phase(p *corev1.Pod, s *corev1.PodStatus) corev1.PodPhase {
	if phase := initPhase(p, s); phase != "" {
		return phase
	}
	// What still runs of the init containers counts, too.
	running := slices.ContainsFunc(s.InitContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
	restarting, failed := false, false
	for i := range p.Spec.Containers {
		c, status := &p.Spec.Containers[i], &s.ContainerStatuses[i]
		if status.State.Running != nil {
			running = true
			continue
		}
		last := ended(status)
		if last == nil {
			return corev1.PodPending
		}
		restarting = restarting || p.DeletionTimestamp == nil && restarts(p, c, last.ExitCode)
		failed = failed || last.ExitCode != 0
	}
	switch {
	case running || restarting:
		return corev1.PodRunning
	case failed:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

func conditionTrue(s *corev1.PodStatus, kind corev1.PodConditionType) bool {
	_, c := podutil.GetPodCondition(s, kind)
	return c != nil && c.Status == corev1.ConditionTrue
}

// summarise completes a status from those of its containers: phase and conditions, as pkg/kubelet/kubelet_pods.go,
// generateAPIPodStatus, has them. Conditions of others stay as the API server has them, and the own are compared with those that
// were there before.
func summarise(p *corev1.Pod, s *corev1.PodStatus, now metav1.Time) {
	if !terminal(s.Phase) {
		s.Phase = phase(p, s)
	}
	s.ObservedGeneration = podutil.CalculatePodStatusObservedGeneration(p)
	old := &corev1.PodStatus{Conditions: s.Conditions}
	s.Conditions = foreign(&p.Status)
	all := slices.Concat(s.InitContainerStatuses, s.ContainerStatuses)
	sandbox := corev1.PodCondition{
		Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(old, p.Generation, corev1.PodReadyToStartContainers),
	}
	if s.PodIP != "" && !terminal(s.Phase) {
		sandbox.Status = corev1.ConditionTrue
	}
	for _, c := range []corev1.PodCondition{
		sandbox,
		kubeletstatus.GeneratePodInitializedCondition(p, old, all, s.Phase),
		kubeletstatus.GeneratePodReadyCondition(p, old, s.Conditions, all, s.Phase),
		kubeletstatus.GenerateContainersReadyCondition(p, old, all, s.Phase),
		{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
			ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(old, p.Generation, corev1.PodScheduled),
		},
	} {
		c.LastTransitionTime = now
		if _, last := podutil.GetPodCondition(old, c.Type); last != nil && last.Status == c.Status {
			c.LastTransitionTime = last.LastTransitionTime
		}
		s.Conditions = kubepod.ReplaceOrAppendPodCondition(s.Conditions, &c)
	}
}

// foreign are the conditions of a status that are not a kubelet's.
func foreign(s *corev1.PodStatus) []corev1.PodCondition {
	return slices.DeleteFunc(slices.Clone(s.Conditions), func(c corev1.PodCondition) bool { return kubelettypes.PodConditionByKubelet(c.Type) })
}

// merge is what is written where the API server has a status: what is not a kubelet's stays (pkg/kubelet/status/status_manager.go,
// mergePodStatus). A terminal phase stays, too; the next step ends the containers.
func merge(live, own *corev1.PodStatus) corev1.PodStatus {
	out := *own.DeepCopy()
	out.Conditions = foreign(live)
	for _, c := range own.Conditions {
		if kubelettypes.PodConditionByKubelet(c.Type) {
			out.Conditions = append(out.Conditions, c)
		}
	}
	out.ResourceClaimStatuses = live.ResourceClaimStatuses
	out.ExtendedResourceClaimStatus = live.ExtendedResourceClaimStatus
	// NodeAllocatableResourceClaimStatuses are behind a gate that is off, and the
	// oldest release in versions/ has no such field.
	if terminal(live.Phase) && !terminal(own.Phase) {
		out.Phase, out.Reason, out.Message = live.Phase, live.Reason, live.Message
	}
	return out
}

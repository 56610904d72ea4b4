package simkubelet

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	kubeletevents "k8s.io/kubernetes/pkg/kubelet/events"
	"k8s.io/kubernetes/pkg/kubelet/util/format"
)

// How long what is not simulated takes.
const (
	// second is what a second of a pod's own times takes.
	second = 10 * time.Millisecond
	// creating is from a pod's first status to its first container.
	creating = 50 * time.Millisecond
	// working is how long an init container or a container of a Job runs, and one that is asked to fail.
	working = 50 * time.Millisecond
	// probing is how long the first success of a probe takes, at least and at most.
	probing, maxProbing = 50 * time.Millisecond, 200 * time.Millisecond
	// ending is how long containers take to end when they are told to, at most their grace period.
	ending = 50 * time.Millisecond
	// backOff and maxBackOff are in pkg/kubelet/kubelet.go, which restarts a container at once the first time.
	backOff, maxBackOff = 10 * time.Second, 5 * time.Minute
)

// noAddress is the message of the plugin host-local (plugins/ipam/host-local/backend/allocator, Get) where a range is used up.
const noAddress = "Failed to create pod sandbox: plugin type=\"host-local\" failed (add): failed to allocate for range 0: no IP addresses " +
	"available in range set"

// pod is what a kubelet remembers of a pod.
type pod struct {
	uid types.UID
	// status is what the pod is in; written is the one that the API server has accepted last.
	status, written corev1.PodStatus
	// due is when the present state of a container ends, or of the pod under the empty name.
	due map[string]time.Time
	// said are the events that there were.
	said map[string]bool
	// waits says that the next step follows an object of the namespace.
	waits bool
	// deleted says that the API server was told that the containers have ended.
	deleted bool
}

// event is something that is said about a pod.
type event struct {
	reason, message string
	// byAttachDetach says that it is not a kubelet who says it.
	byAttachDetach bool
}

// step is one synchronisation of a pod.
type step struct {
	*pod
	of     *corev1.Pod
	read   reader
	now    time.Time
	attach func() []string
	// address is the pod's own, once it is asked for; empty where none is left.
	address func() string
	events  []event
}

// take moves the pod on as far as it goes now.
func (s *step) take() {
	s.waits = false
	s.begin()
	if terminal(s.of.Status.Phase) && !terminal(s.status.Phase) {
		// Somebody else has made it so, and no pod leaves a terminal phase: pkg/kubelet/kubelet_pods.go, generateAPIPodStatus.
		s.status.Phase, s.status.Reason, s.status.Message = s.of.Status.Phase, s.of.Status.Reason, s.of.Status.Message
	}
	switch {
	case s.of.DeletionTimestamp != nil:
		s.end()
	case !terminal(s.status.Phase) && s.sandbox() && s.initialised():
		for i := range s.of.Spec.Containers {
			s.container(&s.of.Spec.Containers[i], &s.status.ContainerStatuses[i])
		}
		s.endSidecars()
	}
	summarise(s.of, &s.status, s.stamp())
	if terminal(s.status.Phase) {
		// Nothing of it runs on.
		s.endAll()
		summarise(s.of, &s.status, s.stamp())
	}
}

// begin is a pod that nothing was done for yet, or that has a status which was not written here: each container has one status
// from then on, in the order of the spec, whatever there was.
func (s *step) begin() {
	if s.status.StartTime == nil {
		started := s.stamp()
		s.status.StartTime = &started
		s.due[""] = s.now.Add(creating)
	}
	waiting := "ContainerCreating"
	if len(s.of.Spec.InitContainers) > 0 {
		waiting = "PodInitializing"
	}
	s.status.InitContainerStatuses = statusesOf(s.of.Spec.InitContainers, s.status.InitContainerStatuses, waiting)
	s.status.ContainerStatuses = statusesOf(s.of.Spec.Containers, s.status.ContainerStatuses, waiting)
}

// statusesOf finds the status of each container by its name. A container without one, or with one that tells no state, waits, as
// the API says of the latter (k8s.io/api/core/v1/types.go, ContainerState).
func statusesOf(containers []corev1.Container, had []corev1.ContainerStatus, waiting string) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for i := range containers {
		no := false
		status := corev1.ContainerStatus{Name: containers[i].Name, Image: containers[i].Image, Started: &no}
		if at := slices.IndexFunc(had, func(s corev1.ContainerStatus) bool { return s.Name == containers[i].Name }); at >= 0 {
			status = had[at]
		}
		if status.State == (corev1.ContainerState{}) {
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting}
		}
		out = append(out, status)
	}
	return out
}

// stamp is the present time as the API server keeps it, so that what was written compares equal with what is read.
func (s *step) stamp() metav1.Time { return metav1.NewTime(s.now.Truncate(time.Second)) }

// over says whether the present state of a container, or of the pod, has ended.
func (s *step) over(name string) bool {
	due, set := s.due[name]
	if set && !s.now.Before(due) {
		delete(s.due, name)
		set = false
	}
	return !set
}

// sandbox says whether the pod has its volumes and its network.
func (s *step) sandbox() bool {
	if !s.over("") {
		return false
	}
	if s.status.PodIP != "" {
		return true
	}
	messages := s.read.volumes(s.of)
	for _, m := range messages {
		s.events = append(s.events, event{reason: kubeletevents.FailedMountVolume, message: m})
	}
	if len(messages) > 0 {
		s.waits = true
		return false
	}
	for _, m := range s.attach() {
		s.waits = true
		s.events = append(s.events, event{reason: kubeletevents.FailedAttachVolume, message: m, byAttachDetach: true})
	}
	if s.waits {
		return false
	}
	if message := s.read.pullSecrets(s.of); message != "" {
		s.events = append(s.events, event{reason: "FailedToRetrieveImagePullSecret", message: message})
	}
	if s.status.PodIP = s.address(); s.status.PodIP == "" {
		s.events = append(s.events, event{reason: kubeletevents.FailedCreatePodSandBox, message: noAddress})
		s.due[""] = s.now.Add(creating)
		return false
	}
	s.status.PodIPs = []corev1.PodIP{{IP: s.status.PodIP}}
	return true
}

// initialised says whether the init containers are through, and those that run on have started.
func (s *step) initialised() bool {
	through := true
	for i := range s.of.Spec.InitContainers {
		c, status := &s.of.Spec.InitContainers[i], &s.status.InitContainerStatuses[i]
		if podutil.IsRestartableInitContainer(c) {
			s.container(c, status)
			through = isTrue(status.Started)
		} else if !completed(status) {
			s.container(c, status)
			through = completed(status)
		}
		if !through {
			return false
		}
	}
	return through
}

func completed(status *corev1.ContainerStatus) bool {
	return status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
}

// container moves one container on as far as it goes now.
func (s *step) container(c *corev1.Container, status *corev1.ContainerStatus) {
	fails, known := failureOf(s.of, c.Name)
	if !known {
		s.events = append(s.events, event{reason: "Failed", message: "the annotation " + failAnnotation + " has an unknown value"})
	}
	switch {
	case status.State.Running != nil:
		s.running(c, status, fails)
	case status.State.Terminated != nil:
		s.terminated(c, status)
	case s.over(c.Name):
		s.start(c, status, fails)
	}
}

// start starts a container that waits.
func (s *step) start(c *corev1.Container, status *corev1.ContainerStatus, fails failure) {
	waiting := status.State.Waiting
	if fails == imagePullBackOff && status.ImageID == "" {
		// containerd's words; pkg/kubelet/images/image_manager.go repeats them in the back-off.
		cause := fmt.Sprintf("failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", c.Image, c.Image, c.Image)
		if waiting.Reason != "ErrImagePull" && waiting.Reason != "ImagePullBackOff" {
			s.due[c.Name] = s.now.Add(working)
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: cause}
			s.events = append(s.events, event{
				reason: kubeletevents.FailedToPullImage, message: fmt.Sprintf("Failed to pull image %q: %s", c.Image, cause),
			})
			return
		}
		status.State.Waiting = &corev1.ContainerStateWaiting{
			Reason: "ImagePullBackOff", Message: fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", c.Image, cause),
		}
		return
	}
	if err := s.read.config(s.of, c); err != nil {
		s.waits = true
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: err.Error()}
		s.events = append(s.events, event{reason: kubeletevents.FailedToCreateContainer, message: "Error: " + err.Error()})
		return
	}
	if last := status.LastTerminationState.Terminated; last != nil {
		status.RestartCount++
	}
	status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: s.stamp()}}
	status.ImageID = c.Image
	status.ContainerID = fmt.Sprintf("devcluster://%s-%s-%d", s.of.UID, c.Name, status.RestartCount)
	started := c.StartupProbe == nil
	status.Started = &started
	switch {
	case s.ends(c, fails):
		s.due[c.Name] = s.now.Add(working)
	case c.StartupProbe != nil:
		s.due[c.Name] = s.now.Add(probeTime(c.StartupProbe))
	case c.ReadinessProbe != nil:
		s.due[c.Name] = s.now.Add(probeTime(c.ReadinessProbe))
	}
	s.running(c, status, fails)
}

// ends says whether a container ends by itself.
func (s *step) ends(c *corev1.Container, fails failure) bool {
	if fails == exitsWithError || s.regularInit(c.Name) {
		return true
	}
	owner := metav1.GetControllerOf(s.of)
	init := slices.ContainsFunc(s.of.Spec.InitContainers, func(init corev1.Container) bool { return init.Name == c.Name })
	return !init && owner != nil && owner.Kind == "Job"
}

// regularInit says whether a container is an init container that has to end before the next one begins.
func (s *step) regularInit(name string) bool {
	return slices.ContainsFunc(s.of.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && !podutil.IsRestartableInitContainer(&c)
	})
}

// probeTime is how long a probe takes to succeed first.
func probeTime(p *corev1.Probe) time.Duration {
	return min(max(time.Duration(p.InitialDelaySeconds)*second, probing), maxProbing)
}

// running is a container that runs: it ends, or its probes succeed one after the other.
func (s *step) running(c *corev1.Container, status *corev1.ContainerStatus, fails failure) {
	if fails == exitsWithError {
		if _, set := s.due[c.Name]; !set {
			s.due[c.Name] = s.now.Add(working)
			return
		}
	}
	if !s.over(c.Name) {
		return
	}
	if s.ends(c, fails) {
		code := int32(0)
		if fails == exitsWithError {
			code = 1
		}
		s.exit(status, code)
		s.terminated(c, status)
		return
	}
	if !isTrue(status.Started) {
		started := true
		status.Started = &started
		if c.ReadinessProbe != nil {
			s.due[c.Name] = s.now.Add(probeTime(c.ReadinessProbe))
			return
		}
	}
	if status.Ready = fails != unready; !status.Ready {
		s.events = append(s.events, event{
			reason: kubeletevents.ContainerUnhealthy, message: "Readiness probe failed: HTTP probe failed with statuscode: 503",
		})
	}
}

// exit ends a container.
func (s *step) exit(status *corev1.ContainerStatus, code int32) {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: status.State.Running.StartedAt, FinishedAt: s.stamp(),
		ContainerID: status.ContainerID,
	}}
	no := false
	status.Started = &no
	// A regular init container that has succeeded counts as ready: pkg/kubelet/prober/prober_manager.go, UpdatePodStatus.
	status.Ready = code == 0 && s.regularInit(status.Name)
	delete(s.due, status.Name)
}

// terminated is a container that has ended: pkg/kubelet/kuberuntime/kuberuntime_manager.go, doBackOff, restarts it with growing
// pauses.
func (s *step) terminated(c *corev1.Container, status *corev1.ContainerStatus) {
	last := status.State.Terminated
	// A regular init container that has succeeded runs no more, whatever the restart policy: pkg/kubelet/kuberuntime, computeInitContainerActions.
	if !restarts(s.of, c, last.ExitCode) || completed(status) && s.regularInit(c.Name) {
		return
	}
	if _, set := s.due[c.Name]; !set {
		// The state is seen before the next one.
		s.due[c.Name] = s.now.Add(working)
		return
	}
	if !s.over(c.Name) {
		return
	}
	status.LastTerminationState = corev1.ContainerState{Terminated: last}
	if status.RestartCount == 0 {
		status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
		fails, _ := failureOf(s.of, c.Name)
		s.start(c, status, fails)
		return
	}
	pause := min(backOff<<min(status.RestartCount-1, 10), maxBackOff)
	message := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", pause, c.Name, format.Pod(s.of))
	status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: message}}
	s.due[c.Name] = s.now.Add(time.Duration(pause.Seconds()) * second)
	s.events = append(s.events, event{
		reason:  kubeletevents.BackOffStartContainer,
		message: fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, format.Pod(s.of)),
	})
}

// endSidecars ends the init containers that run on when nothing else runs, or will.
func (s *step) endSidecars() {
	for i := range s.of.Spec.Containers {
		state := s.status.ContainerStatuses[i].State.Terminated
		if state == nil || restarts(s.of, &s.of.Spec.Containers[i], state.ExitCode) {
			return
		}
	}
	s.endAll()
}

// endAll ends whatever runs.
func (s *step) endAll() {
	for _, statuses := range [][]corev1.ContainerStatus{s.status.InitContainerStatuses, s.status.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].State.Running != nil {
				s.exit(&statuses[i], 0)
			}
		}
	}
}

// end is a pod that is being deleted: its containers end after a moment.
func (s *step) end() {
	if s.deleted || terminal(s.status.Phase) || s.status.PodIP == "" {
		s.deleted = true
		return
	}
	const name = "deletion"
	if _, set := s.due[name]; !set {
		clear(s.due)
		s.due[name] = s.now.Add(ending)
		return
	}
	if !s.over(name) {
		return
	}
	s.endAll()
	// What never ran ends with 137: pkg/kubelet/status/status_manager.go, TerminatePod.
	for i := range s.status.ContainerStatuses {
		if status := &s.status.ContainerStatuses[i]; status.State.Waiting != nil {
			status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "ContainerStatusUnknown",
				Message: "The container could not be located when the pod was terminated",
			}}
		}
	}
	s.deleted = true
}

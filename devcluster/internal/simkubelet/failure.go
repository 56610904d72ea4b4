package simkubelet

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// optOut is the annotation that keeps the simulated kubelet away from a pod.
	optOut = "devcluster.mlkeeper.dev/kubelet"
	// failAnnotation is the annotation that makes a pod fail.
	failAnnotation = "devcluster.mlkeeper.dev/fail"
)

// failure is how a container fails.
type failure string

const (
	none             failure = ""
	exitsWithError   failure = "Error"
	imagePullBackOff failure = "ImagePullBackOff"
	unready          failure = "Unready"
)

// failureOf is how a container of a pod is asked to fail, and whether the annotation can be understood.
func failureOf(p *corev1.Pod, container string) (failure, bool) {
	value := p.Annotations[failAnnotation]
	kind, name, named := strings.Cut(value, "/")
	f := failure(kind)
	if !slices.Contains([]failure{none, exitsWithError, imagePullBackOff, unready}, f) {
		return none, false
	}
	isInit := slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == container })
	if named && name != container || !named && isInit {
		return none, true
	}
	return f, true
}

package simkubelet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// attachment is the node that a claim's volume is attached to, with the keys of the pods that use it there.
type attachment struct {
	node string
	pods map[string]bool
}

// exclusive says whether a claim's volume can be attached to one node only: pkg/volume/util/util.go, IsMultiAttachAllowed. The
// access modes in the status of a claim are those of its volume.
func exclusive(claim *corev1.PersistentVolumeClaim) bool {
	many := func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
	}
	return len(claim.Status.AccessModes) > 0 && !slices.ContainsFunc(claim.Status.AccessModes, many)
}

// exclusiveClaims are the claims of a pod whose volumes can be attached to one node only.
func (r reader) exclusiveClaims(p *corev1.Pod) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range p.Spec.Volumes {
		name := claimOf(p, &p.Spec.Volumes[i])
		if name == "" {
			continue
		}
		if claim, err := r.claims.PersistentVolumeClaims(p.Namespace).Get(name); err == nil && exclusive(claim) {
			out = append(out, claim)
		}
	}
	return out
}

// attach attaches the volumes of a pod to its node, or none of them: then it returns the messages of the events. They are those
// of pkg/controller/volume/attachdetach/reconciler, reportMultiAttachError.
func (k *kubelet) attach(key string, p *corev1.Pod) []string {
	claims := k.read.exclusiveClaims(p)
	k.mu.Lock()
	defer k.mu.Unlock()
	var messages []string
	for _, claim := range claims {
		at, there := k.attached[keyOf(claim)]
		if !there || at.node == p.Spec.NodeName {
			continue
		}
		var names []string
		for _, user := range slices.Sorted(maps.Keys(at.pods)) {
			_, name, _ := strings.Cut(user, "/")
			names = append(names, name)
		}
		messages = append(messages, fmt.Sprintf("Multi-Attach error for volume %q Volume is already used by pod(s) %s",
			claim.Spec.VolumeName, strings.Join(names, ", ")))
	}
	if len(messages) > 0 {
		return messages
	}
	for _, claim := range claims {
		at, there := k.attached[keyOf(claim)]
		if !there {
			at = attachment{node: p.Spec.NodeName, pods: map[string]bool{}}
			k.attached[keyOf(claim)] = at
		}
		at.pods[key] = true
	}
	return nil
}

// detach ends the use of all volumes by a pod, and wakes those that wait for them.
func (k *kubelet) detach(key, namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for claim, at := range k.attached {
		if !at.pods[key] {
			continue
		}
		if delete(at.pods, key); len(at.pods) == 0 {
			delete(k.attached, claim)
			k.wakeNamespace(namespace)
		}
	}
}

// attachRunning finds out what was attached, and which addresses were given, before this process started.
func (k *kubelet) attachRunning() {
	pods, err := k.read.pods.List(labels.Everything())
	if err != nil {
		return
	}
	for _, p := range pods {
		if p.Status.PodIP != "" && !terminal(p.Status.Phase) {
			k.reserve(keyOf(p), p)
			k.attach(keyOf(p), p)
		}
	}
}

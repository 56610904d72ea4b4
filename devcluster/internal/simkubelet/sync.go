package simkubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	kubepod "k8s.io/kubernetes/pkg/util/pod"
)

// sync takes the next step of a pod and writes what has changed.
func (k *kubelet) sync(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	p, err := k.read.pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		k.forget(key, namespace)
		return nil
	}
	if err != nil {
		return err
	}
	if p.Spec.NodeName == "" || p.Annotations[optOut] == "off" {
		return nil
	}
	if terminal(p.Status.Phase) && p.DeletionTimestamp == nil && k.ended(key, p) {
		k.free(key, namespace)
		return nil
	}
	node, err := k.read.nodes.Get(p.Spec.NodeName)
	if err != nil {
		// Pods of a node that is gone are the business of the controller-manager.
		return nil
	}
	s := &step{pod: k.remember(key, p), of: p, read: k.read, now: k.now()}
	s.attach = func() []string { return k.attach(key, p) }
	s.status.HostIP = hostIP(node)
	s.status.HostIPs = []corev1.HostIP{{IP: s.status.HostIP}}
	s.address = func() string {
		if p.Spec.HostNetwork {
			return s.status.HostIP
		}
		return k.nextIP(key)
	}
	s.take()
	if err := k.write(ctx, key, s); err != nil {
		return err
	}
	if !s.waits {
		k.mu.Lock()
		delete(k.blocked[namespace], key)
		k.mu.Unlock()
	}
	var next time.Time
	for _, due := range s.due {
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	if !next.IsZero() {
		k.queue.AddAfter(key, max(next.Sub(s.now), time.Millisecond))
	}
	return nil
}

// write tells the API server about a step.
func (k *kubelet) write(ctx context.Context, key string, s *step) error {
	for _, e := range s.events {
		if id := e.reason + e.message; !s.said[id] {
			s.said[id] = true
			source := corev1.EventSource{Component: "kubelet", Host: s.of.Spec.NodeName}
			if e.byAttachDetach {
				source = corev1.EventSource{Component: "attachdetach-controller"}
			}
			k.broadcaster.NewRecorder(scheme.Scheme, source).Event(s.of, corev1.EventTypeWarning, e.reason, e.message)
		}
	}
	err := k.patch(ctx, s)
	if err == nil && s.deleted {
		err = k.client.CoreV1().Pods(s.of.Namespace).Delete(ctx, s.of.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(s.of.UID)),
		})
	}
	if err != nil {
		// The error of a patch does not wrap that of the API server.
		live, gone := k.client.CoreV1().Pods(s.of.Namespace).Get(ctx, s.of.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(gone) || gone == nil && live.UID != s.of.UID {
			return nil
		}
		return err
	}
	if s.deleted || terminal(s.status.Phase) {
		k.free(key, s.of.Namespace)
	}
	return nil
}

// patch writes a status. It compares with the live status as pkg/kubelet/status/status_manager.go, syncPod, does: the cached one
// can be older than what was written last, and a patch against it lacks what is again as it was before that.
func (k *kubelet) patch(ctx context.Context, s *step) error {
	if equality.Semantic.DeepEqual(s.status, s.written) && equality.Semantic.DeepEqual(s.status, s.of.Status) {
		return nil
	}
	live, err := k.client.CoreV1().Pods(s.of.Namespace).Get(ctx, s.of.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	merged := merge(&live.Status, &s.status)
	_, _, _, err = kubepod.PatchPodStatus(ctx, k.client, s.of.Namespace, s.of.Name, s.of.UID, live.Status, merged)
	if err == nil {
		s.written = *s.status.DeepCopy()
	}
	return err
}

// remember returns what is known of a pod. Until its step is taken it counts as one that waits, so that no object is missed that
// appears meanwhile.
func (k *kubelet) remember(key string, p *corev1.Pod) *pod {
	known := k.lookup(key)
	if known == nil || known.uid != p.UID {
		k.forget(key, p.Namespace)
		known = &pod{
			uid: p.UID, status: *p.Status.DeepCopy(), written: *p.Status.DeepCopy(), due: map[string]time.Time{}, said: map[string]bool{},
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[key] = known
	if k.blocked[p.Namespace] == nil {
		k.blocked[p.Namespace] = map[string]bool{}
	}
	k.blocked[p.Namespace][key] = true
	return known
}

func (k *kubelet) lookup(key string) *pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[key]
}

// ended says whether nothing of a pod runs that the API server has as terminal: it was told so from here, or the pod was terminal
// before it was seen first. Of a pod that somebody else made terminal the containers still have to end.
func (k *kubelet) ended(key string, p *corev1.Pod) bool {
	known := k.lookup(key)
	return known == nil || known.uid != p.UID || terminal(known.written.Phase)
}

// free gives back what a pod holds that does not run any more: its volumes and its address.
func (k *kubelet) free(key, namespace string) {
	k.detach(key, namespace)
	k.release(key)
}

// forget drops what is known of a pod that is gone.
func (k *kubelet) forget(key, namespace string) {
	k.mu.Lock()
	delete(k.known, key)
	if delete(k.blocked[namespace], key); len(k.blocked[namespace]) == 0 {
		delete(k.blocked, namespace)
	}
	k.mu.Unlock()
	k.free(key, namespace)
}

func hostIP(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

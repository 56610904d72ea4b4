package simkubelet

import (
	"context"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// renewEvery is a quarter of leaseSeconds, as of a kubelet: pkg/kubelet/kubelet.go, nodeLeaseRenewIntervalFraction.
	renewEvery   = 10 * time.Second
	leaseSeconds = 40
)

// keepNodes makes new nodes Ready, and renews the leases of all.
func (k *kubelet) keepNodes(ctx context.Context) {
	// The boot of a cluster waits for it.
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	renewed := map[string]time.Time{}
	for {
		nodes, err := k.read.nodes.List(labels.Everything())
		if err == nil {
			for _, node := range nodes {
				if now := k.now(); now.Sub(renewed[node.Name]) >= renewEvery {
					if err := k.keepNode(ctx, node); err != nil {
						fmt.Fprintf(os.Stderr, "simulated-kubelet: node %s: %v\n", node.Name, err)
						continue
					}
					renewed[node.Name] = now
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// keepNode renews the lease of a node, and writes its status where it is not Ready.
func (k *kubelet) keepNode(ctx context.Context, node *corev1.Node) error {
	if err := k.renew(ctx, node); err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	node = node.DeepCopy()
	now := metav1.NewTime(k.now())
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	// Reasons and messages of pkg/kubelet/nodestatus/setters.go.
	node.Status.Conditions = []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
	}
	_, err := k.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

func (k *kubelet) renew(ctx context.Context, node *corev1.Node) error {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now, seconds := metav1.NewMicroTime(k.now()), int32(leaseSeconds)
	lease, err := leases.Get(ctx, node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
			}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: &seconds, RenewTime: &now},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

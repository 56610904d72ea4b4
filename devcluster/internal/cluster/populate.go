package cluster

import (
	"context"
	"fmt"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"mlkeeper.dev/devcluster/internal/component"
)

// populate creates the nodes and waits for what a first Pod needs: a node that
// takes pods, and the default service account.
func (s *Supervisor) populate(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	simulated := s.opts.Nodes
	if s.spec.RealNode {
		// The kubelet registers its node itself.
		simulated = 0
	}
	for i := range simulated {
		_, err := client.CoreV1().Nodes().Create(ctx, node(i+1, s.opts.NodeSize), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating a node: %w", err)
		}
	}
	for {
		missing := s.missing(ctx, client)
		if missing == "" {
			s.logf("%d node(s) ready", s.opts.Nodes)
			return nil
		}
		// Someone has to do the work; if it went away the wait is in vain.
		if name := s.lost(); name != "" {
			return s.failure(name, "ended during the boot")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster did not become usable: %s; read %s and %s: %w", missing,
				s.spec.LogOf(component.ControllerManager), s.spec.LogOf(s.nodeComponent()), ctx.Err())
		case <-time.After(2 * pollEvery):
		}
	}
}

// missing names the first thing that a Pod would still wait for.
func (s *Supervisor) missing(ctx context.Context, client kubernetes.Interface) string {
	if _, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return "there is no default service account yet"
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "the nodes cannot be listed"
	}
	if s.spec.RealNode && len(nodes.Items) == 0 {
		return "the kubelet has not registered its node yet"
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; !nodeReady(n) || len(n.Spec.Taints) > 0 {
			return n.Name + " does not take pods yet"
		}
	}
	return ""
}

// nodeComponent is the component that makes nodes ready.
func (s *Supervisor) nodeComponent() string {
	if s.spec.RealNode {
		return component.Kubelet
	}
	return component.SimulatedKubelet
}

// lost names a component that ended by itself.
func (s *Supervisor) lost() string {
	for _, c := range s.snapshot().Components {
		if c.State == StateExited {
			return c.Name
		}
	}
	return ""
}

func nodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// node is what a kubelet would register; the simulated one makes it Ready. Beside its size it has GPUs: the first node
// none, the second one, the third two, and so on.
func node(number int, size corev1.ResourceList) *corev1.Node {
	name := fmt.Sprintf("node-%d", number)
	size = size.DeepCopy()
	if gpus := int64((number - 1) % 3); gpus > 0 {
		size["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:                 name,
				corev1.LabelOSStable:                 "linux",
				corev1.LabelArchStable:               runtime.GOARCH,
				"node-role.kubernetes.io/worker":     "",
				corev1.LabelTopologyZone:             "zone-a",
				corev1.LabelInstanceTypeStable:       "devcluster",
				"node.kubernetes.io/devcluster-role": "simulated",
			},
		},
		Status: corev1.NodeStatus{
			Capacity: size, Allocatable: size,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", number/250, number%250+1)},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: runtime.GOARCH, OperatingSystem: "linux", OSImage: "devcluster", KernelVersion: "devcluster",
				ContainerRuntimeVersion: "devcluster://1", KubeletVersion: kubernetesVersion,
			},
		},
	}
}

package component

import (
	"fmt"
	"path/filepath"
)

// Names of the components, in the order in which they are started.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	SimulatedKubelet  = "simulated-kubelet"
	Containerd        = "containerd"
	Kubelet           = "kubelet"
	KubeProxy         = "kube-proxy"
	ClusterDNS        = "cluster-dns"
	StandIn           = "stand-in"
)

// Names lists every component in start order; shutdown goes the other way. No
// cluster has all of them: a node is either simulated or a real one.
var Names = []string{
	Etcd, APIServer, ControllerManager, Scheduler, SimulatedKubelet, Containerd, Kubelet, KubeProxy, ClusterDNS, StandIn,
}

// Loopback is the only address of the machine on which a devcluster listens.
const Loopback = "127.0.0.1"

// ServiceCIDR is the range of ClusterIPs; its first address is in the serving
// certificate, because in-cluster clients reach the API server by it.
const ServiceCIDR = "10.96.0.0/16"

// PodCIDR is wide enough for many thousands of simulated pods on one node.
const PodCIDR = "10.244.0.0/16"

// Known reports whether name is a component of a devcluster.
func Known(name string) bool {
	for _, n := range Names {
		if n == name {
			return true
		}
	}
	return false
}

// Ports holds one loopback port per component, and etcd's peer port.
type Ports struct {
	Etcd              int `json:"etcd"`
	EtcdPeer          int `json:"etcdPeer"`
	APIServer         int `json:"apiserver"`
	ControllerManager int `json:"controllerManager"`
	Scheduler         int `json:"scheduler"`
	SimulatedKubelet  int `json:"simulatedKubelet"`
	StandIn           int `json:"standIn"`

	// A cluster without a real node leaves these out.
	Containerd    int `json:"containerd,omitempty"`
	Kubelet       int `json:"kubelet,omitempty"`
	KubeletHealth int `json:"kubeletHealth,omitempty"`
	KubeProxy     int `json:"kubeProxy,omitempty"`
	ClusterDNS    int `json:"clusterDNS,omitempty"`
}

// Needed points to every port that a cluster with this kind of node uses.
func (p *Ports) Needed(realNode bool) []*int {
	out := []*int{&p.Etcd, &p.EtcdPeer, &p.APIServer, &p.ControllerManager, &p.Scheduler, &p.SimulatedKubelet, &p.StandIn}
	if realNode {
		out = append(out, &p.Containerd, &p.Kubelet, &p.KubeletHealth, &p.KubeProxy, &p.ClusterDNS)
	}
	return out
}

// Of returns the port on which the named component answers health questions.
func (p Ports) Of(name string) int {
	switch name {
	case Etcd:
		return p.Etcd
	case APIServer:
		return p.APIServer
	case ControllerManager:
		return p.ControllerManager
	case Scheduler:
		return p.Scheduler
	case SimulatedKubelet:
		return p.SimulatedKubelet
	case StandIn:
		return p.StandIn
	case Containerd:
		return p.Containerd
	case Kubelet:
		// The API of the kubelet asks for credentials; its health does not.
		return p.KubeletHealth
	case KubeProxy:
		return p.KubeProxy
	case ClusterDNS:
		return p.ClusterDNS
	default:
		return 0
	}
}

// Spec is everything that the command lines depend on.
type Spec struct {
	// Dir is the absolute state directory of the cluster.
	Dir string `json:"dir"`
	// Ports are the loopback ports of the components.
	Ports Ports `json:"ports"`
	// Fsync makes etcd write through to the disk; off, a crash of the machine
	// (not of etcd) may lose data, which is the right trade for a throw-away
	// cluster and the wrong one for fault tests of storage.
	Fsync bool `json:"fsync,omitempty"`
	// AuditLog is the file that receives one line of metadata per request.
	AuditLog string `json:"auditLog,omitempty"`
	// AuditGroup is the group whose users' requests are in it; everybody's where it is empty.
	AuditGroup string `json:"auditGroup,omitempty"`
	// NoStandIn leaves the stand-in for third-party controllers out.
	NoStandIn bool `json:"noStandIn,omitempty"`
	// RealNode runs a kubelet and containerd in place of the simulated kubelet.
	RealNode bool `json:"realNode,omitempty"`
	// CNIPlugins is the folder of the machine's CNI plugins, for a real node.
	CNIPlugins string `json:"cniPlugins,omitempty"`
}

// Path returns a file inside the state directory.
func (s Spec) Path(elem ...string) string {
	return filepath.Join(append([]string{s.Dir}, elem...)...)
}

// PKI returns a file of the cluster's key material.
func (s Spec) PKI(name string) string { return s.Path("pki", name) }

// KubeconfigOf returns the kubeconfig with which a component calls the API.
func (s Spec) KubeconfigOf(name string) string { return s.Path("conf", name+".kubeconfig") }

// LogOf returns the file that collects a component's output.
func (s Spec) LogOf(name string) string { return s.Path("logs", name+".log") }

// AuditPolicyFile returns the API server's audit policy.
func (s Spec) AuditPolicyFile() string { return s.Path("conf", "audit-policy.yaml") }

// EgressSelectorFile returns the configuration of the API server's egress selector.
func (s Spec) EgressSelectorFile() string { return s.Path("conf", "egress-selector.yaml") }

// EgressSocket returns the abstract unix socket of the proxy between the API server and the pods of simulated nodes: the
// kernel drops it with the process, and its name is as short as a socket's must be.
func (s Spec) EgressSocket() string { return fmt.Sprintf("@devcluster-egress-%d", s.Ports.APIServer) }

// Server returns the URL of the API server.
func (s Spec) Server() string {
	return fmt.Sprintf("https://%s:%d", Loopback, s.Ports.APIServer)
}

// Enabled lists the components that this cluster runs, in start order.
func (s Spec) Enabled() []string {
	var out []string
	for _, n := range Names {
		if (n == StandIn && s.NoStandIn) || (n == SimulatedKubelet && s.RealNode) || (isNode(n) && !s.RealNode) {
			continue
		}
		out = append(out, n)
	}
	return out
}

// isNode says whether a component belongs to a real node.
func isNode(name string) bool {
	return name == Containerd || name == Kubelet || name == KubeProxy || name == ClusterDNS
}

// HealthURL returns the address that answers 200 when the component is usable.
func (s Spec) HealthURL(name string) string {
	port := s.Ports.Of(name)
	switch name {
	case Etcd:
		return fmt.Sprintf("http://%s:%d/health", Loopback, port)
	case APIServer:
		return fmt.Sprintf("https://%s:%d/readyz", Loopback, port)
	case ControllerManager, Scheduler:
		return fmt.Sprintf("https://%s:%d/healthz", Loopback, port)
	case Containerd:
		// It has no address for its health, and serves its metrics as soon as its
		// plugins are loaded.
		return fmt.Sprintf("http://%s:%d/v1/metrics", Loopback, port)
	default:
		return fmt.Sprintf("http://%s:%d/healthz", Loopback, port)
	}
}

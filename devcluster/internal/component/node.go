package component

import (
	"fmt"
	"strconv"
)

// The network of a real node. It is a network namespace of the cluster's own, so
// these addresses are nobody else's, and several clusters may have the same.
const (
	// Bridge connects the pods with each other and with the control plane.
	Bridge = "cni0"
	// Gateway is the bridge's address: the node, the API server as pods see it,
	// and the name server.
	Gateway = "10.244.0.1"
	// ClusterDomain is the domain of every Service.
	ClusterDomain = "cluster.local"
	// RealNodeName is the name of the only real node.
	RealNodeName = "node-1"
	// ContainerdSocket is in a /run of the cluster's own, where no path is too
	// long for a socket.
	ContainerdSocket = "/run/containerd/containerd.sock"
	// PauseImage holds the namespaces of a pod; it is made on this machine.
	PauseImage = "devcluster.local/pause:made-here"
)

// Program is the machine's own program that a component is, or "" for a
// component that is a part of this binary.
func Program(name string) string {
	if name == Containerd {
		return "containerd"
	}
	return ""
}

// KubeletConfigFile returns the configuration of the kubelet.
func (s Spec) KubeletConfigFile() string { return s.Path("conf", "kubelet.yaml") }

// ContainerdConfigFile returns the configuration of containerd.
func (s Spec) ContainerdConfigFile() string { return s.Path("conf", "containerd.toml") }

// CNIFile returns the network configuration of the pods.
func (s Spec) CNIFile() string { return s.Path("conf", "cni", "10-devcluster.conflist") }

// apiServerNodeArgs let pods and the kubelet in. Every interface means those of
// the cluster's own network namespace: loopback and the bridge.
func apiServerNodeArgs(s Spec) []string {
	return []string{
		"--bind-address=0.0.0.0",
		"--advertise-address=" + Gateway,
		// A kubelet may read and write what is bound to its own node only.
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		// For logs, exec and port-forward.
		"--kubelet-client-certificate=" + s.PKI("kubelet-client.crt"),
		"--kubelet-client-key=" + s.PKI("kubelet-client.key"),
		"--kubelet-certificate-authority=" + s.PKI("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
	}
}

func containerdArgs(s Spec) []string {
	return []string{"--config=" + s.ContainerdConfigFile()}
}

func kubeletArgs(s Spec) []string {
	return []string{
		"--config=" + s.KubeletConfigFile(),
		"--kubeconfig=" + s.KubeconfigOf(Kubelet),
		"--hostname-override=" + RealNodeName,
		"--node-ip=" + Gateway,
		"--root-dir=" + s.Path("data", "kubelet"),
		"--cert-dir=" + s.Path("data", "kubelet", "pki"),
	}
}

func kubeProxyArgs(s Spec) []string {
	return []string{
		"--kubeconfig=" + s.KubeconfigOf(KubeProxy),
		"--hostname-override=" + RealNodeName,
		"--proxy-mode=iptables",
		"--cluster-cidr=" + PodCIDR,
		// The pods share one bridge. Where the kernel does not show bridged packets
		// to iptables, the answer to a pod would not find its way back through the
		// address translation, unless it is addressed to the node.
		"--masquerade-all=true",
		// The limits of connection tracking are those of the whole machine.
		"--conntrack-max-per-core=0",
		fmt.Sprintf("--healthz-bind-address=%s:%d", Loopback, s.Ports.KubeProxy),
	}
}

func clusterDNSArgs(s Spec) []string {
	return []string{
		"--kubeconfig=" + s.KubeconfigOf(ClusterDNS),
		"--listen=" + Gateway + ":53",
		fmt.Sprintf("--health=%s:%d", Loopback, s.Ports.ClusterDNS),
		"--domain=" + ClusterDomain,
	}
}

// KubeletConfig renders the kubelet's configuration. cgroup is the group of all
// pods. What would reserve, limit or evict is off: the machine is shared with
// whatever else runs on it.
func KubeletConfig(s Spec, cgroup string) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
port: %[2]d
healthzBindAddress: %[3]s
healthzPort: %[4]d
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[5]q}
authorization: {mode: Webhook}
tlsCertFile: %[6]q
tlsPrivateKeyFile: %[7]q
clusterDNS: [%[1]s]
clusterDomain: %[8]s
# Pods must not ask the name servers of the machine.
resolvConf: ""
containerRuntimeEndpoint: "unix://%[9]s"
cgroupDriver: cgroupfs
cgroupRoot: %[10]q
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
evictionHard: {}
oomScoreAdj: 0
# Images are loaded, not pulled, so one that was removed would not come back.
imageGCHighThresholdPercent: 100
podLogsDir: %[11]q
volumePluginDir: %[12]q
nodeStatusUpdateFrequency: 2s
`, Gateway, s.Ports.Kubelet, Loopback, s.Ports.KubeletHealth, s.PKI("ca.crt"), s.PKI("serving.crt"), s.PKI("serving.key"),
		ClusterDomain, ContainerdSocket, cgroup, s.Path("logs", "pods"), s.Path("data", "volume-plugins"))
}

// ContainerdConfig renders containerd's configuration.
func ContainerdConfig(s Spec) string {
	return fmt.Sprintf(`version = 2
root = %[1]q
state = "/run/containerd/state"

[grpc]
address = %[2]q

[metrics]
address = %[3]q

[plugins."io.containerd.internal.v1.opt"]
path = %[4]q

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = %[5]q
# Without it a machine that may not lower the score runs no pod at all.
restrict_oom_score_adj = true
disable_tcp_service = true
stream_server_address = %[6]q

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = %[7]q
conf_dir = %[8]q
`, s.Path("data", "containerd"), ContainerdSocket, Loopback+":"+strconv.Itoa(s.Ports.Containerd),
		s.Path("data", "opt"), PauseImage, Loopback, s.CNIPlugins, s.Path("conf", "cni"))
}

// CNIConfig renders the network of the pods: one bridge, whose leases are as
// short-lived as the network namespace that it is in.
func CNIConfig() string {
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": "devcluster",
  "plugins": [{
    "type": "bridge",
    "bridge": %q,
    "isGateway": true,
    "isDefaultGateway": true,
    "hairpinMode": true,
    "ipam": {
      "type": "host-local",
      "dataDir": "/run/cni",
      "ranges": [[{"subnet": %q, "gateway": %q}]]
    }
  }]
}
`, Bridge, PodCIDR, Gateway)
}

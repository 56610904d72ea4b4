package component

import (
	"fmt"
	"strconv"

	"mlkeeper.dev/devcluster/internal/version"
)

// Args renders the command line of a component, without the program's name. It
// fails only for a name that is no component.
func Args(name string, s Spec) ([]string, error) {
	switch name {
	case Etcd:
		return etcdArgs(s), nil
	case APIServer:
		return apiServerArgs(s), nil
	case ControllerManager:
		return controllerManagerArgs(s), nil
	case Scheduler:
		return schedulerArgs(s), nil
	case SimulatedKubelet:
		return simulatedKubeletArgs(s), nil
	case StandIn:
		return standInArgs(s), nil
	case Containerd:
		return containerdArgs(s), nil
	case Kubelet:
		return kubeletArgs(s), nil
	case KubeProxy:
		return kubeProxyArgs(s), nil
	case ClusterDNS:
		return clusterDNSArgs(s), nil
	default:
		return nil, fmt.Errorf("there is no component %q; choose one of %v", name, Names)
	}
}

func etcdArgs(s Spec) []string {
	client := fmt.Sprintf("http://%s:%d", Loopback, s.Ports.Etcd)
	peer := fmt.Sprintf("http://%s:%d", Loopback, s.Ports.EtcdPeer)
	args := []string{
		"--name=devcluster",
		"--data-dir=" + s.Path("data", "etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=devcluster=" + peer,
		// A lone member elects itself when its election timer fires; the default
		// of one second would be a third of the whole boot.
		"--heartbeat-interval=20",
		"--election-timeout=100",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
		"--log-outputs=stderr",
	}
	if !s.Fsync {
		args = append(args, "--unsafe-no-fsync=true")
	}
	return args
}

func apiServerArgs(s Spec) []string {
	args := []string{
		fmt.Sprintf("--etcd-servers=http://%s:%d", Loopback, s.Ports.Etcd),
		"--secure-port=" + strconv.Itoa(s.Ports.APIServer),
		"--tls-cert-file=" + s.PKI("serving.crt"),
		"--tls-private-key-file=" + s.PKI("serving.key"),
		"--client-ca-file=" + s.PKI("ca.crt"),
		"--token-auth-file=" + s.PKI("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + s.PKI("sa.pub"),
		"--service-account-signing-key-file=" + s.PKI("sa.key"),
		"--service-cluster-ip-range=" + ServiceCIDR,
		// Aggregated servers, and the delegated authentication of the other
		// components, want these; without them each logs an error every second.
		"--requestheader-client-ca-file=" + s.PKI("ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + s.PKI("front-proxy.crt"),
		"--proxy-client-key-file=" + s.PKI("front-proxy.key"),
		"--allow-privileged=true",
		"--profiling=false",
	}
	if s.RealNode {
		args = append(args, apiServerNodeArgs(s)...)
	} else {
		args = append(args,
			"--bind-address="+Loopback,
			"--authorization-mode=RBAC",
			// Endpoints must not hold loopback addresses, so the reconciler of the
			// kubernetes Service could only ever log errors.
			"--endpoint-reconciler-type=none",
			// No packet reaches the address of a Service, since there is no kube-proxy.
			"--egress-selector-config-file="+s.EgressSelectorFile())
	}
	// On OpenShift it is on: who sets an owner reference needs the right to delete what gets it, and who blocks the owner's
	// deletion the right to update the owner's finalizers.
	args = append(args, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
	args = append(args, version.APIServerFlags...)
	if s.AuditLog != "" {
		args = append(args,
			"--audit-policy-file="+s.AuditPolicyFile(),
			"--audit-log-path="+s.AuditLog,
			"--audit-log-mode=blocking",
			// Tests count lines, so the file must never be rotated away.
			"--audit-log-maxsize=100000")
	}
	return args
}

func controllerManagerArgs(s Spec) []string {
	conf := s.KubeconfigOf(ControllerManager)
	return []string{
		"--kubeconfig=" + conf,
		"--authentication-kubeconfig=" + conf,
		"--authorization-kubeconfig=" + conf,
		"--bind-address=" + Loopback,
		"--secure-port=" + strconv.Itoa(s.Ports.ControllerManager),
		"--tls-cert-file=" + s.PKI("serving.crt"),
		"--tls-private-key-file=" + s.PKI("serving.key"),
		"--root-ca-file=" + s.PKI("ca.crt"),
		"--service-account-private-key-file=" + s.PKI("sa.key"),
		"--cluster-signing-cert-file=" + s.PKI("ca.crt"),
		"--cluster-signing-key-file=" + s.PKI("ca.key"),
		// Each controller then has the rights of its own role, as in a real cluster;
		// the shared user has next to none.
		"--use-service-account-credentials=true",
		// There is one of each, so a Lease would only delay every restart.
		"--leader-elect=false",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		// A busy machine may starve the heartbeats; evicting every pod for that
		// would make tests fail for no reason of theirs.
		"--node-monitor-period=1s",
		"--node-monitor-grace-period=5m",
		"--concurrent-gc-syncs=40",
		"--concurrent-namespace-syncs=20",
		"--concurrent-deployment-syncs=10",
		"--concurrent-replicaset-syncs=10",
		"--concurrent-service-endpoint-syncs=10",
		"--pvclaimbinder-sync-period=2s",
		"--profiling=false",
	}
}

func schedulerArgs(s Spec) []string {
	conf := s.KubeconfigOf(Scheduler)
	return []string{
		"--kubeconfig=" + conf,
		"--authentication-kubeconfig=" + conf,
		"--authorization-kubeconfig=" + conf,
		"--bind-address=" + Loopback,
		"--secure-port=" + strconv.Itoa(s.Ports.Scheduler),
		"--tls-cert-file=" + s.PKI("serving.crt"),
		"--tls-private-key-file=" + s.PKI("serving.key"),
		"--leader-elect=false",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--profiling=false",
	}
}

func simulatedKubeletArgs(s Spec) []string {
	return []string{
		"--kubeconfig=" + s.KubeconfigOf(SimulatedKubelet),
		"--pod-cidr=" + PodCIDR,
		"--egress=" + s.EgressSocket(),
		fmt.Sprintf("--listen=%s:%d", Loopback, s.Ports.SimulatedKubelet),
	}
}

func standInArgs(s Spec) []string {
	return []string{
		"--kubeconfig=" + s.KubeconfigOf(StandIn),
		fmt.Sprintf("--listen=%s:%d", Loopback, s.Ports.StandIn),
	}
}

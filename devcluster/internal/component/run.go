package component

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of the control plane
	_ "k8s.io/component-base/metrics/prometheus/version"  // the kubernetes_build_info metric
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"mlkeeper.dev/devcluster/internal/clusterdns"
	"mlkeeper.dev/devcluster/internal/simkubelet"
	"mlkeeper.dev/devcluster/internal/standin"
	"mlkeeper.dev/devcluster/internal/version"
)

// Marker is the hidden first argument that turns the binary into a component.
const Marker = "__component"

// Run becomes the named component and returns its exit code.
func Run(name string, args []string) int {
	// The entry points below read os.Args themselves.
	os.Args = append([]string{name}, args...)
	version.Stamp()
	switch name {
	case Etcd:
		etcdmain.Main(os.Args)
		return 0
	case APIServer:
		return cli.Run(apiserver.NewAPIServerCommand())
	case ControllerManager:
		return cli.Run(controllermanager.NewControllerManagerCommand())
	case Scheduler:
		return cli.Run(scheduler.NewSchedulerCommand())
	case Kubelet:
		// Its command ends the context at the first signal by itself.
		return cli.Run(kubelet.NewKubeletCommand(context.Background()))
	case KubeProxy:
		return cli.Run(kubeproxy.NewProxyCommand())
	case SimulatedKubelet:
		return exitCode(name, untilSignal(args, simkubelet.Main))
	case ClusterDNS:
		return exitCode(name, untilSignal(args, clusterdns.Main))
	case StandIn:
		return exitCode(name, untilSignal(args, standin.Main))
	default:
		return exitCode(name, fmt.Errorf("there is no such component; choose one of %v", Names))
	}
}

// untilSignal runs a component of devcluster's own until it is told to end.
func untilSignal(args []string, run func(context.Context, []string) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return run(ctx, args)
}

func exitCode(name string, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	return 1
}

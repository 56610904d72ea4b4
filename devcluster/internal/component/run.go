package component

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of the control plane
	_ "k8s.io/component-base/metrics/prometheus/version"  // the kubernetes_build_info metric
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwokcmd "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"

	"mlkeeper.dev/devcluster/internal/clusterdns"
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
	case Kwok:
		return exitCode(name, runKwok())
	case Kubelet:
		// Its command ends the context at the first signal by itself.
		return cli.Run(kubelet.NewKubeletCommand(context.Background()))
	case KubeProxy:
		return cli.Run(kubeproxy.NewProxyCommand())
	case ClusterDNS:
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return exitCode(name, clusterdns.Main(ctx, args))
	case StandIn:
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return exitCode(name, standin.Main(ctx, args))
	default:
		return exitCode(name, fmt.Errorf("there is no such component; choose one of %v", Names))
	}
}

func exitCode(name string, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	return 1
}

// runKwok does what KWOK's own main does: the stages come in through the
// context, which is why its command cannot be used alone.
func runKwok() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ = kwoklog.InitFlags(ctx, flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		return fmt.Errorf("reading the stages: %w", err)
	}
	// Kubernetes registers flags of its own for the whole process, among them a
	// --version that cobra cannot live with.
	pflag.CommandLine = pflag.NewFlagSet(Kwok, pflag.ContinueOnError)
	cmd := kwokcmd.NewCommand(ctx)
	cmd.PersistentFlags().AddFlagSet(flags)
	return cmd.ExecuteContext(ctx)
}

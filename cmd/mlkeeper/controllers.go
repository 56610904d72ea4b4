package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	kubeflowv1 "mlkeeper.dev/api/kubeflow/v1"
	kubeflowv1beta1 "mlkeeper.dev/api/kubeflow/v1beta1"
	seldonv1alpha1 "mlkeeper.dev/api/seldon/v1alpha1"
	tfservingv1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	trustyaiv1 "mlkeeper.dev/api/trustyai/v1"
	trustyaiv1alpha1 "mlkeeper.dev/api/trustyai/v1alpha1"
	"mlkeeper.dev/internal/engine"
	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/kserve"
	"mlkeeper.dev/internal/kubeflow"
	"mlkeeper.dev/internal/seldon"
	"mlkeeper.dev/internal/tfserving"
	"mlkeeper.dev/internal/trustyai"
)

// settings are what the operator is told about its controllers.
type settings struct {
	clusterDomain string
	// operatorNamespace is the namespace of the operator, which config/manager sets from the downward API; empty outside a pod unless a
	// flag names it.
	operatorNamespace string
	trustyAI          trustyai.Settings
	// trustyAIGeneration is what the image of trustyAI is; empty for what its name tells.
	trustyAIGeneration string
	tfserving          tfserving.Settings
	kubeflow           kubeflow.Settings
	// remoteBases are the addresses in kustomizations that are fetched.
	remoteBases  string
	seldon       seldon.Settings
	seldonCharts []string
	// operatorPrivileges are the controllers that write what users bring with the operator's own rights.
	operatorPrivileges []string
	// serviceAccount is that of custom resources which name none.
	serviceAccount string
	sources        sources
	// participant is the application.yaml of the participant that this manager is; empty for none.
	participant string
}

// bind adds the flags.
func (s *settings) bind(flags *pflag.FlagSet) {
	s.operatorNamespace = os.Getenv("POD_NAMESPACE")
	flags.StringVar(&s.clusterDomain, "cluster-domain", trustyai.DefaultClusterDomain, "DNS domain of the cluster")
	flags.StringVar(&s.trustyAI.Image, "trustyai-image", trustyai.DefaultImage,
		"image of a TrustyAIService that names none")
	flags.StringVar(&s.trustyAIGeneration, "trustyai-image-generation", "",
		"what --trustyai-image is, where its name does not tell: Java (before v0.16.0), JavaTLS (v0.16.0 to v0.28.0) or Python")
	flags.StringVar(&s.trustyAI.ProxyImage, "trustyai-proxy-image", trustyai.DefaultProxyImage,
		"image of the kube-rbac-proxy of a Secured TrustyAIService")
	flags.BoolVar(&s.trustyAI.UntrustedMetrics, "trustyai-untrusted-metrics", false,
		"have Prometheus send no token to TrustyAIServices of the ADR's shape, and prefer its own labels to those of their metrics")
	flags.StringVar(&s.tfserving.Image, "tfserving-image", tfserving.DefaultImage, "image of a Tfserv that names none")
	flags.StringVar(&s.tfserving.GPUImage, "tfserving-gpu-image", tfserving.DefaultGPUImage,
		"image of a Tfserv that names none and asks for GPUs")
	flags.DurationVar(&s.tfserving.ModelsEvery, "tfserving-models-every", tfserving.DefaultModelsEvery,
		"how often the model servers of a Tfserv are asked that have every model available")
	flags.StringSliceVar(&s.operatorPrivileges, "allow-operator-privileges", nil,
		"controllers, kubeflow or seldon, that apply what users bring with the operator's own rights where a custom resource names no ServiceAccount")
	flags.StringVar(&s.remoteBases, "kubeflow-remote-bases", string(kubeflow.PinnedBases),
		"addresses in the kustomizations of KfDefs that are fetched: pinned (to a tag, commit, version or digest), any or none")
	flags.StringArrayVar(&s.seldonCharts, "seldon-chart", nil,
		"COMPONENT=REPOSITORY,NAME,VERSION[,sha256:DIGEST]: where the chart of a component comes from that a SeldonOperator says nothing of; repeatable")
	flags.StringVar(&s.serviceAccount, "default-service-account", "",
		"ServiceAccount, of its own namespace, that a custom resource acts as whose applications or charts users bring and that names none")
	flags.StringVar(&s.participant, "participant-config", "",
		"application.yaml of ONAP's KServe participant; with it the manager is that participant")
	s.sources.bind(flags)
}

// registration is one controller of this binary.
type registration struct {
	name string
	// any makes the controller for the commands, register adds it to an engine.
	any      func(settings) controller.Any
	register func(*engine.Engine, settings) error
}

// registrations lists every controller. A further system is one line here.
func registrations() []registration {
	return []registration{
		{name: trustyai.ControllerName, any: func(s settings) controller.Any {
			settings := s.forTrustyAI()
			settings.DryRun = true
			return controller.Erase(trustyai.DefinitionIn(s.clusterDomain), trustyai.New(settings))
		}, register: func(e *engine.Engine, s settings) error {
			return engine.Register(e, trustyai.DefinitionIn(s.clusterDomain), trustyai.New(s.forTrustyAI()))
		}},
		{name: tfserving.ControllerName, any: func(s settings) controller.Any {
			return controller.Erase(tfserving.Definition(), tfserving.New(s.forTfserving()))
		}, register: func(e *engine.Engine, s settings) error {
			return engine.Register(e, tfserving.Definition(), tfserving.New(s.forTfserving()))
		}},
		{name: kubeflow.ControllerName, any: func(s settings) controller.Any {
			settings := s.forKubeflow()
			settings.Sources, settings.DryRun = s.sources.store(logr.Discard()), true
			return controller.Erase(kubeflow.Definition(), kubeflow.New(settings))
		}, register: func(e *engine.Engine, s settings) error {
			settings := s.forKubeflow()
			settings.Sources = s.sources.store(e.Log)
			return engine.Register(e, kubeflow.Definition(), kubeflow.New(settings))
		}},
		{name: seldon.ControllerName, any: func(s settings) controller.Any {
			settings, _ := s.forSeldon()
			settings.Sources, settings.DryRun = s.sources.store(logr.Discard()), true
			return controller.Erase(seldon.Definition(), seldon.New(settings))
		}, register: func(e *engine.Engine, s settings) error {
			settings, _ := s.forSeldon()
			settings.Sources = s.sources.store(e.Log)
			return engine.Register(e, seldon.Definition(), seldon.New(settings))
		}},
		{name: kserve.ControllerName, any: func(settings) controller.Any {
			return controller.Erase(kserve.Definition(), kserve.New())
		}, register: func(e *engine.Engine, _ settings) error {
			return engine.Register(e, kserve.Definition(), kserve.New())
		}},
	}
}

// check says which flags cannot be used, all at once and before anything starts.
func (s settings) check() error {
	var errs []error
	if err := s.forTrustyAI().Check(); err != nil {
		errs = append(errs, fmt.Errorf("--trustyai-image-generation: %w", err))
	}
	for _, name := range s.operatorPrivileges {
		if name != kubeflow.ControllerName && name != seldon.ControllerName {
			errs = append(errs, fmt.Errorf("--allow-operator-privileges has %q: give %s, %s or both; no other applies what users bring",
				name, kubeflow.ControllerName, seldon.ControllerName))
		}
	}
	if err := s.forKubeflow().RemoteBases.Check(); err != nil {
		errs = append(errs, fmt.Errorf("--kubeflow-remote-bases: %w", err))
	}
	_, err := s.forSeldon()
	_, of := s.sources.options(logr.Discard())
	return errors.Join(append(errs, err, of)...)
}

// forKubeflow completes the settings of one controller with those of all.
func (s settings) forKubeflow() kubeflow.Settings {
	out := s.kubeflow
	out.DefaultServiceAccount, out.OperatorNamespace = s.serviceAccount, s.operatorNamespace
	out.Trusted = slices.Contains(s.operatorPrivileges, kubeflow.ControllerName)
	out.Workers, out.Results = s.sources.work.workers(), s.sources.work.memory()
	out.RemoteBases = kubeflow.RemoteBases(s.remoteBases)
	return out
}

func (s settings) forSeldon() (seldon.Settings, error) {
	out := s.seldon
	out.ClusterDomain, out.DefaultServiceAccount, out.OperatorNamespace = s.clusterDomain, s.serviceAccount, s.operatorNamespace
	out.Trusted = slices.Contains(s.operatorPrivileges, seldon.ControllerName)
	out.Workers, out.Results = s.sources.work.workers(), s.sources.work.memory()
	out.Charts = map[string]seldonv1alpha1.Chart{}
	for _, text := range s.seldonCharts {
		component, chart, err := seldon.ParseChart(text)
		if err != nil {
			return out, fmt.Errorf("--seldon-chart: %w", err)
		}
		out.Charts[component] = chart
	}
	return out, nil
}

// forTrustyAI completes the settings of one controller with those of all.
func (s settings) forTrustyAI() trustyai.Settings {
	out := s.trustyAI
	out.ClusterDomain, out.ImageGeneration = s.clusterDomain, trustyaiv1.ImageGeneration(s.trustyAIGeneration)
	out.OperatorNamespace = s.operatorNamespace
	return out
}

func (s settings) forTfserving() tfserving.Settings {
	out := s.tfserving
	out.ClusterDomain = s.clusterDomain
	return out
}

func controllers(s settings) []controller.Any {
	var out []controller.Any
	for _, r := range registrations() {
		out = append(out, r.any(s))
	}
	return out
}

func controllerNames() []string {
	var out []string
	for _, r := range registrations() {
		out = append(out, r.name)
	}
	return out
}

// schemes are the API packages whose types the manager decodes.
func schemes() []func(*runtime.Scheme) error {
	return []func(*runtime.Scheme) error{
		keeper.AddToScheme, trustyaiv1.AddToScheme, trustyaiv1alpha1.AddToScheme,
		tfservingv1alpha1.AddToScheme, kubeflowv1.AddToScheme, kubeflowv1beta1.AddToScheme, seldonv1alpha1.AddToScheme,
	}
}

package tfserving

import (
	"time"

	v1alpha1 "mlkeeper.dev/api/tfserving/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/tfserving/modelconfig"
	"mlkeeper.dev/internal/workload"
)

// Facts are everything that rendering needs beyond the custom resource.
type Facts struct {
	// Problems stand in the way of starting pods; the Service is made nevertheless.
	Problems []plan.Problem
	// Constraints says that OpenShift's security context constraints choose users and groups.
	Constraints bool
	// Config is the model config; its zero value stands for none that could be read.
	Config modelconfig.Config
	// Serving is the model config that the servers run with: Config, but for a problem that keeps it from them.
	Serving modelconfig.Config
	// Unknown is the first field of the model config that MLKeeper does not know, of a server that spec.image brings; empty for none.
	Unknown string
	// Source is the model config in the owner's ConfigMap; empty for spec.models.
	Source string
	// ConfigText is the file as it is mounted, and ConfigOwn that MLKeeper has written it, not the owner of a ConfigMap.
	ConfigText string
	ConfigOwn  bool
	// CredentialsFile is the key of the Secret with credentials for Google Cloud Storage.
	CredentialsFile string
	// CredentialsDigest is a keyed digest of every credential that the pods read once at their start; empty without any.
	CredentialsDigest string
	// TLSPair says that the TLS of the gRPC API is made of a Secret of the type kubernetes.io/tls, TLSAdmitsNobody that it asks clients for a
	// certificate and has no authority to verify one.
	TLSPair, TLSAdmitsNobody bool
	// Downloads are the models that an init container downloads.
	Downloads []Download
	// SingleNode says that the claim with the models can be mounted by the pods of one node only, SinglePod by one pod only.
	SingleNode, SinglePod bool
	// Running is what runs; nil while there is no Deployment.
	Running *Running
	// Ports are the ports of the Service as they are, by name.
	Ports map[string]Port
	// KEDA says that ScaledObjects are served, HTTPRoute and GRPCRoute that these are.
	KEDA, HTTPRoute, GRPCRoute bool
	// Autoscaler and ScaledObject say that there is a HorizontalPodAutoscaler of ours, and a ScaledObject.
	Autoscaler, ScaledObject bool
	// UnscaledAt is when it is to be told that the HorizontalPodAutoscaler does not scale; zero where it does, or that is told.
	UnscaledAt time.Time
	// Answer is what the model servers said last; nil while nobody was asked or nobody has answered yet.
	Answer *Answer
	// Restart tells apart the restarts of servers that read their config again and would not read the corrected one; empty for none so far.
	// NextRestart is the one that is due once that config is written; empty for none.
	Restart, NextRestart string
	// Left records the models that were taken out lately of the config that servers read again and again; empty for none.
	Left string
	// Held are the labels that stay where they are until their next version is available.
	Held []modelconfig.HeldLabel
	// Failure is what keeps pods from being ready; nil while nothing is known of it.
	Failure *PodFailure
	// Canary is the track of spec.canary; nil without it.
	Canary *Canary
	// Ending is until when the servers of a canary that has ended are kept, so that Gateways can read the routes without it; zero for none.
	Ending time.Time
}

// LoadedVersion is a version of a model.
type LoadedVersion struct {
	Model   string
	Version int64
}

// Download is a model that is fetched before the server starts.
type Download struct {
	// From is the URI, To the folder.
	From, To string
}

// Running is a Deployment as observed.
type Running struct {
	workload.Rollout
	// Config is the name of the ConfigMap of ours that its template uses, and Hash the hash of its configuration.
	Config, Hash string
	// Template is the form of its pod template; empty for that of an earlier version of MLKeeper.
	Template string
	// Inputs tells apart what users' objects gave its pods; empty where that is not recorded.
	Inputs string
	// Restart and NextRestart are those of Facts as the Deployment records them.
	Restart, NextRestart string
	// Autoscaled is the kind of the autoscaler of ours that has, or had last, the replicas; empty for none.
	Autoscaled string
	// Uncreated says why pods that it lacks cannot be created, such as for a quota; empty where none is refused.
	Uncreated string
	// Current says that the rollout is complete.
	Current bool
	// Generation and ResourceVersion are those of the Deployment.
	Generation      int64
	ResourceVersion string
}

// Port is one port of the Service.
type Port struct{ Port, NodePort int64 }

// Answer is what the model servers said.
type Answer struct {
	// Servers is how many were asked, Answered how many of them answered.
	Servers, Answered int
	// Unasked is how many more servers there were.
	Unasked int
	// Models holds the models in the order of the config, the versions of each in order.
	Models []v1alpha1.ModelStatus
	// Available counts the models of which every server that answered has a version available.
	Available int
	// Asked is how many models they were asked for, and At when.
	Asked int
	At    time.Time
	// Loaded are the versions with a label, and that of a canary, that all of them have available.
	Loaded map[LoadedVersion]bool
	// Settled says that every server answered and has every model available, and that no version and no label is about to change.
	Settled bool
	// longest is the longest pause until servers are asked again that have not settled.
	longest time.Duration
}

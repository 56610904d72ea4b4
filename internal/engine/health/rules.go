package health

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rule is what this package knows about one built-in kind with a status.
type rule struct {
	// health computes the health of an object that is not being deleted and whose generation was observed. Without it, the
	// object is current as soon as it exists.
	health func(object) Result
	// observes tells that the controller of the kind always reports the generation that it has seen.
	observes bool
	// fields are the paths below the top of the object that health reads, besides its metadata, status.observedGeneration
	// and its conditions. A segment "*" stands for every element of a list.
	fields []string
}

// rules has an entry for every built-in kind with a status in k8s.io/api 0.37, apiextensions and kube-aggregator. Built-in
// kinds without an entry have no status.
var rules = builtinRules()

// builtinRules builds the table of rules.
func builtinRules() map[schema.GroupKind]rule {
	replicas := []string{"spec.replicas", "status.replicas", "status.readyReplicas", "status.availableReplicas"}
	deploy := rule{health: deployment, observes: true, fields: append([]string{
		"spec.paused", "status.updatedReplicas",
	}, replicas...)}
	replicaset := rule{health: replicaSet, observes: true, fields: replicas}
	daemonset := rule{health: daemonSet, observes: true, fields: []string{
		"spec.updateStrategy.type", "status.desiredNumberScheduled", "status.currentNumberScheduled",
		"status.updatedNumberScheduled", "status.numberAvailable", "status.numberReady",
	}}
	waiting := "Statuses.*.state.waiting.reason"
	return map[schema.GroupKind]rule{
		{Group: "apps", Kind: "Deployment"}:       deploy,
		{Group: "extensions", Kind: "Deployment"}: deploy,
		{Group: "apps", Kind: "ReplicaSet"}:       replicaset,
		{Group: "extensions", Kind: "ReplicaSet"}: replicaset,
		{Kind: "ReplicationController"}:           replicaset,
		{Group: "apps", Kind: "DaemonSet"}:        daemonset,
		{Group: "extensions", Kind: "DaemonSet"}:  daemonset,
		{Group: "apps", Kind: "StatefulSet"}: {health: statefulSet, observes: true, fields: append([]string{
			"spec.updateStrategy.type", "spec.updateStrategy.rollingUpdate.partition", "status.updatedReplicas",
			"status.currentRevision", "status.updateRevision",
		}, replicas...)},
		{Group: "batch", Kind: "Job"}: {health: job, fields: []string{"spec.suspend", "status.active"}},
		// A CronJob is current between its runs, whatever they did: a failed run is a failed Job.
		{Group: "batch", Kind: "CronJob"}: {},
		{Kind: "Pod"}: {health: pod, fields: []string{
			"status.phase", "status.reason", "status.container" + waiting,
			"status.initContainer" + waiting,
		}},

		{Kind: "PersistentVolumeClaim"}:                   {health: claim, fields: []string{"status.phase"}},
		{Kind: "PersistentVolume"}:                        {health: volume, fields: []string{"status.phase", "status.reason"}},
		{Group: "storage.k8s.io", Kind: "CSINode"}:        {},
		{Group: "resource.k8s.io", Kind: "ResourceClaim"}: {},
		{Group: "storage.k8s.io", Kind: "VolumeAttachment"}: {health: attachment, fields: []string{
			"status.attached", "status.attachError.time",
		}},
		{Group: "storagemigration.k8s.io", Kind: "StorageVersionMigration"}: {health: finishes("Succeeded")},

		{Kind: "Service"}: {health: service, fields: []string{
			"spec.type", "status.loadBalancer.ingress.*.ip",
			"status.loadBalancer.ingress.*.hostname",
		}},
		// Many ingress controllers never publish an address, so its absence says nothing; kstatus agrees.
		{Group: "networking.k8s.io", Kind: "Ingress"}:     {},
		{Group: "extensions", Kind: "Ingress"}:            {},
		{Group: "networking.k8s.io", Kind: "ServiceCIDR"}: {health: serviceCIDR},

		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {health: autoscaler, fields: []string{"status.conditions.*.lastTransitionTime"}},
		{Group: "policy", Kind: "PodDisruptionBudget"}:          {health: budget, observes: true},

		// The phase Terminating of a Namespace follows its deletion timestamp.
		{Kind: "Namespace"}:     {},
		{Kind: "Node"}:          {health: node},
		{Kind: "ResourceQuota"}: {},
		// Its status tells of the Prometheuses that select it, which is none of its maker's business.
		{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}:                    {},
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:           {health: definition, fields: []string{"status.conditions.*.lastTransitionTime"}},
		{Group: "apiregistration.k8s.io", Kind: "APIService"}:                       {health: apiService},
		{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}:           {health: signingRequest, fields: []string{"status.certificate"}},
		{Group: "certificates.k8s.io", Kind: "PodCertificateRequest"}:               {health: finishes("Issued")},
		{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"}:                 {health: flowSchema},
		{Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"}: {},
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:  {},
		{Group: "internal.apiserver.k8s.io", Kind: "StorageVersion"}:                {},
		{Group: "resource.k8s.io", Kind: "DeviceTaintRule"}:                         {},
		{Group: "resource.k8s.io", Kind: "ResourcePoolStatusRequest"}:               {health: finishes("Complete")},
		{Group: "scheduling.k8s.io", Kind: "PodGroup"}:                              {},
		{Group: "scheduling.k8s.io", Kind: "CompositePodGroup"}:                     {},
		{Group: "lifecycle.k8s.io", Kind: "Eviction"}:                               {health: finishes("TargetEvicted")},
		{Group: "lifecycle.k8s.io", Kind: "EvictionRequest"}:                        {},
	}
}

// builtinGroups are the API groups that the Kubernetes API server serves by itself. Groups of others end in k8s.io as well
// (gateway.networking.k8s.io, snapshot.storage.k8s.io), so they are listed and not matched by their end.
var builtinGroups = func() map[string]bool {
	groups := map[string]bool{}
	for _, g := range strings.Fields(`apps autoscaling batch extensions policy
		admissionregistration.k8s.io apiextensions.k8s.io apiregistration.k8s.io authentication.k8s.io
		authorization.k8s.io certificates.k8s.io coordination.k8s.io discovery.k8s.io events.k8s.io
		flowcontrol.apiserver.k8s.io imagepolicy.k8s.io internal.apiserver.k8s.io lifecycle.k8s.io networking.k8s.io
		node.k8s.io rbac.authorization.k8s.io resource.k8s.io scheduling.k8s.io storage.k8s.io
		storagemigration.k8s.io`) {
		groups[g] = true
	}
	groups[""] = true
	return groups
}()

// statusless tells whether a kind without a rule is one of the built-in kinds that have no status.
func statusless(gk schema.GroupKind) bool { return builtinGroups[gk.Group] }

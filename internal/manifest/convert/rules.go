package convert

import "k8s.io/apimachinery/pkg/runtime/schema"

// rules are tried in order; the first whose target is served applies.
var rules = buildRules()

func buildRules() []rule {
	var out []rule
	add := func(group string, kinds, from []string, to schema.GroupVersion, rewrite func(*object, string) error) {
		for _, kind := range kinds {
			out = append(out, rule{kind: schema.GroupKind{Group: group, Kind: kind}, from: from, to: to, rewrite: rewrite})
		}
	}
	v1 := func(group string) schema.GroupVersion { return schema.GroupVersion{Group: group, Version: "v1"} }
	const (
		extensions = "extensions"
		rbac       = "rbac.authorization.k8s.io"
		admission  = "admissionregistration.k8s.io"
		networking = "networking.k8s.io"
	)
	beta, betaOrAlpha := []string{"v1beta1"}, []string{"v1beta1", "v1alpha1"}

	const definitions = "apiextensions.k8s.io"
	add(definitions, []string{"CustomResourceDefinition"}, beta, v1(definitions), customResourceDefinition)
	add(rbac, []string{"Role", "ClusterRole"}, betaOrAlpha, v1(rbac), nil)
	add(rbac, []string{"RoleBinding", "ClusterRoleBinding"}, betaOrAlpha, v1(rbac), binding)
	add(admission, []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}, beta, v1(admission), webhooks)
	add("apiregistration.k8s.io", []string{"APIService"}, beta, v1("apiregistration.k8s.io"), nil)
	add("policy", []string{"PodDisruptionBudget"}, beta, v1("policy"), disruptionBudget)
	autoscaling := schema.GroupVersion{Group: "autoscaling", Version: "v2"}
	add("autoscaling", []string{"HorizontalPodAutoscaler"}, []string{"v2beta1"}, autoscaling, autoscaler)
	add("autoscaling", []string{"HorizontalPodAutoscaler"}, []string{"v2beta2"}, autoscaling, nil)
	add(extensions, []string{"Ingress"}, beta, v1(networking), ingress)
	add(networking, []string{"Ingress"}, beta, v1(networking), ingress)
	add(networking, []string{"IngressClass"}, beta, v1(networking), nil)
	add(extensions, []string{"NetworkPolicy"}, beta, v1(networking), nil)
	betas := []string{"v1beta1", "v1beta2"}
	add(extensions, []string{"Deployment"}, beta, v1("apps"), deploymentOfExtensions)
	add(extensions, []string{"DaemonSet"}, beta, v1("apps"), updatedOnDelete)
	add(extensions, []string{"ReplicaSet"}, beta, v1("apps"), sameWorkload)
	add("apps", []string{"Deployment", "DaemonSet", "ReplicaSet"}, betas, v1("apps"), sameWorkload)
	add("apps", []string{"StatefulSet"}, betas, v1("apps"), updatedOnDelete)
	add("apps", []string{"ControllerRevision"}, betas, v1("apps"), nil)
	add("batch", []string{"CronJob"}, []string{"v1beta1", "v2alpha1"}, v1("batch"), nil)
	add("scheduling.k8s.io", []string{"PriorityClass"}, betaOrAlpha, v1("scheduling.k8s.io"), nil)
	const storage = "storage.k8s.io"
	add(storage, []string{"StorageClass", "CSIDriver", "CSINode"}, beta, v1(storage), nil)
	add(storage, []string{"VolumeAttachment", "CSIStorageCapacity", "VolumeAttributesClass"}, betaOrAlpha, v1(storage), nil)
	add("coordination.k8s.io", []string{"Lease"}, beta, v1("coordination.k8s.io"), nil)
	add("discovery.k8s.io", []string{"EndpointSlice"}, beta, v1("discovery.k8s.io"), endpointSlice)
	add("events.k8s.io", []string{"Event"}, beta, v1("events.k8s.io"), event)
	add("certificates.k8s.io", []string{"CertificateSigningRequest"}, beta, v1("certificates.k8s.io"), signingRequest)
	add("node.k8s.io", []string{"RuntimeClass"}, betaOrAlpha, v1("node.k8s.io"), runtimeClass)
	const priorities = "flowcontrol.apiserver.k8s.io"
	removedPriorities := []string{"v1alpha1", "v1beta1", "v1beta2", "v1beta3"}
	add(priorities, []string{"FlowSchema"}, removedPriorities, v1(priorities), nil)
	add(priorities, []string{"PriorityLevelConfiguration"}, removedPriorities, v1(priorities), priorityLevel)
	add(admission, []string{"ValidatingAdmissionPolicy"}, betaOrAlpha, v1(admission), nil)
	add(admission, []string{"ValidatingAdmissionPolicyBinding"}, betaOrAlpha, v1(admission), policyBinding)
	return out
}

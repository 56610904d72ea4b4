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
	add(extensions, []string{"Deployment", "DaemonSet", "ReplicaSet"}, beta, v1("apps"), workload)
	add("apps", []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}, []string{"v1beta1", "v1beta2"}, v1("apps"),
		workload)
	add("batch", []string{"CronJob"}, []string{"v1beta1", "v2alpha1"}, v1("batch"), nil)
	add("scheduling.k8s.io", []string{"PriorityClass"}, betaOrAlpha, v1("scheduling.k8s.io"), nil)
	const storage = "storage.k8s.io"
	add(storage, []string{"StorageClass", "CSIDriver", "CSINode", "VolumeAttachment"}, beta, v1(storage), nil)
	return out
}

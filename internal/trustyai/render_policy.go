package trustyai

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mlkeeper.dev/internal/engine/plan"
	"mlkeeper.dev/internal/workload"
)

// The labels by which the policy of a Secured service knows those that must reach the service itself.
const (
	// kservePodLabel is on all pods of an InferenceService (KServe, constants.InferenceServicePodLabelKey), and meshPodLabel on all
	// of ModelMesh, by which its own Service selects them.
	kservePodLabel = "serving.kserve.io/inferenceservice"
	meshPodLabel   = "modelmesh-service"
	// prometheusLabel is on the pods of Prometheus, as its operator and its charts label them.
	prometheusLabel = "app.kubernetes.io/name"
	// monitoringLabel is that of OpenShift on the namespaces of its monitoring, metricsNamespaceLabel that of Kubebuilder's policies.
	monitoringLabel, monitoringValue           = "network.openshift.io/policy-group", "monitoring"
	metricsNamespaceLabel, metricsEnabledValue = "metrics", "enabled"
)

// policy renders the NetworkPolicy that closes a Secured service: everybody reaches the proxy, which asks who he is. The service
// behind it asks nobody, also with TLS, so only those reach its port with TLS that cannot go through the proxy: whoever sends
// payloads from the same namespace, and Prometheus. Nobody reaches the port without TLS; the kubelet, whose probes use it, is
// never subject to a policy of its own pods. Policies add up, so a user can admit more with another one.
func (r *scene) policy() {
	if !r.secured {
		return
	}
	ingress := []networkingv1.NetworkPolicyIngressRule{
		{Ports: policyPorts(proxyPort)},
		{Ports: policyPorts(r.reached.tls), From: []networkingv1.NetworkPolicyPeer{
			{PodSelector: hasLabel(kservePodLabel)},
			{PodSelector: hasLabel(meshPodLabel)},
			{PodSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: prometheusLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{"prometheus", "prometheus-agent"}},
			}}},
			{NamespaceSelector: selectorOf(map[string]string{monitoringLabel: monitoringValue})},
			{NamespaceSelector: selectorOf(map[string]string{metricsNamespaceLabel: metricsEnabledValue})},
		}},
	}
	r.add(plan.Typed(gvkPolicy, &networkingv1.NetworkPolicy{
		ObjectMeta: r.meta(r.names.policy, r.labels()),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *selectorOf(r.podSelector()), PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: ingress,
		},
	}))
}

// disruption renders the PodDisruptionBudget.
func (r *scene) disruption() {
	spec := r.cr.Spec.PodDisruptionBudget
	if spec == nil {
		return
	}
	o := plan.Typed(gvkBudget, workload.Budget(r.meta(r.names.base, r.labels()), r.podSelector(), spec))
	o.IgnoreHealth = true
	r.add(o)
	if text := workload.Undrainable(spec, *r.replicas()); text != "" {
		r.warn("%s", text)
	}
}

// open says what the first pods of a Secured service wait for, so that nobody reaches them before they are closed.
func (r *scene) open() string {
	if r.securesPods && !r.facts.Closed && r.facts.Deployment == nil {
		return "the NetworkPolicy " + r.names.policy
	}
	return ""
}

func policyPorts(port int32) []networkingv1.NetworkPolicyPort {
	return []networkingv1.NetworkPolicyPort{{Protocol: pointer(corev1.ProtocolTCP), Port: pointer(intstr.FromInt32(port))}}
}

func hasLabel(key string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpExists}}}
}

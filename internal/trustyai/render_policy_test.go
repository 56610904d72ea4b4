package trustyai

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "mlkeeper.dev/api/trustyai/v1"
	"mlkeeper.dev/internal/engine/plan"
)

// caller is a pod that connects to the pods of a service.
type caller struct{ namespace, pod, namespaceLabels labels.Set }

// admits says whether a NetworkPolicy lets a caller reach a port, as the API's documentation says: each rule admits its peers to its
// ports, and a peer without a selector of namespaces is of the policy's own.
func admits(t *testing.T, policy *networkingv1.NetworkPolicy, from caller, port int32) bool {
	t.Helper()
	matches := func(s *metav1.LabelSelector, on labels.Set) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		return selector.Matches(on)
	}
	return slices.ContainsFunc(policy.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
		open := slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntVal == port })
		return open && (len(rule.From) == 0 || slices.ContainsFunc(rule.From, func(peer networkingv1.NetworkPolicyPeer) bool {
			if peer.NamespaceSelector == nil && from.namespace["name"] != policy.Namespace {
				return false
			}
			return (peer.NamespaceSelector == nil || matches(peer.NamespaceSelector, from.namespaceLabels)) &&
				(peer.PodSelector == nil || matches(peer.PodSelector, from.pod))
		}))
	})
}

// policyOf is the rendered NetworkPolicy, the labels of the pods, and the port of these to which the Service has one without TLS.
func policyOf(t *testing.T, cr *v1.TrustyAIService) (policy *networkingv1.NetworkPolicy, pods labels.Set, plain int32) {
	t.Helper()
	c := newCluster(gvkServiceCA, gvkConstraints)
	c.Put(parse(t, pvYAML))
	_, p := gatherAndRender(t, c, cr)
	policy = &networkingv1.NetworkPolicy{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(mustFind(t, p, "NetworkPolicy", ServiceName(cr)+"-secured").Object, policy)
	if err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(mustFind(t, p, "Service", ServiceName(cr)).Object, service); err != nil {
		t.Fatal(err)
	}
	for _, port := range service.Spec.Ports {
		if port.Name == "http" {
			plain = port.TargetPort.IntVal
		}
	}
	pods, _, err = unstructured.NestedStringMap(mustFind(t, p, "Deployment", ServiceName(cr)).Object, "spec", "template", "metadata", "labels")
	if err != nil {
		t.Fatal(err)
	}
	return policy, pods, plain
}

// Test_ASecuredServiceIsClosed goes through everybody who could reach the API beside the proxy, which asks nobody who he is.
func Test_ASecuredServiceIsClosed(t *testing.T) {
	in := func(namespace string, pod, ns labels.Set) caller {
		return caller{labels.Set{"name": namespace}, pod, ns}
	}
	isvcPod, prometheus := labels.Set{"serving.kserve.io/inferenceservice": "m"}, labels.Set{"app.kubernetes.io/name": "prometheus"}
	for _, spec := range []string{adrSpec + "  exposure: Secured\n", upstreamSpec, upstreamSpec + "  imageGeneration: Python\n"} {
		cr := custom(t, spec)
		policy, pods, plain := policyOf(t, cr)
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil || selector.Empty() || !selector.Matches(pods) {
			t.Errorf("the policy selects %v (%v), and the pods are %v", policy.Spec.PodSelector, err, pods)
		}
		if !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
			t.Errorf("policy types %v", policy.Spec.PolicyTypes)
		}
		for name, c := range map[string]struct {
			from caller
			tls  bool
		}{
			"an InferenceService":                         {in("ns", isvcPod, nil), true},
			"ModelMesh":                                   {in("ns", labels.Set{"modelmesh-service": "modelmesh-serving"}, nil), true},
			"Prometheus of the namespace":                 {in("ns", prometheus, nil), true},
			"OpenShift's monitoring":                      {in("openshift-monitoring", prometheus, labels.Set{"network.openshift.io/policy-group": "monitoring"}), true},
			"a namespace for metrics":                     {in("monitoring", prometheus, labels.Set{"metrics": "enabled"}), true},
			"another pod of the namespace":                {in("ns", labels.Set{"app": "x"}, nil), false},
			"another namespace":                           {in("other", labels.Set{"app": "x"}, nil), false},
			"another namespace that poses as a model":     {in("other", isvcPod, nil), false},
			"another namespace that poses as Prometheus":  {in("other", prometheus, nil), false},
			"another namespace that poses as the service": {in("other", pods, nil), false},
		} {
			for port, want := range map[int32]bool{8443: true, 4443: c.tls, 8080: false, 8081: false, 9443: false} {
				if got := admits(t, policy, c.from, port); got != want {
					t.Errorf("%s reaches the port %d: %v", name, port, got)
				}
			}
			if plain == 0 || admits(t, policy, c.from, plain) {
				t.Errorf("%s reaches the port %d by the port of the Service without TLS", name, plain)
			}
		}
	}
}

// Test_NoPodStartsBeforeItIsClosed: the first pods wait for the NetworkPolicy, and those that run are not held back by its absence.
func Test_NoPodStartsBeforeItIsClosed(t *testing.T) {
	c, cr := newCluster(), custom(t, upstreamSpec+"  tls: {secretName: mine}\n")
	c.Put(secretOf2("ns", "mine", map[string]string{"tls.crt": "CRT", "tls.key": "KEY"}))
	held := func(p plan.Plan) string { return deploymentIn(t, p).Hold }
	_, p := gatherAndRender(t, c, cr)
	if got := held(p); got != "the NetworkPolicy tas-secured" {
		t.Errorf("the Deployment waits for %q", got)
	}
	policy := mustFind(t, p, "NetworkPolicy", "tas-secured")
	c.Own(policy, testOwner)
	_, p = gatherAndRender(t, c, cr)
	if got := held(p); got != "" {
		t.Errorf("the Deployment of a closed service waits for %q", got)
	}
	c.Own(deploymentIn(t, p).Desired, testOwner)
	delete(c.Children, plan.KeyOf(policy))
	_, p = gatherAndRender(t, c, cr)
	if got := held(p); got != "" {
		t.Errorf("a Deployment that runs waits for %q", got)
	}
}

// Test_APlainServiceHasNoPolicy: its API is reachable by choice.
func Test_APlainServiceHasNoPolicy(t *testing.T) {
	_, p := gatherAndRender(t, newCluster(), custom(t, upstreamSpec+"  exposure: Plain\n"))
	if find(p, "NetworkPolicy", "tas-secured") != nil {
		t.Error("a Plain service is closed")
	}
}

// Test_ASecuredServiceIsScrapedOverTLS: the ServiceMonitor and the annotations name the port that Prometheus may reach.
func Test_ASecuredServiceIsScrapedOverTLS(t *testing.T) {
	for _, spec := range []string{adrSpec + "  exposure: Secured\n", upstreamSpec} {
		cr := custom(t, spec)
		c := newCluster(gvkServiceCA, gvkConstraints)
		c.Put(parse(t, pvYAML))
		_, p := gatherAndRender(t, c, cr)
		endpoint := endpointOf(t, mustFind(t, p, "ServiceMonitor", namesOf(cr).serviceMonitor))
		if endpoint["port"] != "https" || endpoint["scheme"] != "https" || endpoint["targetPort"] != nil || endpoint["bearerTokenFile"] != nil {
			t.Errorf("the endpoint is %v", endpoint)
		}
		annotations := mustFind(t, p, "Service", ServiceName(cr)).GetAnnotations()
		if !ADRShape(cr) && (annotations["prometheus.io/scheme"] != "https" || annotations["prometheus.io/port"] != "4443") {
			t.Errorf("the annotations are %v", annotations)
		}
	}
}

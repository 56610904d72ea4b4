package main

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// shipped decodes the object of a kind from a file below config.
func shipped[T any](t *testing.T, file, kind string) T {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../config", file))
	if err != nil {
		t.Fatal(err)
	}
	var out T
	for _, text := range bytes.Split(raw, []byte("\n---\n")) {
		var of metav1.TypeMeta
		if err := yaml.Unmarshal(text, &of); err != nil {
			t.Fatal(err)
		}
		if of.Kind != kind {
			continue
		}
		if err := yaml.Unmarshal(text, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	t.Fatalf("%s has no %s", file, kind)
	return out
}

// TestPrometheusReadsTheMetricsAndNothingElse: the token that the PodMonitor has sent is that of a ServiceAccount which may read the
// metrics, over TLS, and may do nothing else.
func TestPrometheusReadsTheMetricsAndNothingElse(t *testing.T) {
	type monitor struct {
		Spec struct {
			PodMetricsEndpoints []struct {
				Port, Scheme  string
				Authorization struct {
					Type        string
					Credentials struct{ Name, Key string }
				}
			}
		}
	}
	endpoints := shipped[monitor](t, "monitoring/podmonitor.yaml", "PodMonitor").Spec.PodMetricsEndpoints
	if len(endpoints) != 1 {
		t.Fatalf("%+v", endpoints)
	}
	e := endpoints[0]
	const file = "monitoring/reader/metrics_reader.yaml"
	token := shipped[corev1.Secret](t, file, "Secret")
	account := shipped[corev1.ServiceAccount](t, file, "ServiceAccount")
	binding := shipped[rbacv1.ClusterRoleBinding](t, file, "ClusterRoleBinding")
	role := shipped[rbacv1.ClusterRole](t, "rbac/engine/metrics-reader-role.yaml", "ClusterRole")
	switch {
	case e.Scheme != "https" || e.Authorization.Type != "Bearer":
		t.Errorf("the metrics are asked for by %+v", e)
	case e.Authorization.Credentials.Name != token.Name || e.Authorization.Credentials.Key != corev1.ServiceAccountTokenKey:
		t.Errorf("no token is in %+v", e.Authorization.Credentials)
	case token.Type != corev1.SecretTypeServiceAccountToken || token.Annotations[corev1.ServiceAccountNameKey] != account.Name || token.Namespace != account.Namespace:
		t.Errorf("%s %s is no token of %s", token.Type, token.Annotations, account.Name)
	case len(binding.Subjects) != 1 || binding.Subjects[0].Name != account.Name || binding.RoleRef.Name != role.Name:
		t.Errorf("%+v binds %+v", binding.RoleRef, binding.Subjects)
	case len(role.Rules) != 1 || !slices.Equal(role.Rules[0].NonResourceURLs, []string{"/metrics"}) || !slices.Equal(role.Rules[0].Verbs, []string{"get"}):
		t.Errorf("the readers may %+v", role.Rules)
	}
	install, err := os.ReadFile("../../config/install.yaml")
	if err != nil || strings.Contains(string(install), "--metrics-secure") {
		t.Errorf("the manifests set the flag, whose default is meant: %v", err)
	}
}

// destination is what a connection of the manager goes to.
type destination struct {
	address string
	port    int32
	udp     bool
	// pod are the labels of the pod at the address, if it is one.
	pod labels.Set
}

// allows says that a rule for egress lets a connection through, as the API has it.
func allows(t *testing.T, rule networkingv1.NetworkPolicyEgressRule, to destination) bool {
	t.Helper()
	port := len(rule.Ports) == 0
	for _, p := range rule.Ports {
		last := p.Port.IntVal
		if p.EndPort != nil {
			last = *p.EndPort
		}
		port = port || (*p.Protocol == corev1.ProtocolUDP) == to.udp && p.Port.IntVal <= to.port && to.port <= last
	}
	peer := len(rule.To) == 0
	for _, p := range rule.To {
		switch {
		case p.IPBlock != nil:
			ip := netip.MustParseAddr(to.address)
			peer = peer || netip.MustParsePrefix(p.IPBlock.CIDR).Contains(ip) &&
				!slices.ContainsFunc(p.IPBlock.Except, func(text string) bool { return netip.MustParsePrefix(text).Contains(ip) })
		case to.pod != nil:
			selector, err := metav1.LabelSelectorAsSelector(p.PodSelector)
			if err != nil {
				t.Fatal(err)
			}
			peer = peer || selector.Matches(to.pod)
		}
	}
	return port && peer
}

// TestTheManagerReachesWhatItNeeds evaluates the component network-policy for what the manager connects to, and for what it must not.
func TestTheManagerReachesWhatItNeeds(t *testing.T) {
	policy := shipped[networkingv1.NetworkPolicy](t, "components/network-policy/network-policy.yaml", "NetworkPolicy")
	if !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
		t.Fatal("what the manager reaches is not limited")
	}
	for name, c := range map[string]struct {
		to   destination
		want bool
	}{
		"the Service of the API server":      {destination{address: "10.96.0.1", port: 443}, true},
		"the API server itself":              {destination{address: "192.168.1.10", port: 6443}, true},
		"the API server itself, over IPv6":   {destination{address: "2001:db8::1", port: 6443}, true},
		"DNS":                                {destination{address: "10.96.0.10", port: 53, udp: true}, true},
		"DNS, where the answer is long":      {destination{address: "10.96.0.10", port: 53}, true},
		"DNS on the node":                    {destination{address: "169.254.20.10", port: 53, udp: true}, true},
		"a forge":                            {destination{address: "140.82.121.4", port: 443}, true},
		"git over SSH":                       {destination{address: "140.82.121.4", port: 22}, true},
		"a model server":                     {destination{address: "10.244.0.7", port: 18501, pod: labels.Set{"tfsName": "a"}}, true},
		"a broker":                           {destination{address: "10.96.3.4", port: 9093}, true},
		"DMaaP":                              {destination{address: "10.96.3.5", port: 3905}, true},
		"another pod":                        {destination{address: "10.244.0.8", port: 8080, pod: labels.Set{"app": "b"}}, false},
		"a kubelet":                          {destination{address: "192.168.1.10", port: 10250}, false},
		"etcd":                               {destination{address: "192.168.1.10", port: 2379}, false},
		"a database":                         {destination{address: "10.96.9.9", port: 5432}, false},
		"plain http":                         {destination{address: "140.82.121.4", port: 80}, false},
		"the metadata of a cloud":            {destination{address: "169.254.169.254", port: 80}, false},
		"the metadata of a cloud over https": {destination{address: "169.254.169.254", port: 443}, false},
		"the metadata of a cloud over IPv6, https": {destination{address: "fd00:ec2::254", port: 443}, false},
	} {
		got := slices.ContainsFunc(policy.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool { return allows(t, r, c.to) })
		if got != c.want {
			t.Errorf("%s is reachable: %t", name, got)
		}
	}
}

// TestTheConsoleInTheClusterHasNoRights: its pod has no token, the component has no binding, and its flags are those of the command.
func TestTheConsoleInTheClusterHasNoRights(t *testing.T) {
	const file = "components/console/console.yaml"
	account := shipped[corev1.ServiceAccount](t, file, "ServiceAccount")
	deployment := shipped[appsv1.Deployment](t, file, "Deployment")
	service := shipped[corev1.Service](t, file, "Service")
	pod := deployment.Spec.Template.Spec
	if a, b := account.AutomountServiceAccountToken, pod.AutomountServiceAccountToken; a == nil || *a || b == nil || *b || pod.ServiceAccountName != account.Name {
		t.Errorf("a token is mounted: %v, %v, %s", a, b, pod.ServiceAccountName)
	}
	for _, volume := range pod.Volumes {
		if volume.Projected != nil {
			t.Errorf("the volume %s may have a token", volume.Name)
		}
	}
	files, err := filepath.Glob("../../config/components/console/*")
	if err != nil || len(files) != 2 {
		t.Errorf("%v: %v", files, err)
	}
	text, err := os.ReadFile(filepath.Join("../../config", file))
	if err != nil || strings.Contains(string(text), "rbac.authorization.k8s.io") {
		t.Errorf("it has rights: %v", err)
	}
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(deployment.Spec.Template.Labels)) {
		t.Error("the Service leads elsewhere")
	}
	cmd, args, err := newRootCommand().Find(pod.Containers[0].Args)
	if err != nil || cmd.Name() != "console" {
		t.Fatal(cmd, err)
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Error(err)
	}
}

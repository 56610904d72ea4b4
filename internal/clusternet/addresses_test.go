package clusternet

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const (
	nodeA = `{apiVersion: v1, kind: Node, metadata: {name: a}, spec: {podCIDR: 10.244.0.0/24, podCIDRs: [10.244.0.0/24, "fd00:244::/64"]},
  status: {addresses: [{type: InternalIP, address: 192.168.7.1}, {type: ExternalIP, address: "2001:db8::1"}, {type: Hostname, address: 1.2.3.4}]}}`
	nodeB      = `{apiVersion: v1, kind: Node, metadata: {name: b}, spec: {podCIDRs: [10.244.1.0/24]}}`
	ofServices = `{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: kubernetes}, spec: {cidrs: [10.96.0.0/16, "fd00:96::/112"]}}`
	further    = `{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: further}, spec: {cidrs: [10.200.0.0/16]}}`
	kubernetes = `{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: default}, spec: {clusterIPs: [172.20.0.1, "fd00:96::1"]}}`
)

func cluster(t *testing.T, objects ...string) *dynamicfake.FakeDynamicClient {
	t.Helper()
	var all []runtime.Object
	for _, text := range objects {
		all = append(all, parse(t, text))
	}
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		nodes: "NodeList", services: "ServiceList", serviceCIDRs: "ServiceCIDRList",
	}, all...)
}

func addressesOf(t *testing.T, client *dynamicfake.FakeDynamicClient) *Addresses {
	t.Helper()
	a := New(client, false, logr.Discard())
	t.Cleanup(a.Close)
	return a
}

func wantPrefixes(t *testing.T, a *Addresses, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got, err := a.Prefixes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, p := range got {
		texts = append(texts, p.String())
	}
	slices.Sort(texts)
	slices.Sort(want)
	if !slices.Equal(texts, want) {
		t.Errorf("the cluster has %v, want %v", texts, want)
	}
}

// TestTheRangesOfServicesPodsAndNodes reads them, and what is added later without another list.
func TestTheRangesOfServicesPodsAndNodes(t *testing.T) {
	client := cluster(t, nodeA, ofServices)
	a := addressesOf(t, client)
	if n := len(client.Actions()); n != 0 {
		t.Errorf("%d requests before the first question", n)
	}
	first := []string{"10.96.0.0/16", "fd00:96::/112", "10.244.0.0/24", "fd00:244::/64", "192.168.7.1/32", "2001:db8::1/128"}
	wantPrefixes(t, a, first...)
	requests := len(client.Actions())
	for resource, text := range map[schema.GroupVersionResource]string{nodes: nodeB, serviceCIDRs: further} {
		if _, err := client.Resource(resource).Create(t.Context(), parse(t, text), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.After(20 * time.Second)
	for {
		got, err := a.Prefixes(t.Context())
		if err == nil && len(got) == len(first)+2 {
			break
		}
		select {
		case <-time.After(look):
		case <-deadline:
			t.Fatalf("after a node and a range were added: %v, %v", got, err)
		}
	}
	wantPrefixes(t, a, append(first, "10.244.1.0/24", "10.200.0.0/16")...)
	if n := len(client.Actions()) - requests; n != 2 {
		t.Errorf("%d requests beside the two of the test: %v", n-2, client.Actions()[requests:])
	}
}

// TestAClusterWithoutServiceCIDRs has its Services in the largest ranges that an API server accepts.
func TestAClusterWithoutServiceCIDRs(t *testing.T) {
	client := cluster(t, nodeB, kubernetes)
	client.PrependReactor("list", "servicecidrs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(serviceCIDRs.GroupResource(), "")
	})
	a := addressesOf(t, client)
	wantPrefixes(t, a, "172.16.0.0/12", "fd00:96::/108", "10.244.1.0/24")
	for _, action := range client.Actions() {
		if action.GetVerb() == "watch" && action.GetResource() == serviceCIDRs {
			t.Error("what is not served is watched")
		}
	}
}

// TestPodsWhoseRangeNoNodeNames may be at any private address, unless the administrator names their range. One Node that names its range tells that
// the others will.
func TestPodsWhoseRangeNoNodeNames(t *testing.T) {
	const (
		nameless = `{apiVersion: v1, kind: Node, metadata: {name: c}, status: {addresses: [{type: InternalIP, address: 203.0.113.7}]}}`
		ovn      = `{apiVersion: v1, kind: Node, metadata: {name: d, annotations: {k8s.ovn.org/node-subnets: '{"default": "10.1.2.0/24"}'}}}`
		ovnDual  = `{apiVersion: v1, kind: Node, metadata: {name: d, annotations: {k8s.ovn.org/node-subnets: '{"a": ["10.1.2.0/24", "fd01::/64"], "b": [1]}'}}}`
		ovnNone  = `{apiVersion: v1, kind: Node, metadata: {name: d, annotations: {k8s.ovn.org/node-subnets: 10.1.2.0/24}}}`
		calico   = `{apiVersion: v1, kind: Node, metadata: {name: d, annotations: {projectcalico.org/IPv4Address: 10.0.0.9/24}}, spec: {podCIDRs: [10.1.2.0/24]}}`
		cilium   = `{apiVersion: v1, kind: Node, metadata: {name: d, annotations: {network.cilium.io/ipv4-pod-cidr: 10.1.2.0/24}}}`
		service  = "10.96.0.0/16 fd00:96::/112"
		all      = " 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7"
	)
	for name, c := range map[string]struct {
		objects []string
		named   bool
		want    string
	}{
		"none names it":                     {[]string{nameless, ofServices}, false, service + " 203.0.113.7/32" + all},
		"the administrator does":            {[]string{nameless, ofServices}, true, service + " 203.0.113.7/32"},
		"one Node does":                     {[]string{nameless, nodeB, ofServices}, false, service + " 203.0.113.7/32 10.244.1.0/24"},
		"OVN-Kubernetes does":               {[]string{ovn, ofServices}, false, service + " 10.1.2.0/24"},
		"OVN-Kubernetes names several":      {[]string{ovnDual, ofServices}, false, service + " 10.1.2.0/24 fd01::/64"},
		"Calico does not keep to it":        {[]string{calico, ofServices}, false, service + " 10.1.2.0/24" + all},
		"Cilium names it":                   {[]string{cilium, ofServices}, false, service + " 10.1.2.0/24"},
		"an annotation that is none":        {[]string{ovnNone, ofServices}, false, service + all},
		"there is no Node, and no pod then": {[]string{ofServices}, false, service},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(cluster(t, c.objects...), c.named, logr.Discard())
			t.Cleanup(a.Close)
			wantPrefixes(t, a, strings.Fields(c.want)...)
		})
	}
}

// TestARightThatLacksIsNamed: without the addresses nothing may be fetched, and a status says which right is missing, but not whose.
func TestARightThatLacksIsNamed(t *testing.T) {
	for _, resource := range []schema.GroupVersionResource{nodes, serviceCIDRs} {
		client := cluster(t, nodeA, ofServices)
		forbidden := apierrors.NewForbidden(resource.GroupResource(), "", nil)
		client.PrependReactor("list", resource.Resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
		client.PrependWatchReactor(resource.Resource, func(clienttesting.Action) (bool, watch.Interface, error) { return true, nil, forbidden })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		got, err := addressesOf(t, client).Prefixes(ctx)
		if err == nil || !strings.HasSuffix(err.Error(), "may not list and watch "+resource.GroupResource().String()) || ctx.Err() != nil {
			t.Errorf("%s: %v, %v", resource.Resource, got, err)
		}
		cancel()
	}
}

// TestTheLargestRangesAreOfTheAPIServer: it accepts no range of Services with more than 20 bits for the addresses.
func TestTheLargestRangesAreOfTheAPIServer(t *testing.T) {
	for text, want := range map[string]string{"10.96.0.1": "10.96.0.0/12", "10.111.255.1": "10.96.0.0/12", "192.168.0.1": "192.160.0.0/12"} {
		client := cluster(t, strings.Replace(kubernetes, `172.20.0.1, "fd00:96::1"`, text, 1))
		got, err := addressesOf(t, client).assume(t.Context())
		if err != nil || len(got) != 1 || got[0] != netip.MustParsePrefix(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	client := cluster(t, strings.Replace(kubernetes, `172.20.0.1, "fd00:96::1"`, "None", 1))
	if got, err := addressesOf(t, client).assume(t.Context()); err == nil {
		t.Errorf("without an address: %v", got)
	}
}

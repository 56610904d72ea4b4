package clusternet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"mlkeeper.dev/internal/engine/watch/source"
)

var (
	nodes        = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	services     = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	serviceCIDRs = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "servicecidrs"}
)

const (
	// patience is how long a question waits for the watches.
	patience = 15 * time.Second
	// look is how often it looks whether they are complete.
	look = 20 * time.Millisecond
)

// Addresses are those of one cluster.
type Addresses struct {
	client dynamic.Interface
	log    logr.Logger
	// ctx ends with Close; the watches run on it.
	ctx    context.Context //nolint:containedctx // the life of the watches, not of a call
	cancel context.CancelFunc

	mu sync.Mutex
	// nodes and services are nil until they are asked for. services stays nil where the cluster serves no ServiceCIDRs; assumed has the
	// ranges then.
	nodes, services *ranges
	assumed         []netip.Prefix
	// named says that the administrator names the ranges of pods that no Node names.
	named bool
	// told says that the absence of ranges of pods was logged.
	told bool
}

// New knows the addresses of the cluster of a client. named says that the administrator names ranges that are refused beside them: those of pods
// are not guessed then.
func New(client dynamic.Interface, named bool, log logr.Logger) *Addresses {
	a := &Addresses{client: client, named: named, log: log}
	a.ctx, a.cancel = context.WithCancel(source.Context(context.Background(), log))
	return a
}

// Close ends the watches.
func (a *Addresses) Close() { a.cancel() }

// Prefixes are the addresses as they are now. An error says that they are not known, such as for a right that the operator lacks.
func (a *Addresses) Prefixes(ctx context.Context) ([]netip.Prefix, error) {
	if err := a.open(ctx); err != nil {
		return nil, err
	}
	var out []netip.Prefix
	count, pods := 0, false
	for _, r := range []*ranges{a.services, a.nodes} {
		if r == nil {
			continue
		}
		if err := r.wait(ctx); err != nil {
			return nil, err
		}
		for _, one := range r.informer.GetStore().List() {
			found := one.(*entry) //nolint:forcetypeassert // the transformation stores nothing else
			out = append(out, found.prefixes...)
			pods = pods || found.pods
		}
		if r == a.nodes {
			count = len(r.informer.GetStore().ListKeys())
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	out = append(out, a.assumed...)
	if count == 0 || pods {
		return out, nil
	}
	if !a.told {
		a.told = true
		a.log.Info(unnamed, "named", a.named)
	}
	if a.named {
		return out, nil
	}
	return append(out, private...), nil
}

// unnamed is logged where no Node tells the addresses of pods.
const unnamed = "no Node names the range of its pods, since the network plugin assigns their addresses by itself. With --source-deny-cidr (named), only " +
	"what it names is refused: it has to name that range. Without it, no source is fetched from private addresses that --source-allow-cidr does not allow"

// private are the ranges in which the addresses of pods are that no Node tells (RFC 1918, RFC 6598 and RFC 4193): network plugins that have ranges
// of their own take them from there by default, such as Calico 192.168.0.0/16.
var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fc00::/7"),
}

// open begins the watches, once.
func (a *Addresses) open(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes != nil {
		return nil
	}
	_, err := a.client.Resource(serviceCIDRs).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case err == nil:
		a.services = a.watch(serviceCIDRs, ofServiceCIDR)
	case apierrors.IsNotFound(err):
		if a.assumed, err = a.assume(ctx); err != nil {
			return err
		}
	default:
		return unreadable(serviceCIDRs, err)
	}
	a.nodes = a.watch(nodes, ofNode)
	return nil
}

// The largest ranges of Services that an API server without ServiceCIDRs accepts: both have 20 bits for the addresses.
const largest4, largest6 = 32 - 20, 128 - 20

// assume returns ranges that have every Service in them, where the cluster does not tell the ranges: the largest ones about the addresses
// of the Service of the API server.
func (a *Addresses) assume(ctx context.Context) ([]netip.Prefix, error) {
	kubernetes, err := a.client.Resource(services).Namespace(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, unreadable(services, err)
	}
	var out []netip.Prefix
	addresses, _, _ := unstructured.NestedStringSlice(kubernetes.Object, "spec", "clusterIPs")
	for _, text := range addresses {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		bits := largest4
		if ip.Is6() {
			bits = largest6
		}
		out = append(out, netip.PrefixFrom(ip, bits).Masked())
	}
	if len(out) == 0 {
		return nil, errors.New("the Service kubernetes has no address")
	}
	a.log.Info("the cluster does not tell the range of its Services; the largest one about the Service kubernetes is assumed", "range", out)
	return out, nil
}

// ranges is the watch of one resource.
type ranges struct {
	resource schema.GroupVersionResource
	informer cache.SharedIndexInformer
	backoff  *source.Backoff
}

// entry is what is kept of an object.
type entry struct {
	metav1.ObjectMeta
	prefixes []netip.Prefix
	// pods says that some of them are of pods.
	pods bool
}

// watch keeps what is read from each object of a resource.
func (a *Addresses) watch(resource schema.GroupVersionResource, read func(*unstructured.Unstructured, *entry)) *ranges {
	r := &ranges{resource: resource, backoff: source.NewBackoff(source.RealClock, a.log.WithValues("resource", resource.Resource))}
	r.informer = cache.NewSharedIndexInformerWithOptions(
		source.Dynamic(a.client, source.Scope{Resource: resource}, r.backoff), &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{})
	// Neither fails, since the informer does not run yet.
	_ = r.informer.SetTransform(func(o any) (any, error) {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return o, nil // It was transformed before, or is a tombstone.
		}
		out := &entry{ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()}}
		read(u, out)
		return out, nil
	})
	_ = r.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { r.backoff.LogError(err) })
	go r.informer.RunWithContext(a.ctx)
	return r
}

// wait waits until a watch is complete, or is known to be forbidden.
func (r *ranges) wait(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, look, patience, true, func(context.Context) (bool, error) {
		return r.informer.HasSynced(), r.backoff.Forbidden()
	})
	switch {
	case err == nil || r.informer.HasSynced():
		// What was complete once is used on, as everywhere, while the watch is interrupted.
		return nil
	case r.backoff.LastError() != nil:
		return unreadable(r.resource, r.backoff.LastError())
	}
	return unreadable(r.resource, err)
}

// unreadable says which resource cannot be read, and not more of why than statuses may tell.
func unreadable(resource schema.GroupVersionResource, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("the operator may not list and watch %s", resource.GroupResource())
	}
	return fmt.Errorf("%s cannot be read: %w", resource.GroupResource(), err)
}

// ofNode reads the ranges of a node's pods, and its own addresses.
func ofNode(u *unstructured.Unstructured, out *entry) {
	ranges, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "podCIDRs")
	out.add(ranges)
	annotations := u.GetAnnotations()
	out.addSubnets(annotations[ovnSubnets])
	out.add([]string{annotations[ciliumIPv4], annotations[ciliumIPv6]})
	out.pods = len(out.prefixes) > 0 && annotations[calicoIPv4] == "" && annotations[calicoIPv6] == ""
	addresses, _, _ := unstructured.NestedSlice(u.Object, "status", "addresses")
	for _, one := range addresses {
		address, _ := one.(map[string]any)
		// The others are names.
		if kind := address["type"]; kind != "InternalIP" && kind != "ExternalIP" {
			continue
		}
		text, _ := address["address"].(string)
		if ip, err := netip.ParseAddr(text); err == nil {
			out.prefixes = append(out.prefixes, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
}

// calicoIPv4 and calicoIPv6 are annotations of Calico, whose pods have addresses from pools of its own, whatever spec.podCIDRs says
// (projectcalico/calico node/pkg/lifecycle/startup and issue 2592).
const calicoIPv4, calicoIPv6 = "projectcalico.org/IPv4Address", "projectcalico.org/IPv6Address"

// ciliumIPv4 and ciliumIPv6 are annotations in which Cilium names the ranges of a node's pods where it is told to annotate Nodes
// (cilium/cilium pkg/annotation/k8s.go).
const ciliumIPv4, ciliumIPv6 = "network.cilium.io/ipv4-pod-cidr", "network.cilium.io/ipv6-pod-cidr"

// ovnSubnets is the annotation in which OVN-Kubernetes, and so OpenShift, names the ranges of a node's pods by their networks, whose spec.podCIDRs is
// empty there: one range, or a list (ovn-kubernetes: go-controller/pkg/util/subnet_annotations.go).
const ovnSubnets = "k8s.ovn.org/node-subnets"

func (e *entry) addSubnets(text string) {
	var networks map[string]any
	if json.Unmarshal([]byte(text), &networks) != nil {
		return
	}
	for _, subnets := range networks {
		list, many := subnets.([]any)
		if !many {
			list = []any{subnets}
		}
		for _, one := range list {
			subnet, _ := one.(string)
			e.add([]string{subnet})
		}
	}
}

// ofServiceCIDR reads the ranges of Services.
func ofServiceCIDR(u *unstructured.Unstructured, out *entry) {
	ranges, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "cidrs")
	out.add(ranges)
}

func (e *entry) add(ranges []string) {
	for _, text := range ranges {
		if p, err := netip.ParsePrefix(text); err == nil {
			e.prefixes = append(e.prefixes, p)
		}
	}
}

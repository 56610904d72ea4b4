package engine

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// occupant is one object in a Namespace.
type occupant struct {
	resource schema.GroupResource
	*metav1.PartialObjectMetadata
}

func (c occupant) String() string { return c.resource.String() + " " + c.Name }

// isDefaultContent says that Kubernetes puts an object into every Namespace, or makes and removes it by itself.
func (c occupant) isDefaultContent() bool {
	switch c.resource {
	case schema.GroupResource{Resource: "events"}, schema.GroupResource{Group: "events.k8s.io", Resource: "events"},
		schema.GroupResource{Resource: "endpoints"}, schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
		return true
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return c.Name == "default"
	case schema.GroupResource{Resource: "configmaps"}:
		return slices.Contains([]string{"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"}, c.Name)
	}
	return false
}

// fate is what becomes of an object by itself once a stack is gone.
type fate int

const (
	fateUnknown fate = iota
	// fateGoes is that of what goes with the stack, is being deleted, or means nothing without its Namespace.
	fateGoes
	// fateUnsettled is that of what the garbage collector is about to look at: its owner is gone, or was made this moment.
	fateUnsettled
	// fateStays is that of what others have made.
	fateStays
)

// namespaceContents is everything in a Namespace. own says that the stack controls an object, namespaced that the objects of a
// kind live in Namespaces.
type namespaceContents struct {
	all        []occupant
	own        func(*metav1.PartialObjectMetadata) bool
	namespaced func(schema.GroupKind) bool

	byUID map[types.UID]occupant
	fates map[types.UID]fate
}

// judge names something that others would miss, and else something of which nobody knows yet. An object is somebody's unless
// all its owners go, and they are in the Namespace too: what a cluster-scoped object owns, such as the Inventory of another
// stack or a Profile, is that one's. A claim is data, whoever owns it.
func (n *namespaceContents) judge() (stays, unsettled string) {
	n.byUID, n.fates = make(map[types.UID]occupant, len(n.all)), make(map[types.UID]fate, len(n.all))
	for _, c := range n.all {
		n.byUID[c.UID] = c
	}
	for _, c := range n.all {
		switch n.fate(c) {
		case fateStays:
			return c.String(), ""
		case fateUnsettled:
			unsettled = c.String()
		}
	}
	return "", unsettled
}

func (n *namespaceContents) fate(c occupant) fate {
	if known, met := n.fates[c.UID]; met {
		if known == fateUnknown {
			return fateStays // They own each other.
		}
		return known
	}
	n.fates[c.UID] = fateUnknown
	out := n.decide(c)
	n.fates[c.UID] = out
	return out
}

func (n *namespaceContents) decide(c occupant) fate {
	claim := c.resource == schema.GroupResource{Resource: "persistentvolumeclaims"}
	switch {
	case claim && c.DeletionTimestamp != nil:
		return fateUnsettled
	case claim:
		return fateStays
	case c.DeletionTimestamp != nil, c.isDefaultContent(), n.own(c.PartialObjectMetadata):
		return fateGoes
	case len(c.OwnerReferences) == 0:
		return fateStays
	}
	out := fateGoes
	for i := range c.OwnerReferences {
		ref := &c.OwnerReferences[i]
		of := fateStays
		if owner, there := n.byUID[ref.UID]; there {
			of = n.fate(owner)
		} else if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && n.namespaced(gv.WithKind(ref.Kind).GroupKind()) {
			of = fateUnsettled
		}
		out = max(out, of)
	}
	return out
}

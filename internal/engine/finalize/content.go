package finalize

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// content is what keeps a Namespace or a definition from being deleted; nothing if both are empty.
type content struct {
	// others names an object of others.
	others string
	// undecided names an object that the garbage collector has not processed yet.
	undecided string
}

func contentOfOthers(name string) content { return content{others: name} }

func (c content) empty() bool { return c == content{} }

var claims = schema.GroupResource{Resource: "persistentvolumeclaims"}

// object is an object in a Namespace.
type object struct {
	resource schema.GroupResource
	*metav1.PartialObjectMetadata
}

func (o object) String() string { return o.resource.String() + " " + o.Name }

// isDefaultContent reports whether Kubernetes creates such an object in every Namespace, or creates and deletes it by itself.
func (o object) isDefaultContent() bool {
	switch o.resource {
	case schema.GroupResource{Resource: "events"}, schema.GroupResource{Group: "events.k8s.io", Resource: "events"},
		schema.GroupResource{Resource: "endpoints"}, schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
		return true
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return o.Name == "default"
	case schema.GroupResource{Resource: "configmaps"}:
		return slices.Contains([]string{"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"}, o.Name)
	}
	return false
}

// disposal is what happens to an object after its stack is deleted. Of several, the greatest counts.
type disposal int

const (
	disposalUnknown disposal = iota
	// disposalDeleted is that of an object that is deleted with the stack, is being deleted, or means nothing without its Namespace.
	disposalDeleted
	// disposalUndecided is that of an object that the garbage collector has not processed yet: its owner is deleted, or was created
	// during the listing.
	disposalUndecided
	// disposalKept is that of an object of others.
	disposalKept
)

// namespaceContents classifies everything in a Namespace. ofStack reports whether the stack controls an object, namespaced whether
// the objects of a kind live in Namespaces.
type namespaceContents struct {
	objects    []object
	ofStack    func(*metav1.PartialObjectMetadata) bool
	namespaced func(schema.GroupKind) bool

	byUID     map[types.UID]object
	disposals map[types.UID]disposal
}

// classify names an object of others, or else an undecided one. An object counts as one of others unless all its owners are deleted
// and are in the Namespace too: the objects of a cluster-scoped owner, such as the Inventory of another stack or a Profile, belong to
// that owner. A claim is data, whoever owns it.
func (n *namespaceContents) classify() content {
	n.byUID, n.disposals = make(map[types.UID]object, len(n.objects)), make(map[types.UID]disposal, len(n.objects))
	for _, o := range n.objects {
		n.byUID[o.UID] = o
	}
	var out content
	for _, o := range n.objects {
		switch n.disposalOf(o) {
		case disposalKept:
			return contentOfOthers(o.String())
		case disposalUndecided:
			out.undecided = o.String()
		}
	}
	return out
}

// disposalOf remembers the disposal of every object. Objects that own each other are kept.
func (n *namespaceContents) disposalOf(o object) disposal {
	if known, met := n.disposals[o.UID]; met {
		if known == disposalUnknown {
			return disposalKept
		}
		return known
	}
	n.disposals[o.UID] = disposalUnknown
	out := n.decide(o)
	n.disposals[o.UID] = out
	return out
}

func (n *namespaceContents) decide(o object) disposal {
	switch {
	case o.resource == claims && o.DeletionTimestamp != nil:
		return disposalUndecided
	case o.resource == claims:
		return disposalKept
	case o.DeletionTimestamp != nil, o.isDefaultContent(), n.ofStack(o.PartialObjectMetadata):
		return disposalDeleted
	case len(o.OwnerReferences) == 0:
		return disposalKept
	}
	out := disposalDeleted
	for i := range o.OwnerReferences {
		ref := &o.OwnerReferences[i]
		of := disposalKept
		if owner, exists := n.byUID[ref.UID]; exists {
			of = n.disposalOf(owner)
		} else if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && n.namespaced(gv.WithKind(ref.Kind).GroupKind()) {
			of = disposalUndecided
		}
		out = max(out, of)
	}
	return out
}

// Package inventory stores the Inventories: the cluster-scoped objects, one per stage or more, that own the children of a custom resource
// which cannot own them itself (invariant 3). It owns their content and the memory of its own writes. It writes no other object, and never
// decides that a custom resource is gone.
package inventory

// Package wiring edits objects of others that custom resources need an entry in (invariant 7): a ConfigMap of ModelMesh, an
// InferenceService. One reconciler per wire, keyed on the object that is edited; what the object should contain follows
// from the custom resources alive now. It writes with a resourceVersion guard, records its entries in an annotation,
// and takes out only what it put in.
package wiring

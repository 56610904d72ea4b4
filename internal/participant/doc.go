// Package participant joins the ACM protocol to the cluster: it receives orders, stores them as custom resources, and tells the
// runtime what became of them.
//
// The way of an order: a record is received; acm.Handle decides; what is to be remembered is written to CompositionElements,
// CompositionDefinitions and PendingOrders; what is to be said at once is published; then, and only then, is the record
// committed. The controller of package kserve carries the order out and writes its outcome into the status, from which the outbox
// sends the acknowledgement, again and again until the broker has it, and records it. A crash anywhere repeats a step, and
// loses none.
//
// It has no watch of its own: the engine's tells it of CompositionElements.
//
// It writes only kinds of MLKeeper's own group, of CompositionElements only the spec and status.acknowledged, and the Secrets of the
// operator's namespace with what may hold credentials. It runs on the leader alone.
package participant

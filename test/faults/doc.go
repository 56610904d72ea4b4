// Package faults holds every kind of MLKeeper to one promise: whatever breaks at whatever moment, the cluster comes to
// the same state as without the fault, at the cost of what the fault destroyed and no more.
//
// It owns the fault campaigns: it takes the workloads that a kind gives, runs each undisturbed to learn what is right,
// enumerates the faults that can meet it, runs each as a plan of its own on a real control plane, and judges the run by
// oracles that know nothing of how the engine works. docs/faults.md tells how to use it.
//
// It reads what the product does through the transport of the operator's clients and through watches of its own, and
// never looks into the engine: a bug that the engine and its own tests share is not shared by the oracles.
package faults

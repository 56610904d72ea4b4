// Package record writes what a participant has to remember into custom resources, and reads it back: the state of package acm
// as CompositionElements, CompositionDefinitions and PendingOrders, and as the Secrets that they refer to. It is pure: it reads and
// writes no cluster.
package record

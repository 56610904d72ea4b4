// Package fieldownership decides which fields MLKeeper does not insist on (invariant 11): those that others must fill, and those that
// another manager keeps taking back. It reads ownership from managedFields. Everything in it is pure or, for Tracker,
// memory alone: it never touches a cluster, and time is given to it.
package fieldownership

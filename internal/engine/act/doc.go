// Package act is the only code that writes children to the cluster: create, server-side apply, delete, each guarded so
// that nothing of somebody else is merged into, adopted or removed (invariant 1). It decides nothing, and it never waits:
// what cannot be done now is answered as a problem or an error.
package act

// Package observe holds what the engine keeps of an object that it watches: identity, owner, health, and the hash of
// what MLKeeper owns of it (invariant 9). It owns the cache transform; it never reads or writes a cluster.
package observe

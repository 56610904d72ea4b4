// Package source lists and watches one resource for an informer or a reflector. It implements what all watches of the engine
// have in common: WatchList semantics, selectors, and the backoff of forbidden watches (invariant 15). It stores no objects and
// never writes to a cluster.
package source

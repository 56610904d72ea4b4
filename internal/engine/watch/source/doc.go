// Package source lists and watches one resource for an informer or a reflector. It owns what every watch of the engine
// has in common: WatchList semantics, selectors, and the patience with refused requests (law 15). It holds no objects
// and never writes to a cluster.
package source

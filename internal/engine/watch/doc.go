// Package watch is the informer manager of the engine. It owns every watch (invariant 13): on the children of custom resources,
// on the custom resources themselves, on the objects of others that they refer to, and on the objects of others that
// controllers edit. Each selector has one cache. A watch starts when the catalog says that its API is served, and stops when
// the API is no longer served. The watch on a kind that users choose stops with the last custom resource that needs it.
//
// The package also keeps the engine's own writes until the caches have observed them (invariant 12). It never writes to a
// cluster. It reads live only when a custom resource refers to an existing object for the first time.
//
// Lookups return shared objects, which callers must not change. Event handlers run in the goroutine that delivers the
// events of a cache, so they must be cheap and must not wait for another event.
package watch

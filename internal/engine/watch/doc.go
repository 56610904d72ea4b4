// Package watch owns every watch of the engine: the children of custom resources, the custom resources themselves, the
// objects of others that they refer to, and the objects of others that controllers edit (law 13). There is one cache per
// selector. A watch runs while the catalog says that its API is served, and goes with it.
//
// The package also remembers the engine's own writes until its caches have seen them (law 12). It never writes to a
// cluster, and reads live only when a name that exists is referenced for the first time.
//
// Every object that a lookup returns is shared: it must not be changed. Callbacks run in the goroutine that feeds the
// cache, so they must be cheap and must not wait for another event.
package watch

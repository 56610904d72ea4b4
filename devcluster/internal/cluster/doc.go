// Package cluster boots, supervises and removes one devcluster.
//
// One supervisor process per cluster owns the components as its children. It
// holds a lock on the state directory for as long as it lives, records what it
// does in state.json, and answers stop, start, status and down on a unix
// socket. The kernel kills the children when the supervisor dies, however it
// dies, so that nothing outlives it; this is why the package is for Linux only.
//
// A component that ends by itself is never restarted: fault tests want to decide
// when it comes back.
package cluster

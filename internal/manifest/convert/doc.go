// Package convert rewrites objects of API versions that Kubernetes removed into the versions that the cluster serves. It
// owns the rules of that rewriting and the defaults that the removed versions had; whether a rule applies is decided by
// what the cluster serves, not by a table of releases.
//
// It is pure and works object by object. It never touches a cluster, and never the object that it is given.
package convert

// Package finalize deletes what a custom resource with Inventories leaves behind once it is deleted (invariant 3): webhooks first, then the
// Inventories, the last stage first, each with the empty Namespaces and definitions of its stage. It decides nothing about a custom
// resource that exists or may exist (invariant 4).
package finalize

// Package cluster boots a real Kubernetes control plane, the repository's own devcluster, for integration tests and
// gives them a client, namespaces, waiting and request counting. It fails a test when the cluster cannot start; it
// never skips one. Product code must not import it.
package cluster

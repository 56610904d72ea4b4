// Package references finds what the workloads of a cluster refer to and that is not there. A kubelet starts no container
// whose Secret, ConfigMap, key, claim or ServiceAccount is missing, be it a real or a simulated one; a test that does not wait for its pods would not see it.
package references

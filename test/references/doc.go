// Package references finds what the workloads of a cluster refer to and that is not there. A kubelet starts no container
// whose Secret, ConfigMap, key, claim or ServiceAccount is missing; simulated nodes start every pod.
package references

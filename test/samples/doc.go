// Package samples applies what config/samples has for each kind, on a cluster with a default StorageClass, with the operator's shipped rights
// and what an administrator grants by mlkeeper rbac, and compares what kubectl get prints with the README.
package samples

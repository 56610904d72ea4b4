// Package clusternet knows the addresses of the cluster's own Services, pods and nodes, which sources are not fetched from. It reads
// them from watches, which the first question opens, so that a manager that fetches nothing has none. It never writes.
package clusternet

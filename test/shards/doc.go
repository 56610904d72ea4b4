// Package shards runs managers as processes that share the shards of a cluster by their leases, and ends them in every way.
package shards

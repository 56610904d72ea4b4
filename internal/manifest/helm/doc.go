// Package helm renders charts with Helm's own engine. It owns what a template may see and what becomes of its text: the
// capabilities are those that the cluster really has, lookup is asked of the caller, and everything that Helm makes at random
// (passwords, keys, certificates, the time) is the same for the same question, so that the same inputs give the same bytes.
//
// Charts are hostile: their size, the number of their objects and the time of one rendering are bounded, schemas refer to
// nothing outside of the chart, and functions that would fill the memory refuse to. It never reads the cluster, the network or
// a file by itself, and never writes.
package helm

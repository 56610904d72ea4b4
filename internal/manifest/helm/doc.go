// Package helm renders charts with Helm's own engine. It owns what a template may see and what becomes of its text: the
// capabilities are those that the cluster really has, lookup is asked of the caller, and everything that Helm makes at random
// (passwords, keys, certificates, the time) is the same for the same question, so that the same inputs give the same bytes.
//
// Charts are hostile: schemas refer to nothing outside of the chart, the size of a chart and of what it renders are bounded, and
// it is rendered in a process of package worker, whose memory and time are bounded: templates are programs, and no list of their
// functions would be complete. The process asks its caller for what it needs of the cluster (wire.go). The package never reads the cluster, the network or a file by itself, and never writes.
package helm

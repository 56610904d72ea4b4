// Package monitoring checks what config/monitoring holds with Prometheus' own parser and engines: that every query parses,
// that every metric and label in it exists, and that each alert fires when it should, after its time, and not otherwise. It is a Go module
// of its own, so that Prometheus stays out of the product's go.mod.
package monitoring

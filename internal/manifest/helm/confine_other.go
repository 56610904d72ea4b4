//go:build !linux

package helm

// limitMemory does nothing where no such bound holds: the operator runs on Linux, and elsewhere the commands alone do, which a user
// gives his own charts.
func limitMemory(uint64) error { return nil }

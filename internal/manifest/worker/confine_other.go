//go:build !linux

package worker

import "time"

// setLimits does nothing where no such bounds hold: the operator runs on Linux, and elsewhere the commands alone do, which a user gives
// his own files.
func setLimits(limits) error { return nil }

// limitCPU does nothing, either.
func limitCPU(_, _ uint64) error { return nil }

// keepDescriptors does nothing, either.
func keepDescriptors() {}

// cpuTime is no time, since none is bounded.
func cpuTime() time.Duration { return 0 }

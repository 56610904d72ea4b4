//go:build !linux

package worker

import "time"

// confine does nothing where no such bounds hold: the operator runs on Linux, and elsewhere the commands alone do, which a user gives
// his own files.
func confine(limits) error { return nil }

// confinePiece does nothing, either.
func confinePiece(_, _ uint64) error { return nil }

// keepDescriptors does nothing, either.
func keepDescriptors() {}

// used is no time, since none is bounded.
func used() time.Duration { return 0 }

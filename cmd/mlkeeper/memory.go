package main

import (
	"context"
	"os"
	"runtime/debug"
	"time"
)

// collector chooses how early garbage is collected. At its start a manager makes much garbage while it fills its caches,
// and must not spend its time on collecting it. From then on its memory is to be that of the caches, little more.
type collector struct {
	// ready returns nil when the caches are filled.
	ready func() error
}

// Values of GOGC at the start and from then on.
const startPercent, keepPercent = 200, 25

// NeedLeaderElection says that a standby saves memory too.
func (collector) NeedLeaderElection() bool { return false }

// Start chooses until the context is done. Who sets GOGC has chosen already.
func (c collector) Start(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	debug.SetGCPercent(startPercent)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for c.ready() != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	debug.SetGCPercent(keepPercent)
	return nil
}

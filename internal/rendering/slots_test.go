package rendering_test

import (
	"testing"
	"time"

	"mlkeeper.dev/internal/engine/controller"
	"mlkeeper.dev/internal/engine/controller/controllertest"
)

// asking is a cluster that no question may be asked of.
type asking struct {
	*controllertest.Cluster
	t *testing.T
}

func (a asking) Background(name string, _ time.Duration, _ controller.Job) any {
	a.t.Errorf("%s has a slot for questions", name)
	return nil
}

// TestARenderingHoldsNoQuestionUp: what a fetch waits for is a server of a user.
func TestARenderingHoldsNoQuestionUp(t *testing.T) {
	b := newBench(t)
	b.cache.Get(asking{b.cluster, t}, b.job)
	if len(b.cluster.Asked) != 1 {
		t.Errorf("%d jobs were asked for", len(b.cluster.Asked))
	}
}

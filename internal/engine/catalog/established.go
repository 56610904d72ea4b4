package catalog

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// crdSettleDelay is how long after a CustomResourceDefinition is Established the API server delays every creation of a custom
// resource, so that other API servers have seen the definition too. Each creation takes two seconds then (see
// customresource_handler.go of apiextensions-apiserver). The transition time has whole seconds; the additional 50 ms are for
// clock skew.
const crdSettleDelay = 2*time.Second + 50*time.Millisecond

// settleTimes holds the settle time of each kind that a CustomResourceDefinition serves.
type settleTimes map[schema.GroupKind]settleTime

// settleTime says when a CustomResourceDefinition was established, and when its delay is over.
type settleTime struct{ establishedAt, settledAt time.Time }

// update records whether a CustomResourceDefinition is served. If the clock of the API server is ahead, the delay is limited to
// crdSettleDelay from now.
func (s settleTimes) update(d *crdInfo, now time.Time, served bool) {
	prev, known := s[d.kind]
	switch {
	case !served:
		delete(s, d.kind)
	case !known || !prev.establishedAt.Equal(d.establishedAt):
		settled := d.establishedAt.Add(crdSettleDelay)
		if latest := now.Add(crdSettleDelay); settled.After(latest) {
			settled = latest
		}
		s[d.kind] = settleTime{establishedAt: d.establishedAt, settledAt: settled}
	}
}

// AcceptsCreatesAt returns the time from which the API server creates objects of a kind without delay. It is in the past, except
// for custom resources whose CustomResourceDefinition was established within crdSettleDelay.
func (c *Catalog) AcceptsCreatesAt(gk schema.GroupKind) time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.settleTimes[gk].settledAt
}

package catalog

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// youth is for how long after it is Established the API server lets each creation of a custom resource sleep for two seconds,
// so that its peers know the definition too (customresource_handler.go of apiextensions-apiserver). It counts from the whole
// second; the rest is for clocks that differ a little.
const youth = 2*time.Second + 50*time.Millisecond

// young holds, of each kind that a CustomResourceDefinition makes, until when its definition is young.
type young map[schema.GroupKind]adolescence

type adolescence struct{ since, until time.Time }

// put takes note of a definition, which is served or is not. What another clock tells is believed for its youth at most.
func (y young) put(d *definition, now time.Time, served bool) {
	was, known := y[d.kind]
	switch {
	case !served:
		delete(y, d.kind)
	case !known || !was.since.Equal(d.since):
		until := d.since.Add(youth)
		if latest := now.Add(youth); until.After(latest) {
			until = latest
		}
		y[d.kind] = adolescence{since: d.since, until: until}
	}
}

// TakesFrom is the time from which the API server creates objects of a kind at once. It is in the past for all but custom
// resources whose definition is a second or two old, each of whose creations it answers after two seconds only.
func (c *Catalog) TakesFrom(gk schema.GroupKind) time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.young[gk].until
}

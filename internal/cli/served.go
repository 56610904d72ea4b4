package cli

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/plan"
)

// learnEvery is how long at least lies between two questions of one watch for what the cluster serves.
const learnEvery = 2 * time.Second

// served is what a cluster serves: how kinds map to resources, and every name that people call them by.
type served struct {
	mapper meta.RESTMapper
	kinds  []servedKind
}

// mapper maps kinds to resources, as the cluster serves them now.
func (c *cluster) mapper() meta.RESTMapper { return c.served.Load().mapper }

// kinds are what is served now, with the names that people call them by.
func (c *cluster) kinds() []servedKind { return c.served.Load().kinds }

// learn asks again what the cluster serves.
func (c *cluster) learn() error {
	now, err := c.discover()
	if err == nil {
		c.served.Store(now)
	}
	return err
}

// learnKinds has that asked again where an Inventory names a kind that was not served, since its definition may have come meanwhile. Changes
// that come soon after one another ask once, and nothing is asked where nothing changes.
func (w *watches) learnKinds(entries []keeper.InventoryEntry) {
	if w.discover == nil || !slices.ContainsFunc(entries, w.unknown) {
		return
	}
	if pause := time.Until(w.learnt.Add(learnEvery)); pause > 0 {
		w.learnLater(pause)
		return
	}
	w.learnt, w.later = time.Now(), false
	if w.learn() != nil {
		w.learnLater(learnEvery)
	}
}

func (w *watches) learnLater(pause time.Duration) {
	if !w.later {
		w.later = true
		time.AfterFunc(pause, w.wake)
	}
}

// unknown says that the cluster serves no kind of an entry.
func (w *watches) unknown(e keeper.InventoryEntry) bool {
	mapping, err := w.lookup(plan.KeyOfEntry(e).WithVersion(e.Version))
	return err == nil && mapping == nil
}

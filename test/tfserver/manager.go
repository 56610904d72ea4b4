package tfserver

import (
	"errors"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The states of a version as they are told (apis/get_model_status.proto).
const (
	Start     = "START"
	Loading   = "LOADING"
	Available = "AVAILABLE"
	Unloading = "UNLOADING"
	End       = "END"
)

// told is what the server tells of a version; of one that has ended it goes on telling.
type told struct {
	state string
	err   error
}

// inner is the state of a version within the manager.
type inner int

const (
	fresh inner = iota
	loading
	ready
	disabled
	failed
)

// harness is a version that the manager has.
type harness struct {
	id      int64
	folder  string
	aspired bool
	state   inner
	model   Model
	// cancelled is closed when nobody wants the version any more, so that its load is not tried again.
	cancelled chan struct{}
}

var errCancelled = status.Error(codes.Canceled, "Loading of servable cancelled")

// tell publishes the state of a version.
func (c *Core) tell(model string, version int64, state string, err error) {
	if c.told[model] == nil {
		c.told[model] = map[int64]told{}
	}
	c.told[model][version] = told{state, err}
	if c.decided[model] == nil && (state == Available || state == End) {
		c.decided[model] = &told{state, err}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// cycle is one turn of the manager's loop.
func (c *Core) cycle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inline() && c.loads > 0 {
		return // The load runs in this very loop.
	}
	for c.flush(); ; c.flush() {
		c.takePending()
		if !c.act() {
			return
		}
	}
}

// inline says that loads run in the manager's loop.
func (c *Core) inline() bool { return c.opened && c.options.NumLoadThreads == 0 }

// slots is how many loads may run at once.
func (c *Core) slots() int {
	if !c.opened {
		return initialThreads()
	}
	return max(1, int(c.options.NumLoadThreads))
}

// flush drops versions that nobody wants and that are not loaded.
func (c *Core) flush() {
	for _, all := range c.harnesses {
		maps.DeleteFunc(all, func(_ int64, h *harness) bool {
			return !h.aspired && (h.state == fresh || h.state == disabled || h.state == failed)
		})
	}
}

// takePending takes what the source wants. A version that is wanted again has to have gone before.
func (c *Core) takePending() {
	for model, versions := range c.pending {
		if slices.ContainsFunc(versions, func(w wanted) bool {
			h := c.harnesses[model][w.version]
			return h != nil && !h.aspired
		}) {
			continue
		}
		delete(c.pending, model)
		c.aspire(model, versions)
	}
}

func (c *Core) aspire(model string, versions []wanted) {
	all := c.harnesses[model]
	if all == nil {
		all = map[int64]*harness{}
		c.harnesses[model] = all
	}
	for id, h := range all {
		if h.aspired && !slices.ContainsFunc(versions, func(w wanted) bool { return w.version == id }) {
			h.aspired = false
			close(h.cancelled)
		}
	}
	for _, w := range versions {
		if all[w.version] == nil {
			all[w.version] = &harness{id: w.version, folder: w.folder, aspired: true, cancelled: make(chan struct{})}
			c.tell(model, w.version, Start, nil)
		}
	}
}

// act does the next action of all models, of which an unload precedes a load, and says whether there was one.
func (c *Core) act() bool {
	var loadOf string
	var load *harness
	for _, model := range slices.Sorted(maps.Keys(c.harnesses)) {
		unload, next := decide(c.harnesses[model])
		if unload != nil {
			c.tell(model, unload.id, Unloading, nil)
			unload.state = disabled
			c.tell(model, unload.id, End, nil)
			return true
		}
		if next != nil && load == nil {
			loadOf, load = model, next
		}
	}
	if load == nil || c.loads >= c.slots() {
		return false
	}
	load.state = loading
	c.loads++
	c.tell(loadOf, load.id, Loading, nil)
	c.running.Go(func() { c.load(loadOf, load) })
	return !c.inline()
}

// decide is the AvailabilityPreservingPolicy: what nobody wants is unloaded when something wanted serves, or nothing is wanted; and what is
// new is loaded, the highest version first.
func decide(all map[int64]*harness) (unload, load *harness) {
	var unwanted []*harness
	some, serves := false, false
	for _, id := range slices.Sorted(maps.Keys(all)) {
		h := all[id]
		switch {
		case h.aspired:
			some, serves = true, serves || h.state == ready
			if h.state == fresh {
				load = h
			}
		case h.state == ready:
			unwanted = append(unwanted, h)
		}
	}
	if len(unwanted) > 0 && (!some || serves || len(unwanted) > 1) {
		return unwanted[0], nil
	}
	return nil, load
}

// load loads a version, again after a pause where that fails.
func (c *Core) load(model string, h *harness) {
	loaded, err := c.store.Load(h.folder)
	for tries := int32(0); err != nil && tries < c.options.MaxLoadRetries; tries++ {
		if !c.pause(h) {
			break
		}
		loaded, err = c.store.Load(h.folder)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loads--
	select {
	case <-h.cancelled:
		if err == nil {
			err = errCancelled
		}
	default:
	}
	if err != nil {
		h.state = failed
		if errors.Is(err, errCancelled) {
			h.state = disabled
		}
		c.log("Servable {name: %s version: %d} cannot be loaded: %s", model, h.id, printed(err))
		c.tell(model, h.id, End, err)
		return
	}
	h.state, h.model = ready, loaded
	c.log("Successfully loaded servable version {name: %s version: %d}", model, h.id)
	c.tell(model, h.id, Available, nil)
}

// pause waits until a load is tried again, and says whether it is.
func (c *Core) pause(h *harness) bool {
	timer := time.NewTimer(time.Duration(max(0, c.options.LoadRetryMicros)) * time.Microsecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.cancelled:
	case <-c.done:
	}
	return false
}

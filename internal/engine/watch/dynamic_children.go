package watch

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mlkeeper.dev/internal/engine/observe"
)

// KindReferrer needs the watches on the kinds of its children.
type KindReferrer struct {
	// UID is that of the custom resource.
	UID types.UID
	// Finalizing says that the custom resource is gone, and that its Inventories still list children.
	Finalizing bool
}

// childWatcher is the part of Manager that DynamicChildren needs.
type childWatcher interface {
	WatchChosenChildren(gvk schema.GroupVersionKind, controller string, notify func(old, new *observe.Object))
	StopWatchingChildren(gk schema.GroupKind, controller string)
}

// DynamicChildren are the watches on the children of a controller with kinds that users choose. The watch on a kind is open while a
// referrer has the kind.
type DynamicChildren struct {
	informers  childWatcher
	controller string
	// always are the kinds that the definition of the controller names: they are watched by another declaration.
	always map[schema.GroupKind]bool
	notify func(old, new *observe.Object)

	// mu is held while a watch is declared or ended, so that the two calls for a kind come in order.
	mu         sync.RWMutex
	kinds      map[schema.GroupKind]*dynamicKind
	byReferrer map[KindReferrer]map[schema.GroupKind]bool
}

// dynamicKind is a watched kind.
type dynamicKind struct {
	// version is the one that was declared last.
	version   string
	referrers int
}

// NewDynamicChildren returns the watches of a controller, of which none is open. always are the kinds that the controller's definition
// names; notify is called as WatchChildren calls it.
func NewDynamicChildren(
	informers childWatcher, controller string, always []schema.GroupVersionKind, notify func(old, new *observe.Object),
) *DynamicChildren {
	d := &DynamicChildren{
		informers: informers, controller: controller, always: map[schema.GroupKind]bool{}, notify: notify,
		kinds: map[schema.GroupKind]*dynamicKind{}, byReferrer: map[KindReferrer]map[schema.GroupKind]bool{},
	}
	for _, gvk := range always {
		d.always[gvk.GroupKind()] = true
	}
	return d
}

// Has reports whether a referrer has a kind.
func (d *DynamicChildren) Has(gk schema.GroupKind) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.kinds[gk] != nil
}

// Set declares that a referrer has these kinds and no others. It opens the watches that are missing before it ends any. Of two versions
// of a kind, the later one counts.
func (d *DynamicChildren) Set(referrer KindReferrer, kinds []schema.GroupVersionKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wanted := d.addLocked(referrer, kinds)
	for gk := range d.byReferrer[referrer] {
		if _, ok := wanted[gk]; !ok {
			d.removeLocked(referrer, gk)
		}
	}
}

// Add declares that a referrer has these kinds beside those that it had before.
func (d *DynamicChildren) Add(referrer KindReferrer, kinds []schema.GroupVersionKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addLocked(referrer, kinds)
}

// Release declares that a referrer has no kinds any more.
func (d *DynamicChildren) Release(referrer KindReferrer) { d.Set(referrer, nil) }

// addLocked returns the kinds that are watched for the referrer, with their versions.
func (d *DynamicChildren) addLocked(referrer KindReferrer, kinds []schema.GroupVersionKind) map[schema.GroupKind]string {
	wanted := map[schema.GroupKind]string{}
	for _, gvk := range kinds {
		if !d.always[gvk.GroupKind()] {
			wanted[gvk.GroupKind()] = gvk.Version
		}
	}
	if d.byReferrer[referrer] == nil && len(wanted) > 0 {
		d.byReferrer[referrer] = map[schema.GroupKind]bool{}
	}
	for gk, version := range wanted {
		kind := d.openLocked(gk, version)
		if !d.byReferrer[referrer][gk] {
			d.byReferrer[referrer][gk] = true
			kind.referrers++
		}
	}
	return wanted
}

// openLocked opens the watch on a kind, or declares another version of it: the manager moves to that when the watched one is no longer served.
func (d *DynamicChildren) openLocked(gk schema.GroupKind, version string) *dynamicKind {
	kind := d.kinds[gk]
	switch {
	case kind == nil:
		kind = &dynamicKind{version: version}
		d.kinds[gk] = kind
		d.informers.WatchChosenChildren(gk.WithVersion(version), d.controller, d.notify)
	case kind.version != version:
		kind.version = version
		d.informers.WatchChosenChildren(gk.WithVersion(version), d.controller, nil)
	}
	return kind
}

// removeLocked ends the watch on a kind with the last referrer.
func (d *DynamicChildren) removeLocked(referrer KindReferrer, gk schema.GroupKind) {
	delete(d.byReferrer[referrer], gk)
	if len(d.byReferrer[referrer]) == 0 {
		delete(d.byReferrer, referrer)
	}
	kind := d.kinds[gk]
	if kind.referrers--; kind.referrers > 0 {
		return
	}
	delete(d.kinds, gk)
	d.informers.StopWatchingChildren(gk, d.controller)
}

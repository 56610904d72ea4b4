package fieldownership

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mlkeeper.dev/internal/engine/plan"
)

const (
	// MaxConflicts is how often another manager takes a field back within Window before the field is ceded.
	MaxConflicts = 3
	// Window is the time in which MaxConflicts are counted.
	Window = 10 * time.Minute

	// maxObjects and maxFields bound the memory of a Tracker.
	maxObjects = 4096
	maxFields  = 256
	// markPrefix is the prefix of MLKeeper's own labels and annotations.
	markPrefix = "keeper.mlkeeper.dev/"
)

// Tracker counts how often other managers take back fields that MLKeeper repaired. Its memory is bounded: of too many
// objects it forgets the one that was repaired longest ago, first among those without a ceded field. The zero value
// is ready, and it may be used from several goroutines.
type Tracker struct {
	mu      sync.Mutex
	objects map[plan.Key]*record
}

// record is what a Tracker knows of one object.
type record struct {
	uid types.UID
	// owner is the custom resource that declares the object.
	owner  types.NamespacedName
	last   time.Time
	fields map[managedField]*count
}

// managedField is a field in the hands of one manager.
type managedField struct{ text, manager string }

// count holds the times of the latest conflicts over a field; there is one at least.
type count struct {
	field Field
	at    []time.Time
	ceded bool
}

// Repaired records that another manager had taken the fields, as Lost tells, and that MLKeeper takes them back now. It
// returns those that became ceded by that: the caller cedes them from now on instead. MLKeeper's own marks and
// owner references are never ceded, since without them it would lose the object. owner is the custom resource that declares the object.
func (t *Tracker) Repaired(key plan.Key, uid types.UID, owner types.NamespacedName, fields []Field, now time.Time) []Field {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Field
	for _, f := range fields {
		if isMark(f.Path) {
			continue
		}
		c := t.countOf(key, uid, owner, f, now)
		if c == nil {
			continue
		}
		c.at = slices.DeleteFunc(c.at, func(at time.Time) bool { return now.Sub(at) > Window })
		c.at = append(c.at, now)
		if len(c.at) >= MaxConflicts && !c.ceded {
			c.ceded = true
			out = append(out, f)
		}
		if len(c.at) > MaxConflicts {
			c.at = c.at[len(c.at)-MaxConflicts:]
		}
	}
	sortFields(out)
	return out
}

// Undo takes back the latest Repaired for the fields, since the write that was to take them failed: trying it again must
// not count as another conflict.
func (t *Tracker) Undo(key plan.Key, uid types.UID, fields []Field) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.objects[key]
	if r == nil || r.uid != uid {
		return
	}
	for _, f := range fields {
		id := managedField{text: f.Text, manager: f.Manager}
		c := r.fields[id]
		if c == nil {
			continue
		}
		if len(c.at) == 1 {
			delete(r.fields, id)
			continue
		}
		c.at = c.at[:len(c.at)-1]
		c.ceded = c.ceded && len(c.at) >= MaxConflicts
	}
}

// Ceded returns the ceded fields of an object, sorted by Text. An object under the same name with another UID
// is another object.
func (t *Tracker) Ceded(key plan.Key, uid types.UID) []Field {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.objects[key]
	if r == nil || r.uid != uid {
		return nil
	}
	var out []Field
	for _, c := range r.fields {
		if c.ceded {
			out = append(out, c.field)
		}
	}
	sortFields(out)
	return out
}

// ForgetAll forgets what is known of the objects of custom resources that another manager reconciles from now on. The objects may be in
// any namespace, or in none.
func (t *Tracker) ForgetAll(others func(owner types.NamespacedName) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.objects, func(_ plan.Key, r *record) bool { return others(r.owner) })
}

// Forget drops everything about an object: it is gone, or its owner declared the field anew.
func (t *Tracker) Forget(key plan.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.objects, key)
}

// countOf returns the count of a field and adds it where it is new. It returns nil where an object has too many fields, all
// of them ceded or fresh.
func (t *Tracker) countOf(key plan.Key, uid types.UID, owner types.NamespacedName, f Field, now time.Time) *count {
	r := t.objects[key]
	if r == nil || r.uid != uid {
		if r == nil && len(t.objects) >= maxObjects {
			t.evict()
		}
		if t.objects == nil {
			t.objects = map[plan.Key]*record{}
		}
		r = &record{uid: uid, fields: map[managedField]*count{}}
		t.objects[key] = r
	}
	r.last, r.owner = now, owner
	id := managedField{text: f.Text, manager: f.Manager}
	if c := r.fields[id]; c != nil {
		return c
	}
	if len(r.fields) >= maxFields {
		r.prune(now)
	}
	if len(r.fields) >= maxFields {
		return nil
	}
	c := &count{field: f}
	r.fields[id] = c
	return c
}

// prune drops the fields whose conflicts are all out of the window.
func (r *record) prune(now time.Time) {
	for id, c := range r.fields {
		if !c.ceded && now.Sub(c.at[len(c.at)-1]) > Window {
			delete(r.fields, id)
		}
	}
}

func (r *record) ceded() bool {
	for _, c := range r.fields {
		if c.ceded {
			return true
		}
	}
	return false
}

// evict forgets one object.
func (t *Tracker) evict() {
	var victim plan.Key
	var chosen *record
	for key, r := range t.objects {
		if chosen == nil || r.less(chosen) {
			victim, chosen = key, r
		}
	}
	delete(t.objects, victim)
}

// less orders records by what is forgotten first.
func (r *record) less(other *record) bool {
	if a, b := r.ceded(), other.ceded(); a != b {
		return b
	}
	return r.last.Before(other.last)
}

// isMark says that a field is one of MLKeeper's own marks or an owner reference.
func isMark(path fieldpath.Path) bool {
	if len(path) < 2 || path[0].FieldName == nil || *path[0].FieldName != "metadata" || path[1].FieldName == nil {
		return false
	}
	switch *path[1].FieldName {
	case "ownerReferences":
		return true
	case "labels", "annotations":
		return len(path) > 2 && path[2].FieldName != nil && strings.HasPrefix(*path[2].FieldName, markPrefix)
	default:
		return false
	}
}

package console

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"sync"
)

// Feed holds the rows of one view by their keys, and tells viewers which of them changed. A viewer that is slow misses no change and
// queues none: it learns of a row as it is when it asks.
type Feed struct {
	mu      sync.Mutex
	rows    map[string]json.RawMessage
	viewers map[*viewer]struct{}
}

// viewer is somebody who looks at a feed.
type viewer struct {
	// dirty are the keys of the rows that changed since the viewer asked last.
	dirty map[string]struct{}
	// wake has one element while there are some.
	wake chan struct{}
}

// NewFeed returns a feed without rows.
func NewFeed() *Feed {
	return &Feed{rows: map[string]json.RawMessage{}, viewers: map[*viewer]struct{}{}}
}

// Set sets one row. A row that stays as it is, is no news.
func (f *Feed) Set(key string, row any) error {
	data, err := json.Marshal(row)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(key, data)
	return nil
}

// Remove removes one row.
func (f *Feed) Remove(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(key, nil)
}

// Replace sets all rows, and removes those that are not among them.
func (f *Feed) Replace(rows map[string]any) error {
	encoded := make(map[string]json.RawMessage, len(rows))
	for key, row := range rows {
		data, err := json.Marshal(row)
		if err != nil {
			return err
		}
		encoded[key] = data
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range maps.Clone(f.rows) {
		if encoded[key] == nil {
			f.set(key, nil)
		}
	}
	for key, data := range encoded {
		f.set(key, data)
	}
	return nil
}

// set sets a row, or removes it where there is no data.
func (f *Feed) set(key string, data json.RawMessage) {
	if bytes.Equal(f.rows[key], data) {
		return
	}
	if f.rows[key] = data; data == nil {
		delete(f.rows, key)
	}
	for v := range f.viewers {
		v.dirty[key] = struct{}{}
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
}

// Rows are the rows as they are.
func (f *Feed) Rows() map[string]json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.rows)
}

// look adds a viewer, for whom every row is news.
func (f *Feed) look() *viewer {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := &viewer{dirty: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	for key := range f.rows {
		v.dirty[key] = struct{}{}
	}
	v.wake <- struct{}{}
	f.viewers[v] = struct{}{}
	return v
}

// leave removes a viewer.
func (f *Feed) leave(v *viewer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.viewers, v)
}

// news returns the rows that changed since the viewer asked last, and the keys of those that are gone.
func (f *Feed) news(v *viewer) (set map[string]json.RawMessage, removed []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set = map[string]json.RawMessage{}
	for key := range v.dirty {
		if row, found := f.rows[key]; found {
			set[key] = row
		} else {
			removed = append(removed, key)
		}
	}
	v.dirty = map[string]struct{}{}
	slices.Sort(removed)
	return set, removed
}

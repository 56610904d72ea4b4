package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Condition is one condition of a status.
type Condition struct{ Type, Status string }

// Followed is the little of an object that tells whether it is ready.
type Followed struct {
	Metadata struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
		Generation      int64  `json:"generation"`
	} `json:"metadata"`
	Status struct {
		ObservedGeneration int64       `json:"observedGeneration"`
		Phase              string      `json:"phase"`
		Conditions         []Condition `json:"conditions"`
	} `json:"status"`
}

// Key names the object.
func (f Followed) Key() string { return f.Metadata.Namespace + "/" + f.Metadata.Name }

// True says that a condition is true.
func (f Followed) True(condition string) bool {
	for _, c := range f.Status.Conditions {
		if c.Type == condition && c.Status == "True" {
			return true
		}
	}
	return false
}

// Follower notes when objects of one resource were first seen ready, by namespace and name.
type Follower struct {
	mu     sync.Mutex
	ready  map[string]time.Time
	err    error
	cancel context.CancelFunc
}

// Follow watches a resource, such as /apis/apps/v1/deployments, and calls back, where a function is given, when an
// object is first ready. Baseline and operator are followed alike, so that the price of looking is the same.
func (c *Cluster) Follow(
	ctx context.Context, resource string, ready func(Followed) bool, call func(Followed),
) (*Follower, error) {
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	data, err := c.Wire.Do(ctx, "GET", resource+"?limit=1", "", nil)
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, err
	}
	f := &Follower{ready: map[string]time.Time{}}
	ctx, f.cancel = context.WithCancel(ctx)
	stream, err := c.open(ctx, resource, list.Metadata.ResourceVersion)
	if err != nil {
		f.cancel()
		return nil, err
	}
	go func() {
		last := list.Metadata.ResourceVersion
		for err == nil {
			last, err = f.read(stream, last, ready, call)
			if err == nil {
				// The API server ends a watch whose reader falls behind; it goes on where it ended.
				stream, err = c.open(ctx, resource, last)
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.err = fmt.Errorf("the watch on %s ended: %w", resource, err)
	}()
	return f, nil
}

// open opens a watch. Forty minutes are longer than any measurement that follows something.
func (c *Cluster) open(ctx context.Context, resource, from string) (io.ReadCloser, error) {
	return c.Wire.Open(ctx, fmt.Sprintf("%s?watch=1&timeoutSeconds=2400&resourceVersion=%s", resource, from))
}

// read notes what is ready until the stream ends. It returns the version of the last event, and an error where it cannot
// go on from there.
func (f *Follower) read(stream io.ReadCloser, last string, ready func(Followed) bool, call func(Followed)) (string, error) {
	defer func() { _ = stream.Close() }()
	decoder := json.NewDecoder(stream)
	for {
		var event struct {
			Type   string   `json:"type"`
			Object Followed `json:"object"`
		}
		err := decoder.Decode(&event)
		switch {
		case errors.Is(err, io.EOF):
			return last, nil
		case err != nil:
			return last, err
		case event.Type == "ERROR":
			return last, errors.New("the API server no longer knows version " + last)
		}
		last = event.Object.Metadata.ResourceVersion
		if (event.Type == "ADDED" || event.Type == "MODIFIED") && ready(event.Object) && f.note(event.Object) && call != nil {
			call(event.Object)
		}
	}
}

func (f *Follower) note(o Followed) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := o.Key()
	if _, seen := f.ready[key]; seen {
		return false
	}
	f.ready[key] = time.Now()
	return true
}

// Ready returns when each object was first seen ready.
func (f *Follower) Ready() map[string]time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]time.Time, len(f.ready))
	for key, at := range f.ready {
		out[key] = at
	}
	return out
}

// Await waits until n objects were seen ready, and fails when a check does.
func (f *Follower) Await(ctx context.Context, n int, timeout time.Duration, check func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		f.mu.Lock()
		have, err := len(f.ready), f.err
		f.mu.Unlock()
		if have >= n {
			return nil
		}
		if err == nil && check != nil {
			err = check()
		}
		if err == nil && time.Now().After(deadline) {
			err = fmt.Errorf("%d of %d are ready after %s", have, n, timeout)
		}
		if err == nil {
			err = Pause(ctx, 20*time.Millisecond)
		}
		if err != nil {
			return err
		}
	}
}

// Stop ends the watch.
func (f *Follower) Stop() { f.cancel() }

package console

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// linger is how long a view is kept up after the last viewer left, so that going back to it costs nothing.
	linger = time.Minute
	// maxViews bounds the views that are kept up at once.
	maxViews = 32
)

// feeds are the views that somebody looks at, each of which has one feed for all viewers.
type feeds struct {
	// ctx ends all of them.
	ctx context.Context

	mu   sync.Mutex
	open map[string]*openFeed
}

// openFeed is a view that is kept up.
type openFeed struct {
	*Feed
	viewers int
	// leaves ends the view some time after the last viewer left, which was at left.
	leaves *time.Timer
	left   time.Time
	cancel context.CancelFunc
	// ended is closed when the view cannot be kept up any more, failed says why.
	ended  chan struct{}
	failed error
}

// view returns the feed of a view, which run keeps up, and what to call when the viewer leaves.
func (f *feeds) view(key string, run func(context.Context, *Feed) error) (*openFeed, func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.open[key]
	if one == nil {
		if len(f.open) >= maxViews && !f.endOne() {
			return nil, nil, fmt.Errorf("more than %d pages are open: close some", maxViews)
		}
		ctx, cancel := context.WithCancel(f.ctx)
		one = &openFeed{Feed: NewFeed(), cancel: cancel, ended: make(chan struct{})}
		f.open[key] = one
		go func() {
			one.failed = run(ctx, one.Feed)
			close(one.ended)
			f.forget(key, one, true)
		}()
	}
	if one.leaves != nil {
		one.leaves.Stop()
	}
	one.viewers++
	return one, func() { f.leave(key, one) }, nil
}

// endOne ends the view that nobody has looked at for longest, and says whether there was one.
func (f *feeds) endOne() bool {
	var unseen *openFeed
	var its string
	for key, one := range f.open {
		if one.viewers == 0 && (unseen == nil || one.left.Before(unseen.left)) {
			unseen, its = one, key
		}
	}
	if unseen == nil {
		return false
	}
	unseen.cancel()
	delete(f.open, its)
	return true
}

// leave ends a view when nobody has looked at it for a while.
func (f *feeds) leave(key string, one *openFeed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.viewers--; one.viewers == 0 {
		one.left = time.Now()
		one.leaves = time.AfterFunc(linger, func() { f.forget(key, one, false) })
	}
}

// forget ends a view that nobody looks at, or that ended by itself; who looks at it next has another.
func (f *feeds) forget(key string, one *openFeed, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.viewers > 0 && !ended {
		return
	}
	one.cancel()
	if f.open[key] == one {
		delete(f.open, key)
	}
}

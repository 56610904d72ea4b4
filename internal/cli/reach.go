package cli

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// askEvery is how often an API server that does not answer is asked for its version.
const askEvery = 5 * time.Second

// reach knows whether the API server answers: client-go opens its watches again and again, and says nothing.
type reach struct {
	mu sync.Mutex
	// lost is why it does not answer, next is closed when that changes.
	lost string
	next chan struct{}
}

// state is why the API server does not answer, empty where it does, and a channel that is closed when that changes.
func (r *reach) state() (lost string, next <-chan struct{}) {
	if r == nil {
		return "", nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = make(chan struct{})
	}
	return r.lost, r.next
}

// note notes how a request ended: with an answer, whatever it says, or without one.
func (r *reach) note(err error) {
	text := ""
	if err != nil {
		text = Clean(err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if (r.lost == "") == (text == "") {
		return
	}
	if r.lost = text; r.next != nil {
		close(r.next)
		r.next = nil
	}
}

// wrap makes a transport that notes how its requests end.
func (r *reach) wrap(inner http.RoundTripper) http.RoundTripper { return noted{inner, r} }

type noted struct {
	inner http.RoundTripper
	reach *reach
}

// RoundTrip implements http.RoundTripper.
func (n noted) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.inner.RoundTrip(r)
	// Who asked may have gone, which says nothing of the API server.
	if err == nil || r.Context().Err() == nil {
		n.reach.note(err)
	}
	return response, err
}

// follow tells at first and at every change whether the API server answers, until the context ends. One that does not is asked for its version
// now and then, since watches are opened again later and later.
func (c *cluster) follow(ctx context.Context, tell func(lost string)) {
	for {
		lost, next := c.reach.state()
		tell(lost)
		var again <-chan time.Time
		if lost != "" {
			again = time.After(askEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-next:
		case <-again:
			// The transport notes whether there is an answer.
			_, _ = c.version(ctx)
		}
	}
}

// unanswered says what that means for what is shown.
func unanswered(lost string) string {
	return "The API server does not answer, and what is shown may be out of date: " + lost
}

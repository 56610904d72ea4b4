package kserve

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"
	"k8s.io/client-go/rest"

	"mlkeeper.dev/internal/acm"
	"mlkeeper.dev/internal/requests"
	"mlkeeper.dev/test/acmruntime"
)

// errCrash is what the operator hears of a write at which it crashes.
var errCrash = errors.New("the operator crashes here")

// crash lets an operator crash at one write: before it, or after it with a lost response.
type crash struct {
	mu sync.Mutex
	// left is how many writes are let through; after says that the write at which it crashes arrives.
	left  int
	after bool
	// hit is closed at the crash; from then on nothing arrives.
	hit chan struct{}
	at  string
}

func (c *crash) wrap(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return requests.RoundTripper(func(r *http.Request) (*http.Response, error) {
			request := requests.Of(r)
			if !request.Write() || request.Resource == "leases" || request.Resource == "events" {
				return next.RoundTrip(r)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.left--
			switch {
			case c.left > 0:
				return next.RoundTrip(r)
			case c.left < 0:
				return nil, errCrash
			}
			c.at = request.Verb + " " + request.Resource
			if c.after {
				if answer, err := next.RoundTrip(r); err == nil {
					answer.Body.Close()
				}
			}
			close(c.hit)
			return nil, errCrash
		})
	})
}

// TestCrashAtEveryWrite: an operator that crashes before or after any single write of a whole life loses no order, and runs none
// twice.
func TestCrashAtEveryWrite(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			at := ""
			t.Run(fmt.Sprintf("write %d, response lost %t", n, after), func(t *testing.T) {
				at = live(t, n, after)
				t.Logf("it crashed at %q", at)
			})
			if t.Failed() {
				return
			}
			if at == "" {
				if n < 8 {
					t.Errorf("a life has %d writes only", n-1)
				}
				break // The life has no more writes.
			}
		}
	}
}

// live goes through a life with a crash at the n-th write, and says which that was.
func live(t *testing.T, n int, after bool) string {
	s := onKafka(t, acmruntime.London)
	point := &crash{left: n, after: after, hit: make(chan struct{})}
	s.wrap = point.wrap
	s.start()
	done := make(chan struct{})
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		select {
		case <-point.hit:
		case <-done:
			return
		}
		s.operator.Stop()
		s.wrap = nil
		s.start()
	}()
	c := s.primed(map[string]any{})
	i := s.deployed(c, s.model("sklearn-iris", sklearn(1)))
	first := s.service("sklearn-iris")
	e := i.Elements[0]
	e.Properties = s.model("sklearn-iris", sklearn(2))
	s.must(s.runtime.Update(within(t), i))
	s.must(s.runtime.Await(within(t), "updated", func() bool { return e.Message == "Updated" }))
	if now := s.service("sklearn-iris"); replicas(now) != 2 || now.GetUID() != first.GetUID() {
		t.Errorf("after the update there is %v", now)
	}
	s.must(s.runtime.Undeploy(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "UNDEPLOYED", "NO_ERROR"))
	s.must(s.runtime.Delete(within(t), i))
	s.must(s.runtime.AwaitInstance(within(t), i, "DELETED", "NO_ERROR"))
	s.c.Eventually(t, patience, func() error {
		if s.element(e.ID) != nil || s.service("sklearn-iris") != nil {
			return errors.New("something is left")
		}
		return nil
	})
	close(done)
	<-restarted
	point.mu.Lock()
	defer point.mu.Unlock()
	return point.at
}

// TestCrashWhileAnOrderIsReleased: a held order is forgotten only when it is an element's. The elements cannot be written here
// until the operator has crashed.
func TestCrashWhileAnOrderIsReleased(t *testing.T) {
	s := onKafka(t, acmruntime.London)
	refused := make(chan struct{}, 100)
	s.wrap = func(cfg *rest.Config) {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return requests.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if request := requests.Of(r); request.Write() && request.Resource == "compositionelements" {
					refused <- struct{}{}
					return nil, errCrash
				}
				return next.RoundTrip(r)
			})
		})
	}
	s.start()
	c := s.primed(map[string]any{})
	i := s.runtime.Instantiate(c, s.model("held", sklearn(1)))
	ahead := s.runtime.DeployMessage(i)
	revision := uuid.NewString()
	ahead["revisionIdComposition"] = revision
	s.must(s.runtime.Send(within(t), ahead))
	s.must(s.runtime.Await(within(t), "it is asked for", func() bool { return s.runtime.Seen(acm.TypeReqSync) > 0 }))
	s.runtime.Revise(c, revision)
	s.must(s.runtime.Sync(within(t), c))
	<-refused
	<-refused // Whatever goes with the elements has been tried too.
	s.operator.Stop()
	s.wrap = nil
	s.start()
	s.must(s.runtime.AwaitInstance(within(t), i, "DEPLOYED", "NO_ERROR"))
}

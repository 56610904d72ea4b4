package cluster

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"mlkeeper.dev/internal/requests"
)

// Request is what Counter tells requests apart by.
type Request = requests.Request

// Counter counts requests by verb, resource and subresource when they are sent. rest_client_requests_total does not
// tell a WATCH from a GET, which is why the tests count for themselves.
type Counter struct {
	next http.RoundTripper
	mu   sync.Mutex
	seen map[Request]int
}

// WithCounter returns a copy of the configuration whose clients are counted.
func WithCounter(cfg *rest.Config) (*rest.Config, *Counter) {
	counter := &Counter{seen: map[Request]int{}}
	counted := rest.CopyConfig(cfg)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper {
		// One configuration makes one transport per client, and all of them count here.
		return requests.RoundTripper(func(r *http.Request) (*http.Response, error) {
			counter.count(r)
			return next.RoundTrip(r)
		})
	})
	return counted, counter
}

// NewCounter wraps one transport.
func NewCounter(next http.RoundTripper) *Counter {
	return &Counter{next: next, seen: map[Request]int{}}
}

// RoundTrip counts the request and sends it.
func (c *Counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count(r)
	return c.next.RoundTrip(r)
}

func (c *Counter) count(r *http.Request) {
	request := requests.Of(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[request]++
}

// Snapshot returns a copy of the counts.
func (c *Counter) Snapshot() map[Request]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.seen)
}

// Since returns what was counted after an earlier snapshot.
func (c *Counter) Since(earlier map[Request]int) map[Request]int {
	out := map[Request]int{}
	for request, n := range c.Snapshot() {
		if n > earlier[request] {
			out[request] = n - earlier[request]
		}
	}
	return out
}

// Writes counts the requests that change something, but for those of the excluded resources, such as "leases".
func (c *Counter) Writes(exclude ...string) int { return Sum(c.Snapshot(), Request.Write, exclude...) }

// Reads counts GETs and LISTs, but for those of the excluded resources.
func (c *Counter) Reads(exclude ...string) int { return Sum(c.Snapshot(), Request.Read, exclude...) }

// Sum adds up the counts of the requests that match, but for those of the excluded resources.
func Sum(counts map[Request]int, match func(Request) bool, exclude ...string) int {
	total := 0
	for request, n := range counts {
		if match(request) && !slices.Contains(exclude, request.Resource) {
			total += n
		}
	}
	return total
}

// Describe prints counts, one request a line, for the message of a failure.
func Describe(counts map[Request]int) string {
	lines := make([]string, 0, len(counts))
	for request, n := range counts {
		lines = append(lines, fmt.Sprintf("%6d %s", n, request))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

package cluster

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// Request is what Counter tells requests apart by.
type Request struct {
	// Verb is GET, LIST, WATCH, CREATE, UPDATE, PATCH, APPLY, DELETE or DELETECOLLECTION. A streamed list is a WATCH.
	Verb string
	// Group is the API group; empty for the core group and for requests that concern no resource.
	Group string
	// Resource is the plural name of the resource; for requests that concern none, such as discovery, the path.
	Resource string
	// Subresource is empty for the object itself.
	Subresource string
}

// String prints the request as "APPLY deployments.apps/status".
func (r Request) String() string {
	s := r.Verb + " " + r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Subresource != "" {
		s += "/" + r.Subresource
	}
	return s
}

// Write says that the request changes something.
func (r Request) Write() bool { return !r.Read() && r.Verb != "WATCH" }

// Read says that the request is a live read: a GET or a LIST, discovery included, and no WATCH.
func (r Request) Read() bool { return r.Verb == "GET" || r.Verb == "LIST" }

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
		return roundTripper(func(r *http.Request) (*http.Response, error) {
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

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// RoundTrip counts the request and sends it.
func (c *Counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count(r)
	return c.next.RoundTrip(r)
}

func (c *Counter) count(r *http.Request) {
	request := classify(r)
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

// classify reads verb and resource from a request as the API server does.
func classify(r *http.Request) Request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var out Request
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		out.Group = parts[1]
		parts = parts[3:]
	default:
		return Request{Verb: verb(r, true), Resource: r.URL.Path}
	}
	watched := parts[0] == "watch" && len(parts) > 1
	if watched {
		parts = parts[1:]
	}
	// "namespaces/x" and its own subresources are about the namespace; anything longer is about what is inside.
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "finalize" && parts[2] != "status" {
		parts = parts[2:]
	}
	out.Resource = parts[0]
	if len(parts) > 2 {
		out.Subresource = strings.Join(parts[2:], "/")
	}
	out.Verb = verb(r, len(parts) > 1)
	if watched {
		out.Verb = "WATCH"
	}
	return out
}

func verb(r *http.Request, named bool) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
			return "WATCH"
		}
		if named {
			return "GET"
		}
		return "LIST"
	case http.MethodPost:
		return "CREATE"
	case http.MethodPut:
		return "UPDATE"
	case http.MethodPatch:
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
			return "APPLY"
		}
		return "PATCH"
	case http.MethodDelete:
		if named {
			return "DELETE"
		}
		return "DELETECOLLECTION"
	default:
		return r.Method
	}
}

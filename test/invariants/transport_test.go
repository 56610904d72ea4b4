package invariants

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"mlkeeper.dev/internal/requests"
)

// request is one request of an operator.
type request struct {
	method, path, query, accept, contentType string
	at                                       time.Time
}

// write says that the request changes something.
func (r request) write() bool { return r.method != http.MethodGet && r.method != http.MethodHead }

// journal keeps the requests of a bench's operators in their order.
type journal struct {
	mu       sync.Mutex
	requests []request
	// before, when set, sees every request before it is sent; an answer takes the place of the server's.
	before func(*http.Request) *http.Response
}

func (j *journal) wrap(further func(*rest.Config)) func(*rest.Config) {
	return func(cfg *rest.Config) {
		if further != nil {
			further(cfg)
		}
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return requests.RoundTripper(func(r *http.Request) (*http.Response, error) {
				j.mu.Lock()
				j.requests = append(j.requests, request{
					method: r.Method, path: r.URL.Path, query: r.URL.RawQuery, accept: r.Header.Get("Accept"),
					contentType: r.Header.Get("Content-Type"), at: time.Now(),
				})
				before := j.before
				j.mu.Unlock()
				if before != nil {
					if answer := before(r); answer != nil {
						return answer, nil
					}
				}
				return next.RoundTrip(r)
			})
		})
	}
}

// hook sets what sees every request from now on; nil for nothing.
func (j *journal) hook(before func(*http.Request) *http.Response) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.before = before
}

// mark is the number of requests so far.
func (j *journal) mark() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.requests)
}

// since returns the requests after a mark that match.
func (j *journal) since(mark int, match func(request) bool) []request {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []request
	for _, r := range j.requests[mark:] {
		if match(r) {
			out = append(out, r)
		}
	}
	return out
}

// writes returns the requests after a mark that change something under a path that ends so; POSTs end with the plural.
func (j *journal) writes(mark int, method, suffix string) []request {
	return j.since(mark, func(r request) bool {
		return r.write() && (method == "" || r.method == method) && strings.HasSuffix(r.path, suffix)
	})
}

// lines prints requests for a message.
func lines(requests []request) string {
	var out []string
	for _, r := range requests {
		out = append(out, fmt.Sprintf("%s %s %s?%s", r.at.Format("05.000"), r.method, r.path, r.query))
	}
	return strings.Join(out, "\n")
}

// answer is a refusal of the API server.
func answer(r *http.Request, code int, reason string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"made up"}`,
		reason, code)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// delayWatches makes every event of a watch arrive late.
func delayWatches(late time.Duration) func(*rest.Config) {
	return func(cfg *rest.Config) {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return requests.RoundTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil && slices.Contains([]string{"true", "1"}, r.URL.Query().Get("watch")) {
					resp.Body = newLateBody(resp.Body, late)
				}
				return resp, err
			})
		})
	}
}

// lateBody hands on what it reads after a while.
type lateBody struct {
	from   io.ReadCloser
	chunks chan chunk
	closed chan struct{}
	once   sync.Once
	rest   bytes.Buffer
	err    error
}

type chunk struct {
	data []byte
	err  error
	due  time.Time
}

func newLateBody(from io.ReadCloser, late time.Duration) *lateBody {
	b := &lateBody{from: from, chunks: make(chan chunk, 4096), closed: make(chan struct{})}
	go func() {
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			select {
			case b.chunks <- chunk{data: data[:n], err: err, due: time.Now().Add(late)}:
			case <-b.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return b
}

// Read returns the next data that is due.
func (b *lateBody) Read(p []byte) (int, error) {
	if b.rest.Len() == 0 && b.err == nil {
		select {
		case c := <-b.chunks:
			select {
			case <-time.After(time.Until(c.due)):
			case <-b.closed:
				return 0, io.EOF
			}
			b.rest.Write(c.data)
			b.err = c.err
		case <-b.closed:
			return 0, io.EOF
		}
	}
	if b.rest.Len() > 0 {
		return b.rest.Read(p)
	}
	return 0, b.err
}

// Close ends the watch.
func (b *lateBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.from.Close()
}

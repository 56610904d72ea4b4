package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mlkeeper.dev/internal/requests"
)

// errDead is what the clients of an operator that died hear.
var errDead = errors.New("the operator is dead")

// hang is how long a request that times out hangs.
const hang = 300 * time.Millisecond

// line is all that one operator has to the API server. It ends with the operator: from then on nothing is sent and
// nothing is heard.
type line struct {
	run      *run
	operator int
	dead     atomic.Bool
	// end cancels everything of the operator.
	end context.CancelFunc
	// stale shows an older state at the start; nil for none.
	stale *staleness
	// ready says whether its watches are complete; nil while it starts. The run guards it.
	ready func() error

	mu      sync.Mutex
	streams map[*stream]bool
}

// die ends the operator.
func (l *line) die() {
	if l.dead.Swap(true) {
		return
	}
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.streams {
		s.cut(errDead)
	}
}

// wrap is the middle of a transport.
func (l *line) wrap(next http.RoundTripper) http.RoundTripper {
	return requests.RoundTripper(func(r *http.Request) (*http.Response, error) { return l.send(r, next) })
}

// send notes a request, has it meet what the plan says, and sends it.
func (l *line) send(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	if l.dead.Load() {
		return nil, errDead
	}
	req, err := parse(r)
	if err != nil {
		return nil, err
	}
	e, action := l.run.sent(l, req)
	if resp := l.run.bar(r, req); resp != nil {
		l.run.journal.done(e, resp.StatusCode, "injected")
		return resp, nil
	}
	switch action {
	case DieBefore:
		l.run.kill(l, e, "the operator dies before it is sent")
		return nil, errDead
	case Answer:
		l.run.journal.done(e, l.run.plan.Fault.Status, "injected")
		return refusal(r, l.run.plan.Fault.Status), nil
	case Reset:
		l.run.journal.done(e, 0, "connection reset, unsent")
		return nil, reset()
	case Timeout:
		l.run.journal.done(e, 0, "timeout, unsent")
		return nil, hangs(r.Context())
	case Race, Usurp:
		l.run.compete(action, r, req)
		l.run.journal.done(e, 0, "somebody else was faster")
	}
	resp, err := l.forward(r, req, next)
	switch {
	case err != nil:
		l.run.journal.done(e, 0, err.Error())
		return nil, err
	case action == DieAfter:
		drop(resp)
		l.run.journal.done(e, resp.StatusCode, "the operator dies before it hears this")
		l.run.kill(l, e, "")
		return nil, errDead
	case action == Lose:
		drop(resp)
		l.run.journal.done(e, resp.StatusCode, "the answer is lost")
		return nil, reset()
	case l.dead.Load():
		drop(resp)
		l.run.journal.done(e, resp.StatusCode, "the operator died meanwhile")
		return nil, errDead
	}
	l.run.journal.done(e, resp.StatusCode, "")
	return resp, nil
}

// forward sends a request; what is watched passes through a stream that can be held.
func (l *line) forward(r *http.Request, req request, next http.RoundTripper) (*http.Response, error) {
	if req.Verb != verbList && req.Verb != verbWatch {
		return next.RoundTrip(r)
	}
	var hold time.Time
	if s := l.stale; s.concerns(req.Resource) {
		again, refuse := s.rewrite(r, req)
		if refuse {
			return refusal(r, http.StatusUnprocessableEntity), nil
		}
		r, hold = again, s.until
	}
	if req.Verb == verbWatch && l.run.expired(req.Resource, r) {
		return refusal(r, http.StatusGone), nil
	}
	resp, err := next.RoundTrip(r)
	if err != nil || req.Verb != verbWatch || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	s := newStream(resp.Body, req.Resource, func(s *stream) {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.streams, s)
	})
	l.mu.Lock()
	if l.streams == nil {
		l.streams = map[*stream]bool{}
	}
	l.streams[s] = true
	l.mu.Unlock()
	if by := l.run.heldUntil(req.Resource); by.After(hold) {
		hold = by
	}
	s.hold(hold)
	resp.Body = s
	return resp, nil
}

// watches calls f for the open watches of a resource, "*" for all.
func (l *line) watches(resource string, f func(*stream)) {
	l.mu.Lock()
	var all []*stream
	for s := range l.streams {
		if resource == "*" || s.resource == resource {
			all = append(all, s)
		}
	}
	l.mu.Unlock()
	for _, s := range all {
		f(s)
	}
}

// hangs is a request that nobody answers.
func hangs(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(hang):
		return &net.OpError{Op: "read", Net: "tcp", Err: timeoutError{}}
	}
}

func drop(resp *http.Response) { _ = resp.Body.Close() }

func reset() error { return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET} }

type timeoutError struct{}

// Error implements error.
func (timeoutError) Error() string { return "i/o timeout" }

// Timeout says that it is one.
func (timeoutError) Timeout() bool { return true }

// Temporary is part of net.Error.
func (timeoutError) Temporary() bool { return true }

// refusal is an error of the API server. The texts are those of the real one, since engines read them.
func refusal(r *http.Request, code int) *http.Response {
	header := http.Header{"Content-Type": {"application/json"}}
	reason, message := "InternalError", "Internal error occurred: injected"
	switch code {
	case http.StatusForbidden:
		reason, message = "Forbidden", "forbidden: User cannot do this: injected"
	case http.StatusConflict:
		reason = "Conflict"
		message = "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version"
	case http.StatusGone:
		reason, message = "Expired", "too old resource version: injected"
	case http.StatusUnprocessableEntity:
		reason, message = "Invalid", "is invalid: spec: Invalid value: injected"
	case http.StatusTooManyRequests:
		reason, message = "TooManyRequests", "the server has received too many requests: injected"
		header.Set("Retry-After", "1")
	case http.StatusServiceUnavailable:
		reason, message = "ServiceUnavailable", "the server is currently unable to handle the request"
	case http.StatusGatewayTimeout:
		reason, message = "Timeout", "the server was unable to return a response in the time allotted"
	}
	return failure(r, header, metav1.Status{Reason: metav1.StatusReason(reason), Message: message, Code: int32(code)}) //nolint:gosec // It is a code of HTTP.
}

// failure is the answer of a failed request.
func failure(r *http.Request, header http.Header, status metav1.Status) *http.Response {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	status.Status = metav1.StatusFailure
	body, err := json.Marshal(status)
	if err != nil {
		panic(err) // A Status is text and numbers.
	}
	code := int(status.Code)
	return &http.Response{
		StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Header: header, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}
}

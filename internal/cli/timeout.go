package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// answerTimeout is how long the API server may take to begin an answer, so that one that hangs never holds a command for ever. How
// long the answer itself may take depends on its size, and a watch has no end.
const answerTimeout = 30 * time.Second

// limitAnswers bounds the time until an answer begins.
func limitAnswers(inner http.RoundTripper) http.RoundTripper {
	return answerLimit{inner, answerTimeout}
}

type answerLimit struct {
	inner http.RoundTripper
	after time.Duration
}

// RoundTrip implements http.RoundTripper.
func (l answerLimit) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("follow") == "true" {
		// The kubelet begins to answer with the first line of a log, whenever the container writes that.
		return l.inner.RoundTrip(r)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	late := time.AfterFunc(l.after, func() {
		cancel(fmt.Errorf("the API server did not answer within %s: check that it runs, or allow more by --request-timeout", l.after))
	})
	response, err := l.inner.RoundTrip(r.WithContext(ctx))
	if !late.Stop() && err != nil && r.Context().Err() == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	response.Body = endedBody{response.Body, cancel}
	return response, nil
}

// endedBody ends the context of a request with its answer.
type endedBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close implements io.Closer.
func (b endedBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

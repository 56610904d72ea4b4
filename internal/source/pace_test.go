package source

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestServersThatSendTooLittleAreGivenUp has servers that never stop sending.
func TestServersThatSendTooLittleAreGivenUp(t *testing.T) {
	server := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(5 * time.Millisecond)
		}
	})
	s := open(t, func(o *Options) { o.Limits = Limits{Header: 100 * time.Millisecond, Total: 20 * time.Second} })
	began := time.Now()
	_, err := fetch(t, s, Request{URI: server.URL + "/x?s3cret"})
	wantError(t, err, Transient, ReasonUnreachable)
	if took := time.Since(began); took > 10*time.Second || !strings.Contains(err.Error(), "too slowly") {
		t.Errorf("given up after %s: %v", took, err)
	}
	wantEmpty(t, s)
}

// trickle is an answer that comes in parts, each after a pause, until its request is cancelled.
type trickle struct {
	ctx   context.Context //nolint:containedctx // that of the request, as of the bodies of net/http
	parts int
	size  int
	pause time.Duration
}

func (r *trickle) Read(p []byte) (int, error) {
	if r.parts == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(r.pause):
		r.parts--
		return min(r.size, len(p)), nil
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

func (*trickle) Close() error { return nil }

// TestThePaceOfAnAnswer has a bound on the time in which a part of an answer comes, and none on how long the reader takes for it.
func TestThePaceOfAnAnswer(t *testing.T) {
	const patience = 30 * time.Second
	for name, c := range map[string]struct {
		least, size int
		pause, reader,
		want time.Duration // zero for an answer that comes to its end
	}{
		"a large one":                          {least: 1 << 10, size: 1 << 10, pause: 20 * time.Second},
		"one byte a second":                    {least: 1 << 10, size: 1, pause: time.Second, want: patience},
		"nothing":                              {least: 1 << 10, size: 1, pause: time.Hour, want: patience},
		"one that is read slowly":              {least: 1 << 10, size: 1 << 9, pause: time.Second, reader: time.Minute},
		"that of a server of git, which packs": {least: 0, size: 1, pause: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				b := &pacedBody{
					ReadCloser: &trickle{ctx: ctx, parts: 200, size: c.size, pause: c.pause}, patience: patience, least: c.least, cancel: cancel,
				}
				began := time.Now()
				var err error
				for err == nil {
					_, err = b.Read(make([]byte, 1<<10))
					time.Sleep(c.reader)
				}
				slow := new(Error)
				if c.want == 0 && !errors.Is(err, io.EOF) || c.want > 0 && (!errors.As(err, &slow) || time.Since(began) != c.want) {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
				if _ = b.Close(); ctx.Err() == nil {
					t.Error("the request goes on")
				}
			})
		})
	}
}

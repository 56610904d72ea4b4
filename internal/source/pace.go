package source

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// leastBytes is what a server sends at least within Limits.Header, unless its answer ends. The slots for fetches are few, and who waits for one
// waits for the servers of others.
const leastBytes = 16 << 10

// pacedBody ends a request of whose answer too little comes. The time counts in which the reader waits for the server, and not that in which
// the server waits for the reader, as for memory or the disk.
type pacedBody struct {
	io.ReadCloser
	// patience is how long the reader waits for least bytes; zero bytes for as long as the fetch may take.
	patience time.Duration
	least    int
	// cancel ends the request.
	cancel context.CancelFunc

	// waited is how long the reader has waited since there were least bytes, and came how many have come since.
	waited time.Duration
	came   int
	slow   atomic.Bool
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if b.least == 0 {
		return b.ReadCloser.Read(p)
	}
	began := time.Now()
	timer := time.AfterFunc(b.patience-b.waited, func() {
		b.slow.Store(true)
		b.cancel()
	})
	n, err := b.ReadCloser.Read(p)
	timer.Stop()
	b.waited += time.Since(began)
	if b.came += n; b.came >= b.least {
		b.waited, b.came = 0, 0
	}
	if err != nil && !errors.Is(err, io.EOF) && b.slow.Load() {
		return n, transient(ReasonUnreachable, "", "the server sends too slowly: less than %d bytes in %s", b.least, b.patience)
	}
	return n, err
}

// Close ends the request, too.
func (b *pacedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

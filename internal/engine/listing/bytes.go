package listing

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"mlkeeper.dev/internal/requests"
)

// errTooLarge says that an answer has more bytes than were to be read of it.
var errTooLarge = errors.New("the answer is too large")

// Bound makes every client of a configuration read no more of a list than this package lets it. A client reads an answer as a whole before it
// decodes any of it, and the API server counts objects and no bytes.
func Bound(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return requests.RoundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if budget, bounded := r.Context().Value(budgetKey{}).(*budget); bounded && err == nil {
				answer.Body = &body{ReadCloser: answer.Body, budget: budget}
			}
			return answer, err
		})
	})
}

type budgetKey struct{}

// budget is how many bytes of an answer may still be read.
type budget struct{ left int64 }

// bounded has one answer bounded. The client would log each that is too large, which users could fill the log with.
func bounded(ctx context.Context, bytes int64) (context.Context, *budget) {
	b := &budget{left: bytes}
	return context.WithValue(klog.NewContext(ctx, logr.Discard()), budgetKey{}, b), b
}

// body is the body of an answer that ends with an error where it has too many bytes.
type body struct {
	io.ReadCloser
	budget *budget
}

// Read implements io.Reader.
func (b *body) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if b.budget.left -= int64(n); b.budget.left < 0 {
		return n, errTooLarge
	}
	return n, err
}

package requests

import (
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The metric exists once per process, whatever the number of configurations that are counted.
var (
	total = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_api_requests_total",
		Help: "Requests to the API server by verb (GET, LIST, WATCH, CREATE, UPDATE, PATCH, APPLY, DELETE), group and " +
			"resource; the resource is empty for requests that concern none, such as discovery.",
	}, []string{"verb", "group", "resource"})
	register sync.Once
)

// Count makes every client of a configuration count its requests in mlkeeper_api_requests_total when it sends them.
func Count(cfg *rest.Config) {
	register.Do(func() { ctrlmetrics.Registry.MustRegister(total) })
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(r *http.Request) (*http.Response, error) {
			request := Of(r)
			resource := request.Resource
			if request.Path() {
				resource = "" // Paths are many, and the cardinality of a metric is not.
			} else if request.Subresource != "" {
				resource += "/" + request.Subresource
			}
			total.WithLabelValues(request.Verb, request.Group, resource).Inc()
			return next.RoundTrip(r)
		})
	})
}

// RoundTripper is a function that is an http.RoundTripper.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

package source

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The metric exists once per process, whatever the number of engines in it. client-go's rest_client_requests_total has the refused requests of
// every client, among them those with the rights of tenants, and cannot tell a watch from another GET.
var (
	refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_refused_watches_total", Help: "Attempts to watch that the API server refused for lack of a right, by group and resource.",
	}, []string{"group", "resource"})
	register sync.Once
)

// ServeMetrics registers the metric; again without effect.
func ServeMetrics() { register.Do(func() { ctrlmetrics.Registry.MustRegister(refused) }) }

// count counts an attempt that was refused.
func count(scope Scope, was bool) {
	if was {
		refused.WithLabelValues(scope.Resource.Group, scope.Resource.Resource).Inc()
	}
}

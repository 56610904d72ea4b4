package participant

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The metrics exist once per process.
var (
	messagesReceived = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_acm_messages_received_total",
		Help: "Messages of ACM runtimes that had an effect, by type; refused and unreadable records besides.",
	}, []string{"type"})
	messagesPublished = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_acm_messages_published_total",
		Help: "Messages that the broker has taken, by type.",
	}, []string{"type"})
	publishFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mlkeeper_acm_publish_failures_total",
		Help: "Attempts to publish that the broker did not take; each is repeated.",
	})
	ordersDropped = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mlkeeper_acm_held_orders_dropped_total",
		Help: "Held orders that were not carried out, since something newer has overtaken them or the runtime did not tell what they were made for.",
	})
	ordersIgnored = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mlkeeper_acm_orders_ignored_total",
		Help: "Orders without an effect, since a newer one was there already.",
	})
	registerMetrics sync.Once
)

func serveMetrics() {
	registerMetrics.Do(func() {
		ctrlmetrics.Registry.MustRegister(messagesReceived, messagesPublished, publishFailures, ordersDropped, ordersIgnored)
	})
}

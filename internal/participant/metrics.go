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
		Name: "mlkeeper_acm_pending_orders_dropped_total",
		Help: "Held orders that were not carried out, since something newer has overtaken them or the runtime did not tell what they were made for.",
	})
	ordersIgnored = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mlkeeper_acm_orders_ignored_total",
		Help: "Orders without an effect, since a newer one was there already.",
	})
	stepsFailing = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mlkeeper_acm_failing_steps",
		Help: "What follows from records and cannot be stored or told at the moment; nothing behind them on their topic is read.",
	})
	writesRefused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mlkeeper_acm_writes_refused_total",
		Help: "Writes that the API server refuses for what they contain; an order among them is answered FAILED.",
	})
	objectsUnreadable = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_acm_unreadable_objects_total",
		Help: "Objects of the participant that cannot be read at its start and are left out, by kind.",
	}, []string{"kind"})
	registerMetrics sync.Once
)

func serveMetrics() {
	registerMetrics.Do(func() {
		ctrlmetrics.Registry.MustRegister(messagesReceived, messagesPublished, publishFailures, ordersDropped, ordersIgnored,
			stepsFailing, writesRefused, objectsUnreadable)
	})
}

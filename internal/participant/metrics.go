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
		Help: "Messages that the broker accepted, by type.",
	}, []string{"type"})
	publishFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mlkeeper_acm_publish_failures_total",
		Help: "Attempts to publish that the broker did not accept; each is repeated.",
	})
	ordersDropped = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mlkeeper_acm_pending_orders_dropped_total",
		Help: "Pending orders that were dropped because something newer replaced them or the runtime did not send their revision.",
	})
	ordersIgnored = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mlkeeper_acm_orders_ignored_total",
		Help: "Orders without an effect because a newer one had arrived before.",
	})
	stepsFailing = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mlkeeper_acm_failing_steps",
		Help: "Steps that cannot be stored or published at the moment; later records of their topic are not read.",
	})
	writesRefused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mlkeeper_acm_writes_refused_total",
		Help: "Writes that the API server refuses for their content; an order among them is answered FAILED.",
	})
	objectsUnreadable = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_acm_unreadable_objects_total",
		Help: "Objects of the participant that cannot be read at its start and are left out, by kind.",
	}, []string{"kind"})
	panics = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mlkeeper_acm_panics_total",
		Help: "Panics of the participant that were recovered, by part; a record that caused one is skipped, everything else is retried.",
	}, []string{"part"})
	registerMetrics sync.Once
)

func serveMetrics() {
	registerMetrics.Do(func() {
		ctrlmetrics.Registry.MustRegister(messagesReceived, messagesPublished, publishFailures, ordersDropped, ordersIgnored,
			stepsFailing, writesRefused, objectsUnreadable, panics)
	})
}

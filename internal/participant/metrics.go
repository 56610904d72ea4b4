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
	// The gauges of the participant that runs have no series where none does, such as on a standby.
	registered = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_acm_registered",
		Help: "1 while the ACM runtime has acknowledged the registration of the participant, else 0.",
	}, nil)
	connected = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_acm_topic_connected",
		Help: "1 while a topic can be read and, if it is that of operations, written, else 0.",
	}, []string{"topic"})
	topicLag = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_acm_topic_lag_records",
		Help: "Records of a topic that are not done with.",
	}, []string{"topic"})
	pendingOrders = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_acm_pending_orders",
		Help: "Orders that wait until the runtime has sent the revision that they were made for.",
	}, nil)
	oldestOrder = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_acm_oldest_order_age_seconds",
		Help: "For how long the oldest order has neither succeeded nor failed; 0 if there is none.",
	}, nil)
	unsent = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "mlkeeper_acm_unsent_reports",
		Help: "Elements with an outcome or a state that the runtime does not know yet.",
	}, nil)
	acknowledged = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mlkeeper_acm_order_duration_seconds", Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600},
		Help: "Time from the arrival of an order until the broker has its acknowledgement, by order and result, per element.",
	}, []string{"order", "result"})
	registerMetrics sync.Once
)

// forgetGauges ends the series of a participant that has ended.
func forgetGauges() {
	for _, one := range []*prometheus.GaugeVec{registered, connected, topicLag, pendingOrders, oldestOrder, unsent} {
		one.Reset()
	}
}

// ServeMetrics registers the metrics; again without effect.
func ServeMetrics() {
	registerMetrics.Do(func() {
		ctrlmetrics.Registry.MustRegister(messagesReceived, messagesPublished, publishFailures, ordersDropped, ordersIgnored,
			stepsFailing, writesRefused, objectsUnreadable, panics, registered, connected, topicLag, pendingOrders, oldestOrder, unsent, acknowledged)
	})
}

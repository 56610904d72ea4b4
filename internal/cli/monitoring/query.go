package monitoring

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// scraped are the labels that Prometheus adds when it scrapes.
var scraped = []string{"job", "instance"}

// writer writes queries on the metrics of a catalog, and remembers what it does not have.
type writer struct {
	catalog  Catalog
	used     map[string]bool
	failures []error
}

func newWriter(c Catalog) *writer { return &writer{catalog: c, used: map[string]bool{}} }

func (w *writer) fail(format string, args ...any) {
	w.failures = append(w.failures, fmt.Errorf(format, args...))
}

func (w *writer) err() error { return errors.Join(w.failures...) }

// query is one series of a metric on its way to a query.
type query struct {
	w      *writer
	metric Metric
	// matchers are name, operator and value.
	matchers []string
}

// of begins a query on a metric.
func (w *writer) of(name string) query {
	m, found := w.catalog[name]
	if !found {
		w.fail("a query uses the metric %s, which is not registered", name)
	}
	w.used[name] = true
	return query{w: w, metric: m}
}

func (q query) has(label string) {
	if q.metric.Name != "" && !slices.Contains(q.metric.Labels, label) && !slices.Contains(scraped, label) {
		q.w.fail("a query uses the label %s of %s, which has %s", label, q.metric.Name, strings.Join(q.metric.Labels, ", "))
	}
}

// where restricts the series by a label; the operator is one of =, !=, =~ and !~.
func (q query) where(label, operator, value string) query {
	q.has(label)
	q.matchers = append(slices.Clone(q.matchers), fmt.Sprintf("%s%s%q", label, operator, value))
	return q
}

// kind restricts the series to the kind that the dashboard's variable chooses.
func (q query) kind() query { return q.where("kind", "=~", "$kind") }

func (q query) series(suffix string) string {
	out := q.metric.Name + suffix
	if len(q.matchers) > 0 {
		out += "{" + strings.Join(q.matchers, ",") + "}"
	}
	return out
}

// now is the value of a gauge.
func (q query) now() string {
	if q.metric.Type == Counter || q.metric.Type == Histogram {
		q.w.fail("the %s %s is used as a gauge", q.metric.Type, q.metric.Name)
	}
	return q.series("")
}

// rate is the growth of a counter per second.
func (q query) rate(window string) string { return q.growth("rate", window) }

// increase is the growth of a counter.
func (q query) increase(window string) string { return q.growth("increase", window) }

func (q query) growth(function, window string) string {
	if q.metric.Type != Counter && q.metric.Name != "" {
		q.w.fail("the %s %s is used as a counter", q.metric.Type, q.metric.Name)
	}
	return fmt.Sprintf("%s(%s[%s])", function, q.series(""), window)
}

// quantile is a quantile of a histogram by a label.
func (q query) quantile(at, window, label string) string {
	q.has(label)
	if q.metric.Type != Histogram && q.metric.Name != "" {
		q.w.fail("the %s %s is used as a histogram", q.metric.Type, q.metric.Name)
	}
	return fmt.Sprintf("histogram_quantile(%s, sum by (le, %s) (rate(%s[%s])))", at, label, q.series("_bucket"), window)
}

// by sums up an expression on this metric by labels.
func (q query) by(aggregation, expression string, labels ...string) string {
	for _, label := range labels {
		q.has(label)
	}
	return fmt.Sprintf("%s by (%s) (%s)", aggregation, strings.Join(labels, ", "), expression)
}

// longer is for how many seconds the oldest time of a gauge has passed, by labels, where these are more than a bound.
func (q query) longer(bound string, labels ...string) string {
	return "time() - " + q.by("min", q.now(), labels...) + " > " + bound
}

// ours restricts the series of a metric that other programs have too to the processes that are MLKeeper.
func (w *writer) ours(expression string) string {
	return fmt.Sprintf("(%s and on (%s) %s)", expression, strings.Join(scraped, ", "),
		w.of("mlkeeper_api_requests_total").series(""))
}

package monitoring

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Type is the type of a metric.
type Type string

// The types of metrics, as in the text format of Prometheus.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
	Summary   Type = "summary"
	Untyped   Type = "untyped"
)

// Metric is one registered metric.
type Metric struct {
	Name   string   `json:"name"`
	Type   Type     `json:"type"`
	Help   string   `json:"help"`
	Labels []string `json:"labels"`
}

// Catalog are the registered metrics by name.
type Catalog map[string]Metric

// Registry is what metrics are read from; the registry of controller-runtime is one.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
	prometheus.Collector
}

// description is how client_golang prints a descriptor, the only way to see what is in it.
var description = regexp.MustCompile(
	`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*")(?:, unit: "(?:[^"\\]|\\.)*")?, ` +
		`constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// Read reads what is registered. A metric that has never been observed is not gathered, but it is described.
func Read(registry Registry) (Catalog, error) {
	described := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(described)
		close(described)
	}()
	out := Catalog{}
	var failures []error
	for desc := range described {
		m, err := parse(desc.String())
		if err != nil {
			failures = append(failures, err)
			continue
		}
		out[m.Name] = m
	}
	gathered, err := registry.Gather()
	if err != nil {
		failures = append(failures, err)
	}
	observed := map[string]Type{}
	for _, family := range gathered {
		observed[family.GetName()] = Type(strings.ToLower(family.GetType().String()))
	}
	for name, m := range out {
		if m.Type = observed[name]; m.Type == "" {
			m.Type = typeOf(registry, m)
		}
		out[name] = m
	}
	return out, errors.Join(failures...)
}

func parse(text string) (Metric, error) {
	parts := description.FindStringSubmatch(text)
	if parts == nil {
		return Metric{}, fmt.Errorf("the descriptor %s has a form that is not known", text)
	}
	name, err := strconv.Unquote(parts[1])
	if err != nil {
		return Metric{}, fmt.Errorf("read the descriptor %s: %w", text, err)
	}
	help, err := strconv.Unquote(parts[2])
	if err != nil {
		return Metric{}, fmt.Errorf("read the descriptor %s: %w", text, err)
	}
	m := Metric{Name: name, Help: help, Labels: []string{}}
	for _, label := range append(strings.Split(parts[4], ","), constant(parts[3])...) {
		// A label with a constraint is printed as c(label).
		if label = strings.TrimSuffix(strings.TrimPrefix(label, "c("), ")"); label != "" {
			m.Labels = append(m.Labels, label)
		}
	}
	return m, nil
}

// constant are the names of constant labels, printed as name="value".
func constant(text string) []string {
	var out []string
	for _, pair := range regexp.MustCompile(`([a-zA-Z_]\w*)="(?:[^"\\]|\\.)*"`).FindAllStringSubmatch(text, -1) {
		out = append(out, pair[1])
	}
	return out
}

// typeOf asks the registry for the collector of a metric: a second one with the same descriptor is refused with the
// first. Descriptors do not hold the type.
func typeOf(registry prometheus.Registerer, m Metric) Type {
	twin := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
	err := registry.Register(twin)
	var registered prometheus.AlreadyRegisteredError
	if !errors.As(err, &registered) {
		if err == nil {
			registry.Unregister(twin)
		}
		return Untyped
	}
	switch registered.ExistingCollector.(type) {
	case *prometheus.CounterVec, prometheus.Counter:
		return Counter
	case prometheus.GaugeFunc, interface {
		// A GaugeVec, or what embeds one.
		GetMetricWith(prometheus.Labels) (prometheus.Gauge, error)
	}:
		return Gauge
	case *prometheus.HistogramVec:
		return Histogram
	case *prometheus.SummaryVec:
		return Summary
	}
	return Untyped
}

// List are the metrics in the order of their names, but for those of the Go runtime, which are others with every release
// of Go; the number of goroutines alone is always there.
func (c Catalog) List() []Metric {
	out := slices.Collect(maps.Values(c))
	out = slices.DeleteFunc(out, func(m Metric) bool { return strings.HasPrefix(m.Name, "go_") && m.Name != "go_goroutines" })
	slices.SortFunc(out, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	return out
}

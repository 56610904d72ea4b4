package monitoring

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
)

// TestAlertsCanBeRead expands the texts of each alert when it fires, as Prometheus does. A label that the alert does not have would be left out
// of them without a word.
func TestAlertsCanBeRead(t *testing.T) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: promQL})
	t.Cleanup(func() { _ = engine.Close() })
	broken := failures()
	// These are what Prometheus puts before each text.
	const definitions = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"
	for _, r := range rules(t) {
		w := well()
		if spoil := broken[r.Alert]; spoil != nil {
			spoil(w)
		}
		for _, sample := range fired(t, engine, r, w) {
			data := template.AlertTemplateData(sample.Metric.Map(), nil, "", promql.Sample{F: sample.F})
			for name, text := range r.Annotations {
				expander := template.NewTemplateExpander(t.Context(), definitions+text, "alert", data, model.TimeFromUnix(now.Unix()), nil, &url.URL{},
					[]string{"missingkey=error"})
				got, err := expander.Expand()
				if err != nil || strings.Contains(got, "{{") {
					t.Errorf("%s: the %s %q becomes %q: %v", r.Alert, name, text, got, err)
				}
			}
		}
	}
}

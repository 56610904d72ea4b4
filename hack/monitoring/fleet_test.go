package monitoring

import (
	"log/slog"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	engine "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// told has the series of a manager that is well, with what a story adds or takes away in each minute. A series that is not scraped any more ends
// with Prometheus' mark of that.
func told(t *testing.T, length time.Duration, change func(minute float64, w world)) storage.Queryable {
	t.Helper()
	all, before := map[string][]chunks.Sample{}, world{}
	for minute := range int(length.Minutes()) + 1 {
		w := well()
		change(float64(minute), w)
		at := now.Add(time.Duration(minute) * time.Minute).UnixMilli()
		for selector := range before {
			if _, there := w[selector]; !there {
				all[selector] = append(all[selector], sample{at: at, value: math.Float64frombits(value.StaleNaN)})
			}
		}
		for selector, v := range w {
			all[selector] = append(all[selector], sample{at: at, value: v.value + float64(minute)*v.growth})
		}
		before = w
	}
	return queryable(t, all)
}

// firing evaluates a rule every minute as Prometheus does, and returns the minute in which it fired first; negative if it never did.
func firing(t *testing.T, queries promql.QueryEngine, r rulefmt.Rule, series storage.Queryable, length time.Duration) int {
	t.Helper()
	expr, err := promQL.ParseExpr(r.Expr)
	if err != nil {
		t.Fatal(err)
	}
	rule := engine.NewAlertingRule(r.Alert, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor), labels.FromMap(r.Labels),
		labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
	for minute := range int(length.Minutes()) + 1 {
		at := now.Add(time.Duration(minute) * time.Minute)
		if _, err := rule.Eval(t.Context(), 0, at, engine.EngineQueryFunc(queries, series), nil, 0); err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		if slices.ContainsFunc(rule.ActiveAlerts(), func(a *engine.Alert) bool { return a.State == engine.StateFiring }) {
			return minute
		}
	}
	return -1
}

// set gives a series a value in a minute.
func (w world) set(selector string, value float64) { w[selector] = trend{value: value} }

// TestAlertsTellOneFromMany has a fleet of 2,000 custom resources: one that never stops is told, and many of which another one is busy each time
// are not.
func TestAlertsTellOneFromMany(t *testing.T) {
	const length = 3 * time.Hour
	begin := float64(now.Unix())
	queries := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: promQL})
	t.Cleanup(func() { _ = queries.Close() })
	for name, story := range map[string]struct {
		change func(minute float64, w world)
		// want has the minute from which on an alert fires.
		want map[string]int
	}{
		"one fails for ever, every five minutes": {func(minute float64, w world) {
			w.set(`mlkeeper_reconciles_total{kind="TrustyAIService",outcome="error"}`, math.Floor(minute/5))
			w.set(`mlkeeper_failing{kind="TrustyAIService"}`, 1)
			w.set(`mlkeeper_failing_since_timestamp_seconds{kind="TrustyAIService"}`, begin)
		}, map[string]int{"MLKeeperReconcileErrors": 15}},
		"another one fails each time": {func(minute float64, w world) {
			w.set(`mlkeeper_reconciles_total{kind="TrustyAIService",outcome="error"}`, 10*minute)
			w.set(`mlkeeper_failing{kind="TrustyAIService"}`, 1)
			w.set(`mlkeeper_failing_since_timestamp_seconds{kind="TrustyAIService"}`, begin+60*minute)
		}, nil},
		"one loops": {func(minute float64, w world) {
			w.set(`mlkeeper_ready{kind="TrustyAIService",status="True",reason="AllComponentsReady"}`, 2000)
			w.set(`mlkeeper_reconciles_total{kind="TrustyAIService",outcome="ready"}`, 60*minute)
			if minute >= 10 {
				w.set(`mlkeeper_continuous_reconciles_since_timestamp_seconds{kind="TrustyAIService"}`, begin)
			}
		}, map[string]int{"MLKeeperContinuousReconciles": 60}},
		"one is not Ready": {func(_ float64, w world) {
			w.set(`mlkeeper_ready{kind="TrustyAIService",status="False",reason="Progressing"}`, 1)
			w.set(`mlkeeper_not_ready_since_timestamp_seconds{kind="TrustyAIService",reason="Progressing"}`, begin)
		}, map[string]int{"MLKeeperNotReady": 30}},
		"another one progresses each time": {func(minute float64, w world) {
			w.set(`mlkeeper_ready{kind="TrustyAIService",status="False",reason="Progressing"}`, 1)
			w.set(`mlkeeper_not_ready_since_timestamp_seconds{kind="TrustyAIService",reason="Progressing"}`, begin+60*(minute-1))
		}, nil},
		"four objects are corrected in ten minutes, once each": {func(minute float64, w world) {
			w.set(`mlkeeper_drift_corrections_total{kind="Deployment"}`, math.Floor(0.4*minute))
		}, nil},
		"two writers disagree about an object, with pauses of five minutes": {func(minute float64, w world) {
			w.set(`mlkeeper_drift_corrections_total{kind="Deployment"}`, math.Floor(minute/5))
			w.set(`mlkeeper_most_drift_corrections{kind="Deployment"}`, 5+math.Floor(minute/5))
		}, map[string]int{"MLKeeperDriftLoop": 15}},
		"another client deletes an object whenever it was made": {func(minute float64, w world) {
			w.set(`mlkeeper_writes_total{kind="Deployment",verb="Create",reason="Missing"}`, math.Floor(minute/5))
			w.set(`mlkeeper_most_drift_corrections{kind="Deployment"}`, 5+math.Floor(minute/5))
		}, map[string]int{"MLKeeperDriftLoop": 15}},
		"reads with the rights of a tenant are refused": {func(minute float64, w world) {
			w.set(`rest_client_requests_total{code="403",method="GET",host="kubernetes"}`, 5*minute)
		}, nil},
		"the manager is away for two minutes in each hour": {func(minute float64, w world) {
			if math.Mod(minute, 60) >= 58 {
				clear(w)
			}
		}, nil},
		"the manager is up for one minute in five": {func(minute float64, w world) {
			if minute >= 20 && math.Mod(minute, 5) != 0 {
				clear(w)
			}
		}, map[string]int{"MLKeeperDown": 25}},
	} {
		series, left := told(t, length, story.change), maps.Clone(story.want)
		for _, r := range rules(t) {
			at := firing(t, queries, r, series, length)
			want, should := story.want[r.Alert]
			if !should && at >= 0 || should && (at < want || at > want+5) {
				t.Errorf("%s: %s fires in minute %d, want %d", name, r.Alert, at, want)
			}
			delete(left, r.Alert)
		}
		if len(left) > 0 {
			t.Errorf("%s: there are no alerts %v", name, left)
		}
	}
}

// TestAWeekIsNotBegunAnewByAGap has a custom resource that is suspended for a week, in which the manager changes every day: for two minutes
// there is no series of either.
func TestAWeekIsNotBegunAnewByAGap(t *testing.T) {
	const day, length = 24 * 60, 7*24*time.Hour + time.Hour
	queries := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: promQL})
	t.Cleanup(func() { _ = queries.Close() })
	series := told(t, length, func(minute float64, w world) {
		w.set(`mlkeeper_suspended{kind="TrustyAIService"}`, 1)
		if math.Mod(minute, day) >= day-2 {
			clear(w)
		}
	})
	for _, r := range rules(t) {
		if r.Alert != "MLKeeperSuspended" {
			continue
		}
		if at := firing(t, queries, r, series, length); at < 7*day || at > 7*day+5 {
			t.Errorf("%s fires in minute %d, want %d", r.Alert, at, 7*day)
		}
	}
}

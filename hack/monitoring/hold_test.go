package monitoring

import (
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	engine "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// healthy is how many minutes a story is well before it fails, and delay the longest time after which an expression sees the failure.
const (
	healthy = 20
	delay   = 15 * time.Minute
)

// story has the series of a world that is well, but for a failure that begins at now and ends. A series that is not scraped any more ends with
// Prometheus' mark of that.
func story(t *testing.T, spoil func(world), failure, length time.Duration) storage.Queryable {
	t.Helper()
	good, bad := well(), well()
	spoil(bad)
	all, scraped := map[string][]chunks.Sample{}, map[string]bool{}
	for minute := -healthy; minute <= int(length.Minutes()); minute++ {
		at, w, since := time.Duration(minute)*time.Minute, good, minute+healthy
		if at >= 0 && at < failure {
			w, since = bad, minute
		}
		add := func(selector string, v float64) {
			all[selector] = append(all[selector], sample{at: now.Add(at).UnixMilli(), value: v})
		}
		before := scraped
		scraped = map[string]bool{}
		for selector, v := range w {
			// What ends before now is away as long as the failure lasts.
			if v.last == 0 {
				scraped[selector] = true
				add(selector, v.value+float64(since)*v.growth)
			}
		}
		for selector := range before {
			if !scraped[selector] {
				add(selector, math.Float64frombits(value.StaleNaN))
			}
		}
	}
	return queryable(t, all)
}

// timeline evaluates a rule every minute as Prometheus does, and returns when it began to be pending, and to fire, after now: negative if never.
func timeline(t *testing.T, promql promql.QueryEngine, r rulefmt.Rule, series storage.Queryable, length time.Duration) (pending, firing time.Duration) {
	t.Helper()
	expr, err := promQL.ParseExpr(r.Expr)
	if err != nil {
		t.Fatal(err)
	}
	rule := engine.NewAlertingRule(r.Alert, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor), labels.FromMap(r.Labels),
		labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
	pending, firing = -1, -1
	for at := -healthy * time.Minute; at <= length; at += time.Minute {
		if _, err := rule.Eval(t.Context(), 0, now.Add(at), engine.EngineQueryFunc(promql, series), nil, 0); err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		active := rule.ActiveAlerts()
		if len(active) > 0 && at < 0 {
			t.Fatalf("%s is active before the failure", r.Alert)
		}
		if len(active) > 0 && pending < 0 {
			pending = at
		}
		if firing < 0 && slices.ContainsFunc(active, func(a *engine.Alert) bool { return a.State == engine.StateFiring }) {
			firing = at
		}
	}
	if len(rule.ActiveAlerts()) > 0 {
		t.Errorf("%s is still active %s after now", r.Alert, length)
	}
	return pending, firing
}

// window is the longest range over which an expression counts: a failure is seen so long after its end.
func window(t *testing.T, expr string) time.Duration {
	t.Helper()
	parsed, err := promQL.ParseExpr(expr)
	if err != nil {
		t.Fatal(err)
	}
	var longest time.Duration
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if over, ok := node.(*parser.SubqueryExpr); ok && strings.HasPrefix(expr, "max_over_time(") {
			longest = max(longest, over.Range)
		}
		if call, ok := node.(*parser.Call); ok && (call.Func.Name == "rate" || call.Func.Name == "increase") {
			longest = max(longest, call.Args[0].(*parser.MatrixSelector).Range)
		}
		return nil
	})
	return longest
}

// TestAlertsFireAfterTheirTime lets each failure last: its alert fires after the time that it holds and not before, and no longer than the failure
// is seen. A failure that is shorter fires nothing.
func TestAlertsFireAfterTheirTime(t *testing.T) {
	queries := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: promQL})
	t.Cleanup(func() { _ = queries.Close() })
	said := map[string]time.Duration{" for 30 minutes": 30 * time.Minute, " for an hour": time.Hour, " for a week": 7 * 24 * time.Hour}
	for _, r := range rules(t) {
		hold, spoil := time.Duration(r.For), failures()[r.Alert]
		lasting := hold + 2*delay
		length := lasting + window(t, r.Expr) + delay
		_, firing := timeline(t, queries, r, story(t, spoil, lasting, length), length)
		if firing < hold || firing > hold+delay {
			t.Errorf("%s fires after %s, and holds for %s", r.Alert, firing, hold)
		}
		for text, want := range said {
			if strings.Contains(r.Annotations["summary"], text) && hold != want {
				t.Errorf("%s says%s, and holds for %s", r.Alert, text, hold)
			}
		}
		// The last scrape of the failure is a minute before its end.
		short := hold - window(t, r.Expr) - 2*time.Minute
		if short <= 0 {
			continue
		}
		length = short + window(t, r.Expr) + delay
		if pending, firing := timeline(t, queries, r, story(t, spoil, short, length), length); firing >= 0 {
			t.Errorf("%s fires after %s of a failure of %s, seen after %s", r.Alert, firing, short, pending)
		}
	}
}

// TestHealthIsSilent evaluates every rule for two hours in which nothing is wrong: none is even pending.
func TestHealthIsSilent(t *testing.T) {
	queries := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: promQL})
	t.Cleanup(func() { _ = queries.Close() })
	series := story(t, func(world) {}, 0, 2*time.Hour)
	for _, r := range rules(t) {
		if pending, _ := timeline(t, queries, r, series, 2*time.Hour); pending >= 0 {
			t.Errorf("%s is pending after %s of health", r.Alert, pending)
		}
	}
}

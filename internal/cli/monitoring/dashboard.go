package monitoring

import (
	"encoding/json"
	"fmt"
	"strings"
)

// window is the range of rates on the dashboard; Grafana chooses it by the zoom and the scrape interval.
const window = "$__rate_interval"

// The width of a Grafana dashboard, and how high panels are.
const (
	fullWidth   = 24
	panelHeight = 8
	statHeight  = 4
)

// panel is one panel before it has its place.
type panel struct {
	title, description string
	// kind is stat or timeseries, unit one of Grafana's.
	kind, unit string
	width      int
	// stack piles the series up.
	stack   bool
	targets []target
	// steps colour a stat: value and colour.
	steps []step
}

type target struct{ expr, legend string }

type step struct {
	from  *float64
	color string
}

// section is a row of panels.
type section struct {
	title  string
	panels []panel
}

// Dashboard is a Grafana dashboard on the metrics of a catalog. Metrics of MLKeeper that no panel shows get one of their
// own, so that none is forgotten.
func Dashboard(c Catalog) ([]byte, error) {
	w := newWriter(c)
	sections := []section{w.overview(), w.systems(), w.work(), w.manager()}
	if rest := w.rest(); len(rest.panels) > 0 {
		sections = append(sections, rest)
	}
	if err := w.err(); err != nil {
		return nil, err
	}
	raw, err := json.MarshalIndent(map[string]any{
		"title": "MLKeeper", "uid": "mlkeeper", "tags": []string{"mlkeeper"}, "schemaVersion": 39, "version": 1,
		"description": "Made by make manifests from the metrics in the code; do not edit here.",
		"editable":    true, "refresh": "30s", "time": map[string]string{"from": "now-6h", "to": "now"},
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
			map[string]any{
				"name": "kind", "label": "Kind", "type": "query", "datasource": source(), "refresh": 2,
				"query": "label_values(" + w.of("mlkeeper_ready").series("") + ", kind)", "includeAll": true, "multi": true, "allValue": ".*",
			},
		}},
		"panels": place(sections),
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the dashboard: %w", err)
	}
	return append(raw, '\n'), nil
}

func source() map[string]string {
	return map[string]string{"type": "prometheus", "uid": "${datasource}"}
}

// place arranges the panels in rows.
func place(sections []section) []any {
	var out []any
	id, y := 0, 0
	next := func(content map[string]any, x, y, width, height int) {
		id++
		content["id"] = id
		content["gridPos"] = map[string]int{"x": x, "y": y, "w": width, "h": height}
		out = append(out, content)
	}
	for _, s := range sections {
		next(map[string]any{"type": "row", "title": s.title, "collapsed": false, "panels": []any{}}, 0, y, fullWidth, 1)
		y++
		x, height := 0, 0
		for _, p := range s.panels {
			if x+p.width > fullWidth {
				x, y, height = 0, y+height, 0
			}
			h := panelHeight
			if p.kind == "stat" {
				h = statHeight
			}
			next(p.json(), x, y, p.width, h)
			x, height = x+p.width, max(height, h)
		}
		y += height
	}
	return out
}

func (p panel) json() map[string]any {
	defaults := map[string]any{"unit": p.unit}
	var options map[string]any
	if p.kind == "stat" {
		defaults["color"] = map[string]string{"mode": "thresholds"}
		var steps []any
		for _, s := range p.steps {
			steps = append(steps, map[string]any{"value": s.from, "color": s.color})
		}
		defaults["thresholds"] = map[string]any{"mode": "absolute", "steps": steps}
		options = map[string]any{"colorMode": "value", "graphMode": "area", "reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}}}
	} else {
		mode := "none"
		if p.stack {
			mode = "normal"
		}
		defaults["custom"] = map[string]any{"fillOpacity": 10, "showPoints": "never", "stacking": map[string]string{"mode": mode}}
		defaults["min"] = 0
		options = map[string]any{
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom"},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		}
	}
	var targets []any
	for i, t := range p.targets {
		targets = append(targets, map[string]any{
			"refId": string(rune('A' + i)), "datasource": source(), "expr": t.expr, "legendFormat": t.legend,
		})
	}
	return map[string]any{
		"type": p.kind, "title": p.title, "description": p.description, "datasource": source(), "targets": targets,
		"fieldConfig": map[string]any{"defaults": defaults, "overrides": []any{}}, "options": options,
	}
}

// graph is a panel of one query by labels.
func graph(title, unit string, width int, q query, expr string, labels ...string) panel {
	var legend []string
	for _, label := range labels {
		legend = append(legend, "{{"+label+"}}")
	}
	return panel{
		title: title, description: q.metric.Help, kind: "timeseries", unit: unit, width: width,
		targets: []target{{expr, strings.Join(legend, " ")}},
	}
}

// number is a panel of one number; it turns red from the bound on, or green where that is good.
func number(title string, q query, expr string, bound float64, below, above string) panel {
	return panel{
		title: title, description: q.metric.Help, kind: "stat", unit: "short", width: 4, targets: []target{{expr, ""}},
		steps: []step{{nil, below}, {&bound, above}},
	}
}

func (w *writer) overview() section {
	ready, objects := w.of("mlkeeper_ready").kind(), w.of("mlkeeper_managed_objects").kind()
	writes, drift := w.of("mlkeeper_writes_total"), w.of("mlkeeper_drift_corrections_total")
	leader := w.of("leader_election_master_status").where("name", "=~", "mlkeeper.*")
	sum := func(expr string) string { return "sum(" + expr + ") or vector(0)" }
	return section{"Overview", []panel{
		number("Ready", ready, sum(ready.where("status", "=", "True").now()), 1, "text", "green"),
		number("Not Ready", ready, sum(ready.where("status", "!=", "True").now()), 1, "green", "red"),
		number("Objects that failed or are missing", objects, sum(objects.where("health", "=~", "Failed|Missing").now()), 1, "green", "red"),
		number("Writes in the last hour", writes, sum(writes.increase("1h")), 1, "green", "text"),
		number("Drift corrections in the last hour", drift, sum(drift.increase("1h")), 1, "green", "orange"),
		number("Leaders", leader, sum(leader.now()), 1, "red", "green"),
	}}
}

func (w *writer) systems() section {
	ready, objects := w.of("mlkeeper_ready").kind(), w.of("mlkeeper_managed_objects").kind()
	first := w.of("mlkeeper_time_to_ready_seconds").kind()
	notReady := ready.where("status", "!=", "True")
	times := graph("Time from creation to Ready", "s", 12, first, first.quantile("0.5", "1h", "kind"), "kind")
	times.targets[0].legend = "{{kind}} median"
	times.targets = append(times.targets, target{first.quantile("0.99", "1h", "kind"), "{{kind}} p99"})
	byReason := graph("Not Ready, by reason", "short", 12, notReady, ready.by("sum", notReady.now(), "kind", "reason"), "kind", "reason")
	byHealth := graph("Objects by health", "short", 12, objects, objects.by("sum", objects.now(), "kind", "health"), "kind", "health")
	byReason.stack, byHealth.stack = true, true
	since := w.of("mlkeeper_not_ready_since_timestamp_seconds").kind()
	verified := w.of("mlkeeper_last_full_sync_timestamp_seconds").kind()
	return section{"Systems", []panel{
		byReason, byHealth, times,
		graph("Since the leader verified everything", "s", 12, verified, "time() - "+verified.by("max", verified.now(), "kind"), "kind"),
		graph("Longest not Ready", "s", 12, since, "time() - "+since.by("min", since.now(), "kind", "reason"), "kind", "reason"),
	}}
}

func (w *writer) work() section {
	reconciles, writes := w.of("mlkeeper_reconciles_total").kind(), w.of("mlkeeper_writes_total")
	drift, requests := w.of("mlkeeper_drift_corrections_total"), w.of("mlkeeper_api_requests_total")
	failed, failing := w.of("mlkeeper_failed_writes_total"), w.of("mlkeeper_failing").kind()
	fails, busy := w.of("mlkeeper_failing_since_timestamp_seconds").kind(), w.of("mlkeeper_continuous_reconciles_since_timestamp_seconds").kind()
	repairs, jobs := w.of("mlkeeper_most_drift_corrections"), w.of("mlkeeper_failed_jobs_total").kind()
	causes := graph("Failed attempts by cause", "ops", 12, failed, failed.by("sum", failed.rate(window), "kind", "cause"), "cause", "kind")
	causes.description += " " + jobs.metric.Help
	causes.targets = append(causes.targets, target{jobs.by("sum", jobs.rate(window), "kind", "cause"), "{{cause}} jobs of {{kind}}"})
	return section{"Work", []panel{
		graph("Reconciles by outcome", "ops", 12, reconciles, reconciles.by("sum", reconciles.rate(window), "kind", "outcome"), "kind", "outcome"),
		graph("Writes", "ops", 12, writes, writes.by("sum", writes.rate(window), "kind", "verb", "reason"), "verb", "kind", "reason"),
		causes,
		graph("Drift corrections", "ops", 12, drift, drift.by("sum", drift.rate(window), "kind"), "kind"),
		graph("Most drift corrections of one object", "short", 12, repairs, repairs.by("max", repairs.now(), "kind"), "kind"),
		graph("Custom resources that fail", "short", 12, failing, failing.by("sum", failing.now(), "kind"), "kind"),
		graph("Longest failing", "s", 12, fails, "time() - "+fails.by("min", fails.now(), "kind"), "kind"),
		graph("Longest reconciled continuously", "s", 12, busy, "time() - "+busy.by("min", busy.now(), "kind"), "kind"),
		graph("Requests to the API server", "reqps", 12, requests,
			requests.by("sum", requests.rate(window), "verb", "group", "resource"), "verb", "resource", "group"),
	}}
}

func (w *writer) manager() section {
	depth, waits := w.of("workqueue_depth"), w.of("workqueue_queue_duration_seconds")
	answers, errors := w.of("rest_client_requests_total"), w.of("controller_runtime_reconcile_errors_total")
	memory, cpu := w.of("process_resident_memory_bytes"), w.of("process_cpu_seconds_total")
	goroutines, leader := w.of("go_goroutines"), w.of("leader_election_master_status").where("name", "=~", "mlkeeper.*")
	shards := w.of("mlkeeper_shard_held")
	p99 := fmt.Sprintf("histogram_quantile(0.99, sum by (le, name) %s)",
		w.ours(fmt.Sprintf("rate(%s[%s])", waits.series("_bucket"), window)))
	waits.has("name")
	return section{"Manager", []panel{
		graph("Queue depth", "short", 8, depth, depth.by("max", w.ours(depth.now()), "name"), "name"),
		graph("Time in the queue, p99", "s", 8, waits, p99, "name"),
		graph("Reconciles that returned an error", "ops", 8, errors, errors.by("sum", w.ours(errors.rate(window)), "controller"), "controller"),
		graph("Answers of the API server", "reqps", 8, answers, answers.by("sum", w.ours(answers.rate(window)), "code", "method"), "method", "code"),
		graph("Memory", "bytes", 8, memory, w.ours(memory.now()), "instance"),
		graph("CPU", "short", 8, cpu, w.ours(cpu.rate(window)), "instance"),
		graph("Goroutines", "short", 8, goroutines, w.ours(goroutines.now()), "instance"),
		graph("Leader", "short", 8, leader, leader.by("max", leader.now(), "name", "instance"), "instance", "name"),
		graph("Shards held", "short", 8, shards, shards.by("sum", shards.now(), "instance"), "instance"),
	}}
}

// rest are the metrics of MLKeeper that no panel above shows.
func (w *writer) rest() section {
	out := section{title: "More"}
	for _, m := range w.catalog.List() {
		if !strings.HasPrefix(m.Name, "mlkeeper_") || w.used[m.Name] {
			continue
		}
		q := w.of(m.Name)
		var expr string
		switch {
		case m.Type == Counter:
			expr = q.rate(window)
		case m.Type == Histogram && len(m.Labels) > 0:
			out.panels = append(out.panels, graph(m.Name+", p99", "short", 12, q, q.quantile("0.99", window, m.Labels[0]), m.Labels[0]))
			continue
		default:
			expr = q.series("")
		}
		if len(m.Labels) > 0 {
			expr = q.by("sum", expr, m.Labels...)
		}
		out.panels = append(out.panels, graph(m.Name, "short", 12, q, expr, m.Labels...))
	}
	return out
}

package monitoring

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// registered is a registry with metrics of every type, none of them observed.
func registered(t *testing.T) Catalog {
	t.Helper()
	r := prometheus.NewRegistry()
	counter := func(name string, labels ...string) prometheus.Collector {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: `It "counts", {all}: of them.`}, labels)
	}
	gauge := func(name string, labels ...string) prometheus.Collector {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: "help"}, labels)
	}
	histogram := func(name string, labels ...string) prometheus.Collector {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: "help"}, labels)
	}
	r.MustRegister(
		counter("mlkeeper_reconciles_total", "kind", "outcome"), counter("mlkeeper_writes_total", "kind", "verb", "reason"),
		counter("mlkeeper_failed_writes_total", "kind", "cause"), counter("mlkeeper_failed_jobs_total", "kind", "cause"),
		counter("mlkeeper_drift_corrections_total", "kind"), counter("mlkeeper_api_requests_total", "verb", "group", "resource"),
		gauge("mlkeeper_managed_objects", "kind", "health"), gauge("mlkeeper_ready", "kind", "status", "reason"),
		gauge("mlkeeper_suspended", "kind"), gauge("mlkeeper_failing", "kind"), gauge("mlkeeper_most_drift_corrections", "kind"),
		gauge("mlkeeper_not_ready_since_timestamp_seconds", "kind", "reason"), gauge("mlkeeper_failing_since_timestamp_seconds", "kind"),
		gauge("mlkeeper_continuous_reconciles_since_timestamp_seconds", "kind"), counter("mlkeeper_refused_watches_total", "group", "resource"),
		gauge("mlkeeper_rollout_started_timestamp_seconds", "holder"), gauge("mlkeeper_shard_held", "shard"),
		gauge("mlkeeper_last_full_sync_timestamp_seconds", "kind"), histogram("mlkeeper_time_to_ready_seconds", "kind"),
		gauge("leader_election_master_status", "name"), counter("controller_runtime_reconcile_panics_total", "controller"),
		counter("controller_runtime_reconcile_errors_total", "controller"), gauge("workqueue_depth", "name"),
		histogram("workqueue_queue_duration_seconds", "name"), counter("rest_client_requests_total", "code", "method"),
		gauge("mlkeeper_acm_registered"), gauge("mlkeeper_acm_topic_connected", "topic"), gauge("mlkeeper_acm_topic_lag_records", "topic"),
		gauge("mlkeeper_acm_pending_orders"), gauge("mlkeeper_acm_oldest_order_age_seconds"), gauge("mlkeeper_acm_unsent_reports"),
		gauge("mlkeeper_acm_failing_steps"),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		// Nobody made a panel for these.
		counter("mlkeeper_new_total", "flavour"), histogram("mlkeeper_new_seconds", "flavour"), gauge("mlkeeper_new"),
	)
	c, err := Read(r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReadKnowsWhatWasNeverObserved(t *testing.T) {
	c := registered(t)
	for name, want := range map[string]Type{
		"mlkeeper_reconciles_total": Counter, "mlkeeper_ready": Gauge, "mlkeeper_time_to_ready_seconds": Histogram,
		"process_cpu_seconds_total": Counter, "go_goroutines": Gauge,
	} {
		if c[name].Type != want {
			t.Errorf("%s is a %s", name, c[name].Type)
		}
	}
	m := c["mlkeeper_reconciles_total"]
	if m.Help != `It "counts", {all}: of them.` || strings.Join(m.Labels, " ") != "kind outcome" {
		t.Errorf("%+v", m)
	}
	for _, m := range c.List() {
		if strings.HasPrefix(m.Name, "go_") && m.Name != "go_goroutines" {
			t.Errorf("%s is others with another release of Go", m.Name)
		}
	}
	if _, err := parse("Desc{something else}"); err == nil {
		t.Error("a descriptor of another form is understood")
	}
	if m, err := parse(`Desc{fqName: "n", help: "", unit: "", constLabels: {a="x,y"}, variableLabels: {b,c(d)}}`); err != nil ||
		strings.Join(m.Labels, " ") != "b d a" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestQueriesOnWhatDoesNotExistAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(Catalog){
		"the metric mlkeeper_not_ready_since_timestamp_seconds": func(c Catalog) { delete(c, "mlkeeper_not_ready_since_timestamp_seconds") },
		"the label reason of mlkeeper_not_ready_since_timestamp_seconds": func(c Catalog) {
			m := c["mlkeeper_not_ready_since_timestamp_seconds"]
			m.Labels = []string{"kind"}
			c["mlkeeper_not_ready_since_timestamp_seconds"] = m
		},
		"the gauge mlkeeper_writes_total is used as a counter": func(c Catalog) {
			m := c["mlkeeper_writes_total"]
			m.Type = Gauge
			c["mlkeeper_writes_total"] = m
		},
	} {
		c := registered(t)
		spoil(c)
		_, rules := Alerts(c, []string{"DuplicateService"}, Runbooks)
		_, dashboard := Dashboard(c)
		for _, err := range []error{rules, dashboard} {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestNoAlertIsAboutWhatNeverWas shows that no alert fires where nothing scrapes the manager, or it is not there yet: absent()
// cannot tell these from a manager that is gone. hack/monitoring evaluates the rules.
func TestNoAlertIsAboutWhatNeverWas(t *testing.T) {
	groups, err := Alerts(registered(t), []string{"Invalid"}, Runbooks)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if strings.Contains(r.Expr, "absent") {
				t.Errorf("%s: %s", r.Alert, r.Expr)
			}
		}
	}
}

// TestRunbooksAreWhereTheyAreSaidToBe holds that a company which serves the pages itself can have the alerts link to its own copy.
func TestRunbooksAreWhereTheyAreSaidToBe(t *testing.T) {
	const page = "https://docs.example.com/runbooks.html"
	groups, err := Alerts(registered(t), []string{"Invalid"}, page)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if want := page + "#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
				t.Errorf("%s: the runbook is at %q and should be at %q", r.Alert, r.Annotations["runbook_url"], want)
			}
		}
	}
}

func TestDashboard(t *testing.T) {
	raw, err := Dashboard(registered(t))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	ids, taken, titles := map[int]bool{}, map[[2]int]string{}, map[string]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= fullWidth {
					t.Fatalf("%q lies on %q, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if len(p.Targets) > 0 {
			titles[p.Title] = p.Targets[0].Expr
		}
		if len(p.Targets) > 1 {
			titles[p.Title+", second"] = p.Targets[1].Expr
		}
	}
	for title, want := range map[string]string{
		"Failed attempts by cause":         "sum by (kind, cause) (rate(mlkeeper_failed_writes_total[$__rate_interval]))",
		"Failed attempts by cause, second": "sum by (kind, cause) (rate(mlkeeper_failed_jobs_total{kind=~\"$kind\"}[$__rate_interval]))",
		"mlkeeper_new_total":               "sum by (flavour) (rate(mlkeeper_new_total[$__rate_interval]))",
		"mlkeeper_new":                     "mlkeeper_new",
		"mlkeeper_new_seconds, p99":        "histogram_quantile(0.99, sum by (le, flavour) (rate(mlkeeper_new_seconds_bucket[$__rate_interval])))",
	} {
		if titles[title] != want {
			t.Errorf("the panel %s has %q", title, titles[title])
		}
	}
}

// TestALongHoldSurvivesTheChangeOfAManager: the manager restarts more often than once in so many days, and between the series of the two is a gap.
// hack/monitoring evaluates the rules over one.
func TestALongHoldSurvivesTheChangeOfAManager(t *testing.T) {
	groups, err := Alerts(registered(t), []string{"Invalid"}, Runbooks)
	if err != nil {
		t.Fatal(err)
	}
	long := 0
	for _, g := range groups {
		for _, r := range g.Rules {
			if !strings.HasSuffix(r.For, "d") {
				continue
			}
			long++
			if !strings.HasPrefix(r.Expr, "max_over_time((") {
				t.Errorf("%s: one evaluation without a series begins the %s anew: %s", r.Alert, r.For, r.Expr)
			}
		}
	}
	if long == 0 {
		t.Error("no alert holds for days")
	}
}

// TestNoAlertAddsUpAFleet: the reconciles and corrections of a kind say nothing about one of its custom resources, whose number nobody knows.
func TestNoAlertAddsUpAFleet(t *testing.T) {
	groups, err := Alerts(registered(t), []string{"Invalid"}, Runbooks)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			for _, sum := range []string{"mlkeeper_reconciles_total", "mlkeeper_drift_corrections_total", "mlkeeper_ready{", "rest_client_requests_total"} {
				if strings.Contains(r.Expr, sum) {
					t.Errorf("%s: %s", r.Alert, r.Expr)
				}
			}
		}
	}
}

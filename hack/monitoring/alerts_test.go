package monitoring

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// sample is one value at one time.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// now is when alerts are evaluated, and the scrapes are one a minute in the two hours before it.
var now = time.Unix(100_000, 0)

const scrapes = 120

// world holds time series by their selectors.
type world map[string]trend

// trend is a value, and by how much it grows in a minute.
type trend struct {
	value, growth float64
	// first and last are the scrapes, counted back from now, that have the series; all of them if both are zero.
	first, last int
}

// queryable answers queries with the series of a world.
func (w world) queryable(t *testing.T) storage.Queryable {
	t.Helper()
	all := map[string][]chunks.Sample{}
	for selector, v := range w {
		for i := range scrapes {
			if ago := scrapes - 1 - i; ago < v.last || v.first > 0 && ago > v.first {
				continue
			}
			all[selector] = append(all[selector], sample{
				at:    now.Add(time.Duration(i-scrapes+1) * time.Minute).UnixMilli(),
				value: v.value + float64(i)*v.growth,
			})
		}
	}
	return queryable(t, all)
}

// queryable answers queries with samples, by the selectors of their series.
func queryable(t *testing.T, samples map[string][]chunks.Sample) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for selector, list := range samples {
		lset, err := promQL.ParseMetric(selector)
		if err != nil {
			t.Fatal(err)
		}
		lset = labels.NewBuilder(lset).Set("job", "mlkeeper").Set("instance", "a").Labels()
		all = append(all, storage.NewListSeries(lset, list))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			var found []storage.Series
			for _, s := range all {
				if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
					found = append(found, s)
				}
			}
			return &seriesSet{left: found}
		},
	}}
}

// seriesSet hands out series one by one.
type seriesSet struct {
	at   storage.Series
	left []storage.Series
}

// Next implements storage.SeriesSet.
func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series              { return s.at }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// fires evaluates the expression of an alert.
func fires(t *testing.T, engine *promql.Engine, r rulefmt.Rule, w world) bool {
	t.Helper()
	return len(fired(t, engine, r, w)) > 0
}

// fired are the series for which an alert fires.
func fired(t *testing.T, engine *promql.Engine, r rulefmt.Rule, w world) promql.Vector {
	t.Helper()
	q, err := engine.NewInstantQuery(t.Context(), w.queryable(t), nil, r.Expr, now)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	result := q.Exec(t.Context())
	vector, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", r.Alert, err)
	}
	return slices.Clone(vector)
}

// well is a manager with nothing to do.
func well() world {
	return world{
		`mlkeeper_api_requests_total{verb="WATCH",group="apps",resource="deployments"}`:    {value: 5},
		`mlkeeper_ready{kind="TrustyAIService",status="True",reason="AllComponentsReady"}`: {value: 3},
		`mlkeeper_ready{kind="TrustyAIService",status="False",reason="DuplicateService"}`:  {value: 0},
		`mlkeeper_suspended{kind="TrustyAIService"}`:                                       {value: 0},
		`mlkeeper_failing{kind="TrustyAIService"}`:                                         {value: 0},
		`mlkeeper_most_drift_corrections{kind="Deployment"}`:                               {value: 1},
		`mlkeeper_refused_watches_total{group="apps",resource="deployments"}`:              {value: 1},
		`mlkeeper_managed_objects{kind="TrustyAIService",health="Current"}`:                {value: 15},
		`mlkeeper_managed_objects{kind="TrustyAIService",health="Failed"}`:                 {value: 0},
		`mlkeeper_reconciles_total{kind="TrustyAIService",outcome="ready"}`:                {value: 9},
		`mlkeeper_reconciles_total{kind="TrustyAIService",outcome="error"}`:                {value: 2},
		`mlkeeper_writes_total{kind="Deployment",verb="Create",reason="Missing"}`:          {value: 3, growth: 10},
		`mlkeeper_writes_total{kind="Deployment",verb="Apply",reason="DriftDetected"}`:     {value: 1},
		`mlkeeper_drift_corrections_total{kind="Deployment"}`:                              {value: 1},
		`leader_election_master_status{name="mlkeeper.keeper.mlkeeper.dev"}`:               {value: 1},
		`mlkeeper_shard_held{shard="0"}`:                                                   {value: 1},
		`mlkeeper_shard_held{shard="1"}`:                                                   {value: 1},
		`controller_runtime_reconcile_panics_total{controller="trustyai"}`:                 {value: 0},
		`workqueue_depth{name="trustyai",controller="trustyai",priority="0"}`:              {value: 1},
		`rest_client_requests_total{code="200",method="GET",host="kubernetes"}`:            {value: 9, growth: 1},
		`leader_election_master_status{name="another-operator"}`:                           {value: 0},
		`mlkeeper_acm_registered`:                                                          {value: 1},
		`mlkeeper_acm_topic_connected{topic="acm-ppnt-sync"}`:                              {value: 1},
		`mlkeeper_acm_topic_lag_records{topic="acm-ppnt-sync"}`:                            {value: 2},
		`mlkeeper_acm_pending_orders`:                                                      {value: 0},
		`mlkeeper_acm_oldest_order_age_seconds`:                                            {value: 30},
		`mlkeeper_acm_unsent_reports`:                                                      {value: 0},
		`mlkeeper_acm_failing_steps`:                                                       {value: 0},
	}
}

// between leaves of all series what was scraped between so many scrapes ago; zero is the beginning, or now.
func (w world) between(first, last int) {
	for selector, v := range w {
		v.first, v.last = first, last
		w[selector] = v
	}
}

// TestAFreshInstallationPagesNothing looks at what Prometheus has before and after MLKeeper is installed: nothing, since
// nothing scrapes it or it is not there yet, or the series of a manager that has just come up with nothing declared.
func TestAFreshInstallationPagesNothing(t *testing.T) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: promQL})
	t.Cleanup(func() { _ = engine.Close() })
	young := world{}
	for selector, v := range well() {
		if !strings.Contains(selector, "kind=") {
			young[selector] = v
		}
	}
	young.between(2, 0)
	for name, w := range map[string]world{"nothing is scraped": {}, "the first scrapes": young} {
		for _, r := range rules(t) {
			if fires(t, engine, r, w) {
				t.Errorf("%s: %s fires: %s", name, r.Alert, r.Expr)
			}
		}
	}
}

// failures break a world that is well, in one way for each alert.
func failures() map[string]func(world) {
	set := func(selector string, value, growth float64) func(world) {
		return func(w world) { w[selector] = trend{value: value, growth: growth} }
	}
	return map[string]func(world){
		"MLKeeperNotReady":                 set(`mlkeeper_not_ready_since_timestamp_seconds{kind="TrustyAIService",reason="VolumeNotFound"}`, -7200, 0),
		"MLKeeperStalled":                  set(`mlkeeper_not_ready_since_timestamp_seconds{kind="TrustyAIService",reason="DuplicateService"}`, -7200, 0),
		"MLKeeperObjectFailed":             set(`mlkeeper_managed_objects{kind="TrustyAIService",health="Failed"}`, 1, 0),
		"MLKeeperRolloutOverdue":           set(`mlkeeper_rollout_started_timestamp_seconds{holder="team-a"}`, -3600, 0),
		"MLKeeperSuspended":                set(`mlkeeper_suspended{kind="TrustyAIService"}`, 1, 0),
		"MLKeeperDriftLoop":                set(`mlkeeper_most_drift_corrections{kind="Deployment"}`, 5, 0),
		"MLKeeperDown":                     func(w world) { w.between(0, 12) },
		"MLKeeperNoLeader":                 set(`leader_election_master_status{name="mlkeeper.keeper.mlkeeper.dev"}`, 0, 0),
		"MLKeeperShardNotHeld":             set(`mlkeeper_shard_held{shard="1"}`, 0, 0),
		"MLKeeperReconcileErrors":          set(`mlkeeper_failing_since_timestamp_seconds{kind="TrustyAIService"}`, -7200, 0),
		"MLKeeperPanics":                   set(`controller_runtime_reconcile_panics_total{controller="trustyai"}`, 0, 1),
		"MLKeeperContinuousWrites":         set(`mlkeeper_writes_total{kind="Deployment",verb="Apply",reason="DriftDetected"}`, 0, 6),
		"MLKeeperContinuousReconciles":     set(`mlkeeper_continuous_reconciles_since_timestamp_seconds{kind="TrustyAIService"}`, -7200, 0),
		"MLKeeperQueueDepth":               set(`workqueue_depth{name="trustyai",controller="trustyai",priority="0"}`, 400, 0),
		"MLKeeperParticipantNotRegistered": set(`mlkeeper_acm_registered`, 0, 0),
		"MLKeeperParticipantDisconnected":  set(`mlkeeper_acm_topic_connected{topic="acm-ppnt-sync"}`, 0, 0),
		"MLKeeperParticipantBehind":        set(`mlkeeper_acm_topic_lag_records{topic="acm-ppnt-sync"}`, 500, 0),
		"MLKeeperParticipantBlocked":       set(`mlkeeper_acm_failing_steps`, 1, 0),
		"MLKeeperOrdersPending":            set(`mlkeeper_acm_pending_orders`, 1, 0),
		"MLKeeperOrderOverdue":             set(`mlkeeper_acm_oldest_order_age_seconds`, 3600, 0),
		"MLKeeperReportsUnsent":            set(`mlkeeper_acm_unsent_reports`, 1, 0),
		"MLKeeperWatchMissing":             set(`mlkeeper_refused_watches_total{group="",resource="pods"}`, 0, 1),
	}
}

// TestAlertsFireWhenTheyShould breaks a world that is well in one way for each alert.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	all := rules(t)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, Parser: promQL})
	t.Cleanup(func() { _ = engine.Close() })
	for _, r := range all {
		if fires(t, engine, r, well()) {
			t.Errorf("%s fires while all is well", r.Alert)
		}
	}
	broken := failures()
	for _, r := range all {
		spoil, known := broken[r.Alert]
		if !known {
			t.Errorf("no test makes %s fire: add one", r.Alert)
			continue
		}
		w := well()
		spoil(w)
		if !fires(t, engine, r, w) {
			t.Errorf("%s does not fire: %s", r.Alert, r.Expr)
		}
		// One cause, one alert.
		for _, other := range all {
			if other.Alert != r.Alert && fires(t, engine, other, w) {
				t.Errorf("%s fires together with %s", other.Alert, r.Alert)
			}
		}
		delete(broken, r.Alert)
	}
	for name := range broken {
		t.Errorf("there is no alert %s", name)
	}
}

package monitoring

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

const folder = "../../config/monitoring"

func read(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatalf("%v: run make manifests", err)
	}
	return raw
}

// metric is one line of metrics.json, which mlkeeper itself writes from its registry.
type metric struct {
	Name, Type string
	Labels     []string
}

func metrics(t *testing.T) map[string]metric {
	t.Helper()
	var list []metric
	if err := json.Unmarshal(read(t, "metrics.json"), &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]metric{}
	for _, m := range list {
		out[m.Name] = m
	}
	if len(out) < 20 {
		t.Fatalf("metrics.json has %d metrics only", len(out))
	}
	return out
}

var promQL = parser.NewParser(parser.Options{})

// rules reads the file of rules as Prometheus does.
func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse(read(t, "rules.yaml"), false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		t.FailNow()
	}
	var out []rulefmt.Rule
	for _, group := range groups.Groups {
		out = append(out, group.Rules...)
	}
	return out
}

// panels are the queries of the dashboard by the titles of their panels.
func panels(t *testing.T) map[string][]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	if err := json.Unmarshal(read(t, "dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, p := range dashboard.Panels {
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q has no query", p.Title)
		}
		for _, target := range p.Targets {
			out[p.Title] = append(out[p.Title], target.Expr)
		}
	}
	values := regexp.MustCompile(`^label_values\((.*), *(\w+)\)$`)
	for _, v := range dashboard.Templating.List {
		if parts := values.FindStringSubmatch(v.Query); parts != nil {
			out["variable "+v.Name] = []string{"sum by (" + parts[2] + ") (" + parts[1] + ")"}
		}
	}
	return out
}

// TestQueriesUseWhatExists checks every metric and label of every panel and rule.
func TestQueriesUseWhatExists(t *testing.T) {
	known := metrics(t)
	used := map[string]bool{}
	for title, queries := range panels(t) {
		for _, q := range queries {
			check(t, "panel "+title, grafana(q), known, used)
		}
	}
	for _, r := range rules(t) {
		check(t, "alert "+r.Alert, r.Expr, known, used)
	}
	for name := range known {
		if strings.HasPrefix(name, "mlkeeper_") && !used[name] {
			t.Errorf("no panel and no rule uses %s", name)
		}
	}
}

// grafana puts values where Grafana does.
func grafana(query string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$kind", ".*").Replace(query)
}

// scraped are the labels that Prometheus adds.
var scraped = []string{"job", "instance"}

// series finds the metric of a name, which for a histogram may have an ending, with the labels that its series have.
func series(name string, known map[string]metric) (m metric, bucket, found bool) {
	if m, found = known[name]; found {
		return m, false, true
	}
	for _, ending := range []string{"_bucket", "_sum", "_count"} {
		if m, found = known[strings.TrimSuffix(name, ending)]; found && strings.HasSuffix(name, ending) && m.Type == "histogram" {
			return m, ending == "_bucket", true
		}
	}
	return metric{}, false, false
}

func check(t *testing.T, where, query string, known map[string]metric, used map[string]bool) {
	t.Helper()
	expr, err := promQL.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v:\n%s", where, err, query)
		return
	}
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			m, bucket, found := series(n.Name, known)
			if !found {
				t.Errorf("%s: there is no metric %q", where, n.Name)
				return nil
			}
			used[m.Name] = true
			for _, matcher := range n.LabelMatchers {
				if matcher.Name != model.MetricNameLabel && !has(m, bucket, matcher.Name) {
					t.Errorf("%s: %s has no label %q", where, n.Name, matcher.Name)
				}
			}
			grown := slices.ContainsFunc(path, func(p parser.Node) bool {
				call, ok := p.(*parser.Call)
				return ok && (call.Func.Name == "rate" || call.Func.Name == "increase")
			})
			counts := m.Type == "counter" || m.Type == "histogram"
			// A counter that is only asked for its existence is compared with nothing.
			existence := slices.ContainsFunc(path, func(p parser.Node) bool {
				call, ok := p.(*parser.Call)
				binary, isBinary := p.(*parser.BinaryExpr)
				return ok && call.Func.Name == "present_over_time" ||
					isBinary && (binary.Op == parser.LAND || binary.Op == parser.LUNLESS) || strings.HasPrefix(where, "panel variable")
			})
			if grown != counts && !existence {
				t.Errorf("%s: %s is a %s, and used otherwise", where, n.Name, m.Type)
			}
		case *parser.AggregateExpr:
			for _, label := range n.Grouping {
				if !reaches(n.Expr, known, label) {
					t.Errorf("%s: nothing below has the label %q: %s", where, label, n)
				}
			}
		}
		return nil
	})
}

func has(m metric, bucket bool, label string) bool {
	return slices.Contains(m.Labels, label) || slices.Contains(scraped, label) || bucket && label == "le"
}

// reaches says that a series below an aggregation has a label.
func reaches(expr parser.Expr, known map[string]metric, label string) bool {
	out := false
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if n, ok := node.(*parser.VectorSelector); ok {
			m, bucket, found := series(n.Name, known)
			out = out || found && has(m, bucket, label)
		}
		return nil
	})
	return out
}

// TestBothFilesOfRulesAreTheSame compares the rules of Prometheus with the object of its operator.
func TestBothFilesOfRulesAreTheSame(t *testing.T) {
	var object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Spec       any
	}
	var plain any
	if err := yaml.Unmarshal(read(t, "prometheusrule.yaml"), &object); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(read(t, "rules.yaml"), &plain); err != nil {
		t.Fatal(err)
	}
	a, err := yaml.Marshal(object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	b, err := yaml.Marshal(plain)
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) || object.Kind != "PrometheusRule" || object.APIVersion != "monitoring.coreos.com/v1" {
		t.Error("prometheusrule.yaml and rules.yaml differ")
	}
}

// runbooks is where the alerts say that their runbooks are: docs/operations.md, as make docs writes it.
const runbooks = "https://mlkeeper.dev/docs/operations.html"

// TestEveryAlertHasARunbook looks for a heading of each alert, and for alerts of each heading. A link is absolute, since Alertmanager and
// Grafana show it to people who have no copy of this repository.
func TestEveryAlertHasARunbook(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := map[string]bool{}
	for _, h := range regexp.MustCompile(`(?m)^### (MLKeeper\w+)$`).FindAllStringSubmatch(string(page), -1) {
		headings[h[1]] = true
	}
	for _, r := range rules(t) {
		if want := runbooks + "#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: the runbook is %q and should be %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if !headings[r.Alert] {
			t.Errorf("docs/operations.md has no section %s", r.Alert)
		}
		for _, name := range []string{"summary", "description"} {
			if r.Annotations[name] == "" {
				t.Errorf("%s has no %s", r.Alert, name)
			}
		}
		delete(headings, r.Alert)
	}
	for h := range headings {
		t.Errorf("docs/operations.md has a section on %s, which is no alert", h)
	}
}

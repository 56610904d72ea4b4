package faults

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/fixture"
)

var flags struct {
	long, stop                         bool
	seed                               int64
	campaigns, workloads, plan, report string
	limit, parallel                    int
	folder                             string
	patience, settle, window           time.Duration
	table                              string
}

func init() {
	flag.BoolVar(&flags.long, "faults.long", false, "run every campaign over every workload")
	flag.Int64Var(&flags.seed, "faults.seed", 1, "what decides the samples; 0 for the time")
	flag.StringVar(&flags.campaigns, "faults.campaigns", "", "campaigns to run, such as C1,C5; empty for all")
	flag.StringVar(&flags.workloads, "faults.workloads", "", "regular expression of workloads, as kind/workload")
	flag.IntVar(&flags.limit, "faults.limit", 0, "most plans per campaign; 0 leaves it to the form")
	flag.IntVar(&flags.parallel, "faults.parallel", 6, "plans that run at once")
	flag.DurationVar(&flags.patience, "faults.patience", time.Minute, "how long after its last fault a plan may take to its end")
	flag.DurationVar(&flags.settle, "faults.settle", 6*time.Second, "how long a cause stands before its operator is watched")
	flag.DurationVar(&flags.window, "faults.window", 6*time.Second, "how long an operator is watched while a cause stands")
	flag.StringVar(&flags.table, "faults.table", "", "file that the table of the standing causes is written to, as Markdown")
	flag.BoolVar(&flags.stop, "faults.stop", false, "stop at the first plan that fails")
	flag.StringVar(&flags.plan, "faults.plan", "", "files of the plans that TestReplay runs, separated by commas")
	flag.StringVar(&flags.report, "faults.report", "", "file that a report is written to, as JSON")
	flag.StringVar(&flags.folder, "faults.folder", "", "folder of the files of failed plans; the default is bin/faults")
}

// TestMain makes room for the pods of all plans that run at once, and of those whose namespaces are about to go.
func TestMain(m *testing.M) {
	// Every kind of child is served that needs no controller to be of use, so that every child can be made.
	cluster.Main(m, fixture.CRDs(), cluster.WithCRDs("gateway", "keda", "istio", "knative"), cluster.WithFlags("--node-size=cpu=16,memory=64Gi,pods=1000"))
}

// kinds are all kinds that are tested; one joins here.
func kinds() []*Kind {
	return []*Kind{trustyAI(), tfserv(), kfDef(), compositionElement(), seldonOperator()}
}

// known are the references that tests have learned. They are the same for all.
var known = map[string]*learned{}

func newSuite(t *testing.T) *Suite {
	t.Helper()
	c := cluster.Shared(t)
	c.InstallCRDs(t)
	cfg := Config{
		Seed: flags.seed, Long: flags.long, Limit: flags.limit, Parallel: flags.parallel, Stop: flags.stop,
		Folder: flags.folder, Patience: flags.patience, Settle: flags.settle, Window: flags.window, Log: t.Logf,
	}
	if cfg.Seed == 0 {
		cfg.Seed = time.Now().UnixNano()
	}
	if flags.campaigns != "" {
		cfg.Campaigns = strings.Split(flags.campaigns, ",")
	}
	if flags.workloads != "" {
		cfg.Workloads = regexp.MustCompile(flags.workloads)
	}
	if cfg.Folder == "" {
		root, err := cluster.Root()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Folder = filepath.Join(root, "bin", "faults")
	}
	s, err := NewSuite(t.Context(), c, cfg, kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	s.refs = known
	return s
}

// TestCampaigns runs the short form, or the long one with -faults.long.
func TestCampaigns(t *testing.T) {
	if flags.plan != "" {
		return // TestReplay was asked for.
	}
	s := newSuite(t)
	r := s.Run()
	t.Log(r)
	for _, one := range r.Missed {
		t.Logf("missed: %s", one)
	}
	if flags.report != "" {
		if err := r.Write(flags.report); err != nil {
			t.Error(err)
		}
	}
	writeTable(t, s)
	for _, f := range r.Failures {
		t.Errorf("seed %d: %s: %s", r.Seed, f.Plan, f.Findings[0])
	}
	for _, stack := range Leaked(10 * time.Second) {
		t.Errorf("O6: a goroutine of a stopped operator is left:\n%s", stack)
		break
	}
}

// writeTable writes what the operators did while causes stood, where it was asked for.
func writeTable(t *testing.T, s *Suite) {
	t.Helper()
	if flags.table == "" {
		return
	}
	if err := os.WriteFile(flags.table, []byte(s.Table()), 0o644); err != nil {
		t.Error(err)
	}
}

// TestFoundPlans runs the plans in which the campaign misoperation found something that has been corrected since.
func TestFoundPlans(t *testing.T) {
	if flags.plan != "" {
		return // TestReplay was asked for.
	}
	files, err := filepath.Glob(filepath.Join("testdata", misoperation, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no plans: %v", err)
	}
	all, err := newSuite(t).Replay(files...)
	if err != nil {
		t.Fatal(err)
	}
	for i, findings := range all {
		for _, f := range findings {
			t.Errorf("%s: %s", files[i], f)
		}
	}
}

// TestReplay runs the plans of files, separated by commas, and tells of each whether it is right.
func TestReplay(t *testing.T) {
	if flags.plan == "" {
		return // There is nothing to replay.
	}
	files := strings.Split(flags.plan, ",")
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			t.Fatal(err)
		}
	}
	s := newSuite(t)
	all, err := s.Replay(files...)
	if err != nil {
		t.Fatal(err)
	}
	writeTable(t, s)
	for i, findings := range all {
		for _, f := range findings {
			t.Errorf("%s: %s", files[i], f)
		}
		if len(findings) == 0 {
			t.Logf("%s is right", files[i])
		}
	}
}

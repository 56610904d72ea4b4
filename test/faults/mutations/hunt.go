package mutations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"mlkeeper.dev/test/faults"
)

// Runner runs campaigns on the tree.
type Runner struct {
	Tree *Tree
	// Devcluster is the control plane's binary.
	Devcluster string
	// Dir is where logs and reports go.
	Dir  string
	Seed int64
	// Limit bounds the plans of one campaign; 0 leaves it to the campaign.
	Limit int
	// Timeout limits one campaign.
	Timeout time.Duration
}

// Catch is what one campaign made of the code in the tree.
type Catch struct {
	Plans int
	// Failures are the plans that an oracle spoke up in; none where the campaign was green.
	Failures []faults.Failure
	// Took is how long the campaign ran.
	Took time.Duration
}

// undisturbed says that no fault was needed: the bug showed in the runs that teach what is right.
func undisturbed(f faults.Failure) bool { return f.Plan.Fault == nil && f.Plan.Drift == nil }

// Hunt runs one campaign, whose binary was built before, up to its first finding. That it found nothing is no error; an
// error is a campaign that did not come to a verdict.
func (r *Runner) Hunt(ctx context.Context, binary, name string, h Hunt) (Catch, error) {
	base := filepath.Join(r.Dir, fileName(name+"-"+h.String()))
	out, log := base+".json", base+".log"
	_ = os.Remove(out)
	start := time.Now()
	failed := r.start(ctx, CampaignsPackage, binary, log, "-test.run=^TestCampaigns$", "-faults.campaigns="+h.Campaign,
		"-faults.workloads="+h.Workloads, fmt.Sprintf("-faults.seed=%d", r.Seed), fmt.Sprintf("-faults.limit=%d", r.Limit),
		"-faults.stop", "-faults.patience="+patience.String(), "-faults.report="+out, "-faults.folder="+base)
	catch, err := verdict(out)
	catch.Took = time.Since(start)
	switch {
	case err != nil:
		return catch, fmt.Errorf("no verdict, see %s: %w", log, errors.Join(failed, err))
	case failed == nil && len(catch.Failures) > 0, failed != nil && len(catch.Failures) == 0:
		return catch, fmt.Errorf("the report and the end of the campaign do not agree, see %s: %w", log, failed)
	case catch.Plans == 0:
		return catch, fmt.Errorf("no plan of %s matches, see %s", h, log)
	}
	return catch, nil
}

// verdict reads a report.
func verdict(file string) (Catch, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return Catch{}, err
	}
	var rep faults.Report
	if err := json.Unmarshal(raw, &rep); err != nil {
		return Catch{}, fmt.Errorf("%s: %w", file, err)
	}
	out := Catch{Plans: rep.Plans}
	for _, failure := range rep.Failures {
		// H says that a run could not be judged, which catches nothing.
		if !slices.ContainsFunc(failure.Findings, func(f faults.Finding) bool { return f.Oracle == "H" }) {
			out.Failures = append(out.Failures, failure)
		}
	}
	return out, nil
}

// patience is how long a plan may take to its end: a bug that stops it from coming there costs all of it.
const patience = 40 * time.Second

// confirmations is how many plans that failed with a bug are tried on the code without it, at most.
const confirmations = 3

// Confirm runs plans that failed with a bug on the code without it, up to the first that is green: the bug made it fail,
// and nothing else. Without such a plan nothing was caught, however red the campaign was.
func (r *Runner) Confirm(ctx context.Context, clean, name string, h Hunt, failures []faults.Failure) (faults.Failure, error) {
	base := filepath.Join(r.Dir, fileName(name+"-"+h.String()))
	var err error
	for i, failure := range failures[:min(len(failures), confirmations)] {
		plan := fmt.Sprintf("%s-confirm-%d.json", base, i+1)
		raw, encodeErr := json.MarshalIndent(failure.Plan, "", "  ")
		if encodeErr != nil {
			return faults.Failure{}, encodeErr
		}
		if err := os.WriteFile(plan, raw, 0o644); err != nil {
			return faults.Failure{}, err
		}
		log := strings.TrimSuffix(plan, ".json") + ".log"
		err = r.start(ctx, CampaignsPackage, clean, log, "-test.run=^TestReplay$", "-faults.plan="+plan, "-faults.folder="+base)
		if err == nil {
			return failure, nil
		}
		err = fmt.Errorf("false alarm: the code without the bug fails %s as well, see %s: %w", failure.Plan, log, err)
	}
	return faults.Failure{}, err
}

// Test runs one test, whose binary was built before, and says whether it failed. A run that did not come to a verdict is an
// error: the test is not there, or the binary could not be started or was ended by the timeout.
func (r *Runner) Test(ctx context.Context, binary, name string, t Test) (failed bool, err error) {
	log := filepath.Join(r.Dir, fileName(name+"-"+t.String())+".log")
	ended := r.start(ctx, t.Package, binary, log, "-test.run=^"+t.Name+"$")
	raw, err := os.ReadFile(log)
	switch {
	case err != nil:
		return false, err
	case bytes.Contains(raw, []byte("--- FAIL: "+t.Name)):
		return true, nil
	case ended == nil && bytes.Contains(raw, []byte("--- PASS: "+t.Name)):
		return false, nil
	default:
		return false, fmt.Errorf("no verdict, see %s: %w", log, errors.Join(ended, errNotRun))
	}
}

// errNotRun is said of a test that its binary does not have, or did not come to the end of.
var errNotRun = errors.New("the test neither passed nor failed")

// CampaignsPackage is the package of the campaigns.
const CampaignsPackage = "./test/faults"

// start runs a test binary to its end, in the folder of its package.
func (r *Runner) start(ctx context.Context, folder, binary, log string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "-test.v", "-test.timeout="+r.Timeout.String())...)
	cmd.Dir = filepath.Join(r.Tree.dir, filepath.FromSlash(folder))
	cmd.Env = append(os.Environ(), "MLKEEPER_DEVCLUSTER="+r.Devcluster)
	// The test binary starts a control plane, which must get the chance to end with it.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	file, err := os.Create(log)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	cmd.Stdout, cmd.Stderr = file, file
	return cmd.Run()
}

// fileName makes a name of a file of any text.
func fileName(text string) string {
	return strings.Trim(notInAName.ReplaceAllString(text, "-"), "-")
}

var notInAName = regexp.MustCompile(`[^A-Za-z0-9.]+`)

// Command cmd applies the mutations one by one into a copy of the repository, runs the campaigns and the tests that
// should catch them, and prints which did. It fails unless every bug is caught, by a plan or a test that is green on the
// code without it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/faults"
	"mlkeeper.dev/test/faults/mutations"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

// show is one run of the mutation tests.
type show struct {
	runner mutations.Runner
	bugs   []mutations.Mutation
	// clean is the binary of the campaigns on the code without a bug; empty where no bug has a campaign.
	clean string
	// passed holds what each test made of the code without a bug.
	passed map[mutations.Test]error
	// slots bound the campaigns that run at once.
	slots chan struct{}

	mu       sync.Mutex
	rows     map[string]*mutations.Row
	troubles []string
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutations", flag.ContinueOnError)
	names := flags.String("bugs", "", "regular expression of the bugs to seed; empty for all")
	campaigns := flags.String("campaigns", "", "regular expression of the campaigns to run, \"tests\" of the tests; empty for all")
	sample := flags.Int("sample", 0, "number of bugs to seed of those that match; with the next -seed it is the next ones. 0 for all")
	seed := flags.Int64("seed", 1, "seed of the campaigns and of the sample")
	limit := flags.Int("limit", 500, "most plans of one campaign, which ends at the first that catches the bug")
	timeout := flags.Duration("timeout", 30*time.Minute, "limit of one campaign")
	jobs := flags.Int("jobs", runtime.NumCPU(), "campaigns that run at once, each with a control plane of its own; they wait more than they compute")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	s := &show{
		slots: make(chan struct{}, max(*jobs, 1)), rows: map[string]*mutations.Row{}, passed: map[mutations.Test]error{},
	}
	if s.bugs, err = choose(root, *names, *campaigns); err != nil {
		return err
	}
	all := len(s.bugs)
	s.bugs = mutations.Sample(s.bugs, *sample, *seed)
	fmt.Printf("seed %d: %d bugs of %d\n", *seed, len(s.bugs), all)
	// The folder is always the same, so that Go's build cache knows the copied packages from the run before.
	dir := filepath.Join(root, "bin", "mutations")
	s.runner = mutations.Runner{
		Devcluster: filepath.Join(root, "bin", "devcluster"), Dir: dir, Seed: *seed, Limit: *limit, Timeout: *timeout,
	}
	if s.runner.Tree, err = mutations.Copy(ctx, root, filepath.Join(dir, "tree")); err != nil {
		return err
	}
	if slices.ContainsFunc(s.bugs, func(b mutations.Mutation) bool { return len(b.Hunts) > 0 }) {
		s.clean = filepath.Join(dir, "none.test")
		if err := s.runner.Tree.Build(ctx, mutations.CampaignsPackage, s.clean); err != nil {
			return err
		}
	}
	var hunts sync.WaitGroup
	for _, b := range s.bugs {
		if ctx.Err() == nil {
			s.seed(ctx, b, &hunts)
		}
	}
	hunts.Wait()
	return errors.Join(s.tell(filepath.Join(dir, "matrix.md")), ctx.Err())
}

// choose loads the bugs whose names match, with the campaigns that match.
func choose(root, names, campaigns string) ([]mutations.Mutation, error) {
	want, err := regexp.Compile(names)
	if err != nil {
		return nil, err
	}
	by, err := regexp.Compile(campaigns)
	if err != nil {
		return nil, err
	}
	bugs, err := mutations.Load(os.DirFS(filepath.Join(root, "test", "faults", "mutations", "bugs")))
	if err != nil {
		return nil, err
	}
	for i := range bugs {
		bugs[i].Hunts = slices.DeleteFunc(bugs[i].Hunts, func(h mutations.Hunt) bool { return !by.MatchString(h.Campaign) })
		if !by.MatchString("tests") {
			bugs[i].Tests = nil
		}
	}
	bugs = slices.DeleteFunc(bugs, func(b mutations.Mutation) bool {
		return !want.MatchString(b.Name) || len(b.Hunts)+len(b.Tests) == 0
	})
	if len(bugs) == 0 {
		return nil, fmt.Errorf("no bug matches %q that %q is to catch", names, campaigns)
	}
	return bugs, nil
}

// seed puts a bug into the tree, runs its tests, compiles the campaigns with it and sets them off. The tree is free for the
// next bug when it returns: a campaign needs the tree no more than for what no bug changes.
func (s *show) seed(ctx context.Context, b mutations.Mutation, hunts *sync.WaitGroup) {
	s.mu.Lock()
	s.rows[b.Name] = &mutations.Row{Name: b.Name, Class: b.Class}
	s.mu.Unlock()
	tree := s.runner.Tree
	if err := tree.Apply(ctx, b); err != nil {
		s.say(err.Error(), "%s: %v", b.Name, err)
		return
	}
	results := s.test(ctx, b)
	binary := filepath.Join(s.runner.Dir, b.Name+".test")
	var err error
	if len(b.Hunts) > 0 {
		err = tree.Build(ctx, mutations.CampaignsPackage, binary)
	}
	if err := errors.Join(err, tree.Revert()); err != nil {
		s.say(err.Error(), "%s: %v", b.Name, err)
		return
	}
	for _, r := range results {
		s.judge(ctx, b, r)
	}
	var mine sync.WaitGroup
	for _, h := range b.Hunts {
		s.slots <- struct{}{}
		hunt := func() {
			defer func() { <-s.slots }()
			s.hunt(ctx, b, binary, h)
		}
		mine.Go(hunt)
	}
	hunts.Go(func() {
		mine.Wait()
		_ = os.Remove(binary)
	})
}

// tested is what one test made of a bug.
type tested struct {
	test   mutations.Test
	failed bool
	err    error
	took   time.Duration
}

// test compiles and runs the tests of the bug that is in the tree. They run while it is there, since a test may read a file
// that the bug changes.
func (s *show) test(ctx context.Context, b mutations.Mutation) []tested {
	var out []tested
	for _, t := range b.Tests {
		r := tested{test: t}
		start := time.Now()
		r.failed, r.err = s.run(ctx, b.Name, t)
		r.took = time.Since(start)
		out = append(out, r)
	}
	return out
}

// run compiles and runs one test on the tree as it is.
func (s *show) run(ctx context.Context, name string, t mutations.Test) (failed bool, err error) {
	binary := filepath.Join(s.runner.Dir, name+"-tests.test")
	defer func() { _ = os.Remove(binary) }()
	if err := s.runner.Tree.Build(ctx, t.Package, binary); err != nil {
		return false, err
	}
	return s.runner.Test(ctx, binary, name, t)
}

// judge notes what a test made of a bug. A test that fails without the bug as well has caught nothing; each is asked once,
// on the tree without a bug.
func (s *show) judge(ctx context.Context, b mutations.Mutation, r tested) {
	if r.err == nil && r.failed {
		if _, asked := s.passed[r.test]; !asked {
			failed, err := s.run(ctx, "none", r.test)
			if failed {
				err = fmt.Errorf("false alarm: the code without the bug fails %s as well", r.test)
			}
			s.passed[r.test] = err
		}
		r.err = s.passed[r.test]
	}
	s.mu.Lock()
	s.rows[b.Name].Tested(r.failed, r.err)
	s.mu.Unlock()
	took := fmt.Sprintf("%s by %s in %s", b.Name, r.test, r.took.Round(time.Second))
	switch {
	case r.err != nil:
		s.say(fmt.Sprintf("%s by %s: %v", b.Name, r.test, r.err), "%s: %v", took, r.err)
	case r.failed:
		s.say("", "%s: caught", took)
	default:
		s.say(fmt.Sprintf("%s is missed by %s", b.Name, r.test), "%s: MISSED", took)
	}
}

// hunt runs one campaign and notes what came of it.
func (s *show) hunt(ctx context.Context, b mutations.Mutation, binary string, h mutations.Hunt) {
	c, err := s.runner.Hunt(ctx, binary, b.Name, h)
	var proof faults.Failure
	if err == nil && len(c.Failures) > 0 {
		proof, err = s.runner.Confirm(ctx, s.clean, b.Name, h, c.Failures)
	}
	s.mu.Lock()
	row := s.rows[b.Name]
	caught := err == nil && len(c.Failures) > 0
	if caught {
		row.Catch(h, proof)
	} else {
		row.Miss(h, err)
	}
	s.mu.Unlock()
	took := fmt.Sprintf("%s by %s, %d plans in %s", b.Name, h, c.Plans, c.Took.Round(time.Second))
	switch {
	case caught:
		s.say("", "%s: %s in %s\n    %s", took, strings.Join(proof.Oracles, " "), proof.Plan, proof.Findings[0])
	case err != nil:
		s.say(fmt.Sprintf("%s by %s: %v", b.Name, h, err), "%s: %v", took, err)
	default:
		s.say(fmt.Sprintf("%s is missed by %s", b.Name, h), "%s: MISSED", took)
	}
}

// say prints a line and notes what is wrong, if anything is.
func (s *show) say(trouble, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf(format+"\n", args...)
	if trouble != "" {
		s.troubles = append(s.troubles, trouble)
	}
}

// tell prints the matrix, writes it to a file, and says what is wrong with it.
func (s *show) tell(file string) error {
	var rows []mutations.Row
	for _, b := range s.bugs {
		row := s.rows[b.Name]
		if row == nil {
			row = &mutations.Row{Name: b.Name, Class: b.Class} // The run was ended before its turn.
		}
		rows = append(rows, *row)
		if !row.Caught {
			s.troubles = append(s.troubles, b.Name+" is not caught")
		}
	}
	var text strings.Builder
	mutations.Print(&text, rows)
	fmt.Printf("\n%s", text.String())
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		return err
	}
	if len(s.troubles) > 0 {
		return errors.New(strings.Join(s.troubles, "\n"))
	}
	return nil
}

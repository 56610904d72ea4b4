package mutations

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mlkeeper.dev/test/cluster"
	"mlkeeper.dev/test/faults"
)

// maxLines is the limit for a mutation: a larger one is a different design.
const maxLines = 10

func load(t *testing.T) []Mutation {
	t.Helper()
	bugs, err := Load(os.DirFS("bugs"))
	if err != nil {
		t.Fatal(err)
	}
	return bugs
}

func TestEveryMutationStillApplies(t *testing.T) {
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range load(t) {
		if err := Check(t.Context(), root, b); err != nil {
			t.Errorf("%s: make the same mistake in the code as it is now, see README.md: %v", b.Name, err)
		}
	}
}

func TestEveryMutationIsASlipInProductCode(t *testing.T) {
	for _, b := range load(t) {
		if added, removed := b.Changed(); max(added, removed) > maxLines || added+removed == 0 {
			t.Errorf("%s adds %d lines and removes %d, which is no slip", b.Name, added, removed)
		}
		for _, file := range b.Files() {
			product := slices.ContainsFunc([]string{"internal/", "cmd/", "config/", "charts/", "hack/"},
				func(folder string) bool { return strings.HasPrefix(file, folder) })
			if !product || strings.HasSuffix(file, "_test.go") {
				t.Errorf("%s changes %s, which is no product code", b.Name, file)
			}
		}
	}
}

func TestEveryNamedTestExists(t *testing.T) {
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range load(t) {
		for _, want := range b.Tests {
			files, err := filepath.Glob(filepath.Join(root, want.Package, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(files, func(file string) bool {
				raw, err := os.ReadFile(file)
				return err == nil && strings.Contains(string(raw), "\nfunc "+want.Name+"(t *testing.T)")
			}) {
				t.Errorf("%s names the test %q, which is not there", b.Name, want)
			}
		}
	}
}

func TestEveryClassHasAMutation(t *testing.T) {
	bugs := load(t)
	for _, class := range Classes {
		if !slices.ContainsFunc(bugs, func(b Mutation) bool { return b.Class == class }) {
			t.Errorf("no bug is of the class %q", class)
		}
	}
}

func TestSamplesComeToEveryMutation(t *testing.T) {
	var bugs []Mutation
	for _, name := range strings.Split("abcdefg", "") {
		bugs = append(bugs, Mutation{Name: name})
	}
	var got []string
	for seed := range int64(4) {
		sample := ""
		for _, b := range Sample(bugs, 3, seed) {
			sample += b.Name
		}
		got = append(got, sample)
	}
	if want := []string{"abc", "def", "gab", "cde"}; !slices.Equal(got, want) {
		t.Errorf("samples %q, want %q", got, want)
	}
	for _, n := range []int{0, 7, 8} {
		if got := len(Sample(bugs, n, 5)); got != len(bugs) {
			t.Errorf("a sample of %d has %d bugs of %d", n, got, len(bugs))
		}
	}
}

func TestIncompleteHeadersAreRefused(t *testing.T) {
	const good = "Bug: It is wrong.\nClass: hot loop\nModelled on: Sieve,\n somebody's operator.\nCampaigns: C1 one/.*; C4 two\n\n"
	const diff = "diff --git a/internal/x.go b/internal/x.go\n--- a/internal/x.go\n+++ b/internal/x.go\n@@ -1 +1 @@\n-a\n+b\n"
	b, err := parse("good", good+diff)
	if err != nil {
		t.Fatal(err)
	}
	if b.ModelledOn != "Sieve, somebody's operator." || len(b.Hunts) != 2 || b.Hunts[1] != (Hunt{"C4", "two"}) ||
		!slices.Equal(b.Files(), []string{"internal/x.go"}) || b.hunks()[0].before != "a\n" {
		t.Errorf("read as %+v", b)
	}
	tests := strings.Replace(good, "Campaigns: C1 one/.*; C4 two", "Tests: ./internal/x TestX; ./test/e2e TestY", 1)
	b, err = parse("good", tests+diff)
	if err != nil {
		t.Fatal(err)
	}
	if want := []Test{{"./internal/x", "TestX"}, {"./test/e2e", "TestY"}}; !slices.Equal(b.Tests, want) || len(b.Hunts) > 0 {
		t.Errorf("read as %+v", b)
	}
	for _, bad := range []string{"internal/x TestX", "./internal/x", "./internal/x Testing|X", "./internal/x x"} {
		if _, err := parse("bad", strings.Replace(tests, "./internal/x TestX", bad, 1)+diff); err == nil {
			t.Errorf("a header with the test %q is accepted", bad)
		}
	}
	for _, field := range []string{"Bug", "Class", "Modelled on", "Campaigns"} {
		if _, err := parse("bad", strings.Replace(good, field+":", "Other:", 1)+diff); err == nil {
			t.Errorf("a header without %s is accepted", field)
		}
	}
	for old, bad := range map[string]string{"hot loop": "cold loop", "C1": "C9", "one/.*": "(", "wrong.": "wrong"} {
		if _, err := parse("bad", strings.Replace(good, old, bad, 1)+diff); err == nil {
			t.Errorf("a header with %q is accepted", bad)
		}
	}
	if _, err := parse("bad", good); err == nil {
		t.Error("a header without a patch is accepted")
	}
}

func TestTreeIsACopyThatBugsComeAndGoIn(t *testing.T) {
	root, dir := t.TempDir(), filepath.Join(t.TempDir(), "tree")
	ctx := context.Background()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(".gitignore", "/bin/\n")
	write("bin/made", "made")
	write("internal/x.go", "a\nb\nc\n")
	if _, err := git(ctx, root, nil, "init", "-q"); err != nil {
		t.Fatal(err)
	}
	tree, err := Copy(ctx, root, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "bin")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what git ignores is copied: %v", err)
	}
	bug := Mutation{Name: "x", Diff: "diff --git a/internal/x.go b/internal/x.go\n--- a/internal/x.go\n+++ b/internal/x.go\n" +
		"@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"}
	if err := Check(ctx, root, bug); err != nil {
		t.Errorf("the check of a bug that applies: %v", err)
	}
	reads := func(want string) {
		t.Helper()
		if raw, err := os.ReadFile(filepath.Join(dir, "internal/x.go")); err != nil || string(raw) != want {
			t.Errorf("the tree has %q, not %q: %v", raw, want, err)
		}
	}
	for range 2 {
		if err := tree.Apply(ctx, bug); err != nil {
			t.Fatal(err)
		}
		reads("a\nB\nc\n")
		if err := tree.Revert(); err != nil {
			t.Fatal(err)
		}
		reads("a\nb\nc\n")
	}
	write("internal/x.go", "a\nb\nc\na\nb\nc\n")
	if err := Check(ctx, root, bug); err == nil || !strings.Contains(err.Error(), "2 places") {
		t.Errorf("a bug that fits two places: %v", err)
	}
	write("internal/x.go", "a\nc\n")
	if err := Check(ctx, root, bug); err == nil {
		t.Error("a bug that no longer applies passes the check")
	}
}

func TestMatrixCountsOnlyWhatACampaignCaught(t *testing.T) {
	caught, missed, broken := Row{Name: "a", Class: "x"}, Row{Name: "bb", Class: "x"}, Row{Name: "c", Class: "x"}
	fault := faults.Plan{Fault: &faults.Fault{}}
	caught.Catch(Hunt{Campaign: "C1"}, faults.Failure{Plan: fault, Oracles: []string{"O3", "O1"}})
	caught.Miss(Hunt{Campaign: "C4"}, nil)
	caught.Catch(Hunt{Campaign: "C2"}, faults.Failure{Oracles: []string{"O3"}})
	missed.Miss(Hunt{Campaign: "C1"}, nil)
	broken.Miss(Hunt{Campaign: "C7"}, errors.New("no report"))
	failing, passing := Row{Name: "d", Class: "x"}, Row{Name: "e", Class: "x"}
	failing.Tested(true, nil)
	passing.Tested(false, nil)
	passing.Tested(true, errors.New("it fails without the bug as well"))
	var out strings.Builder
	Print(&out, []Row{caught, missed, broken, failing, passing})
	const want = `| bug | class | C1     | C2            | C3 | C4     | C5 | C7     | standing | tests           |
|-----|-------|--------|---------------|----|--------|----|--------|----------|-----------------|
| a   | x     | O1 O3  | O3 (no fault) | .  | MISSED | .  | .      | .        | .               |
| bb  | x     | MISSED | .             | .  | .      | .  | .      | .        | .               |
| c   | x     | .      | .             | .  | .      | .  | BROKEN | .        | .               |
| d   | x     | .      | .             | .  | .      | .  | .      | .        | caught          |
| e   | x     | .      | .             | .  | .      | .  | .      | .        | MISSED / BROKEN |

2 of 5 mutations detected
`
	if out.String() != want {
		t.Errorf("printed\n%s", out.String())
	}
}

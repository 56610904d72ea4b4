package mutations

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Classes are the classes of bugs of which there must be one mutation at least: those that Sieve, Acto and Anvil found in
// operators that people trust, and those that an engine of this shape invites.
var Classes = []string{
	"name-not-UID match",
	"delete from stale cache",
	"write from stale cache",
	"edge trigger",
	"finalizer too early",
	"skip-after-crash guard",
	"stable gate blocks the fix",
	"unlocked update",
	"shared child name",
	"status ahead of spec",
	"hot loop",
	"adoption of a foreign object",
	"forgotten managedFields migration",
	"lost response misread",
	"read-your-writes missing",
	"drift unnoticed",
	"retained data deleted",
	"entry of another removed",
	"transient error is terminal",
	"two leaders fight",
	"unobserved state",
	"declared content not written",
	"error text misread",
	"written to the wrong place",
	"written too early",
	"two writers",
	"rights lent",
	"unbounded input",
	"security switched off",
}

// Campaigns are the campaigns that may be asked to catch a bug.
var Campaigns = []string{"C1", "C2", "C3", "C4", "C5", "C7", "standing"}

// Mutation is one mutation.
type Mutation struct {
	// Name is that of its file, without the extension.
	Name string
	// Summary says in one sentence what is wrong.
	Summary string
	Class   string
	// ModelledOn names the finding, or the class of findings, that the bug is like.
	ModelledOn string
	// Hunts are the campaigns that should catch the bug; none where only tests should.
	Hunts []Hunt
	// Tests are the tests that should catch the bug; none where only campaigns should.
	Tests []Test
	// Diff is the patch itself, without its header.
	Diff string
}

// Hunt is one campaign over the workloads that match.
type Hunt struct {
	Campaign  string
	Workloads string
}

// String prints the hunt as the header of a patch spells it.
func (h Hunt) String() string { return h.Campaign + " " + h.Workloads }

// Test is one test function that must fail on the code with the bug, and pass on the code without it.
type Test struct {
	// Package is the folder of the test from the root of the repository, such as "./internal/acm".
	Package string
	// Name is that of the function.
	Name string
}

// String prints the test as the header of a patch spells it.
func (t Test) String() string { return t.Package + " " + t.Name }

// Load reads every patch of a folder, sorted by name.
func Load(folder fs.FS) ([]Mutation, error) {
	files, err := fs.Glob(folder, "*.patch")
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	bugs := make([]Mutation, 0, len(files))
	for _, file := range files {
		raw, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, err
		}
		b, err := parse(strings.TrimSuffix(path.Base(file), ".patch"), string(raw))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		bugs = append(bugs, b)
	}
	return bugs, nil
}

// Sample picks n of the bugs, all for 0: those from the seed-th n of the list on, so that one seed after the other comes to
// every bug, and the same seed to the same bugs.
func Sample(bugs []Mutation, n int, seed int64) []Mutation {
	if n <= 0 || n >= len(bugs) {
		return bugs
	}
	first := int(seed * int64(n) % int64(len(bugs)))
	return slices.Concat(bugs, bugs)[first : first+n]
}

// parse reads a patch. git apply ignores all that comes before the first "diff --git", so the header is there. A line of
// the header that begins with a space goes on with the field above it.
func parse(name, text string) (Mutation, error) {
	header, diff, found := strings.Cut(text, "diff --git ")
	if !found {
		return Mutation{}, fmt.Errorf("it has no line that begins with %q", "diff --git")
	}
	fields := map[string]string{}
	field := ""
	for line := range strings.Lines(header) {
		line = strings.TrimRight(line, "\r\n")
		switch key, value, ok := strings.Cut(line, ":"); {
		case line == "":
			field = ""
		case strings.HasPrefix(line, " ") && field != "":
			fields[field] += " " + strings.TrimSpace(line)
		case ok:
			field = key
			fields[field] = strings.TrimSpace(value)
		default:
			return Mutation{}, fmt.Errorf("the line %q of the header is neither a field nor goes on with one", line)
		}
	}
	b := Mutation{
		Name: name, Summary: fields["Bug"], Class: fields["Class"], ModelledOn: fields["Modelled on"],
		Diff: "diff --git " + diff,
	}
	for _, text := range list(fields["Campaigns"]) {
		campaign, workloads, _ := strings.Cut(text, " ")
		b.Hunts = append(b.Hunts, Hunt{Campaign: campaign, Workloads: strings.TrimSpace(workloads)})
	}
	for _, text := range list(fields["Tests"]) {
		folder, test, _ := strings.Cut(text, " ")
		b.Tests = append(b.Tests, Test{Package: folder, Name: strings.TrimSpace(test)})
	}
	return b, b.check()
}

// list splits a field of the header at its semicolons; an empty field has no items.
func list(field string) []string {
	var out []string
	for item := range strings.SplitSeq(field, ";") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// check says what the header lacks.
func (b Mutation) check() error {
	switch {
	case !strings.HasSuffix(b.Summary, "."):
		return fmt.Errorf("the header has no sentence that says what is wrong: %q", b.Summary)
	case !slices.Contains(Classes, b.Class):
		return fmt.Errorf("the header has the class %q, which is none of %q", b.Class, Classes)
	case b.ModelledOn == "":
		return errors.New("the header does not say what the bug is modelled on")
	case len(b.Hunts)+len(b.Tests) == 0:
		return errors.New("the header names neither a campaign nor a test that should catch the bug")
	}
	for _, t := range b.Tests {
		if !strings.HasPrefix(t.Package, "./") || !testName.MatchString(t.Name) {
			return fmt.Errorf("the header has the test %q: write \"./internal/acm TestName; ./test/e2e TestOther\"", t)
		}
	}
	for _, h := range b.Hunts {
		if !slices.Contains(Campaigns, h.Campaign) {
			return fmt.Errorf("the header has the campaign %q, which is none of %q: write \"C1 REGEXP; C4 REGEXP\"",
				h.Campaign, Campaigns)
		}
		if h.Workloads == "" {
			return fmt.Errorf("the header does not say which workloads %s runs", h.Campaign)
		}
		if _, err := regexp.Compile(h.Workloads); err != nil {
			return fmt.Errorf("the header's workloads of %s: %w", h.Campaign, err)
		}
	}
	return nil
}

// testName is a test function as the header of a patch names it.
var testName = regexp.MustCompile(`^Test\w+$`)

// Files are the files that the patch changes.
func (b Mutation) Files() []string {
	var out []string
	for line := range strings.Lines(b.Diff) {
		if file, ok := strings.CutPrefix(strings.TrimSpace(line), "+++ b/"); ok {
			out = append(out, file)
		}
	}
	return out
}

// Changed counts the lines that the patch adds and takes away.
func (b Mutation) Changed() (added, removed int) {
	for line := range strings.Lines(b.Diff) {
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		case strings.HasPrefix(line, "+"):
			added++
		case strings.HasPrefix(line, "-"):
			removed++
		}
	}
	return added, removed
}

// hunk is one place that a patch changes: the lines that must stand there before.
type hunk struct {
	file, before string
}

// hunks are the places that the patch changes.
func (b Mutation) hunks() []hunk {
	var out []hunk
	file, inside := "", false
	for line := range strings.Lines(b.Diff) {
		switch {
		case strings.HasPrefix(line, "diff --git "):
			inside = false
		case !inside && strings.HasPrefix(line, "+++ b/"):
			file = strings.TrimSpace(strings.TrimPrefix(line, "+++ b/"))
		case strings.HasPrefix(line, "@@"):
			inside = true
			out = append(out, hunk{file: file})
		case inside && (strings.HasPrefix(line, " ") || strings.HasPrefix(line, "-")):
			out[len(out)-1].before += line[1:]
		}
	}
	return out
}

package bounded

import (
	"errors"
	"regexp/syntax"
	"strings"
	"testing"
)

// TestRepetitionsCountForWhatTheyStandFor: the parser of Go admits three million instructions.
func TestRepetitionsCountForWhatTheyStandFor(t *testing.T) {
	for text, large := range map[string]bool{
		"":                                      false,
		"trustyai_(x|y)_.*":                     false,
		"[0-9]{1,3}(\\.[0-9]{1,3}){3}":          false,
		`\pL{1000}`:                             false,
		strings.Repeat("a", 9000):               false,
		strings.Repeat("a", 10_001):             true,
		"(?:" + strings.Repeat("a", 3300) + ")": false,
		"(?:" + strings.Repeat("a", 3300) + "){1000}":             true,
		"(?:" + strings.Repeat("a", 3300) + "){0,1000}":           true,
		"(?:" + strings.Repeat("a", 3300) + "){1000,}":            true,
		"(?:(?:(?:aaaaaaaaaa|b.c){10}){10}){10}":                  true,
		"((((((a{2}){2}){2}){2}){2}){2}){2}":                      false,
		strings.Repeat("(a{0,1000}[b-d]{1000}|^){1}", 30):         true,
		strings.Repeat("(?:", 900) + strings.Repeat("){1,}", 900): false,
	} {
		size, err := Expression(text, 10_000)
		if large != (err != nil) || large && !strings.Contains(err.Error(), "more than 10000 instructions") {
			t.Errorf("%.60s becomes %d: %v", text, size, err)
		}
	}
	for _, text := range []string{"(", "a{1001}", "(a{100}){100}", `\8`, strings.Repeat("(", 1100) + strings.Repeat(")", 1100)} {
		if _, err := Expression(text, 10_000); err == nil || !strings.Contains(err.Error(), "error parsing regexp") {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

// TestTheCaseOfAllOfUnicodeIsNotIgnored: the parser takes a second for such ranges, before anything of them is counted.
func TestTheCaseOfAllOfUnicodeIsNotIgnored(t *testing.T) {
	for _, text := range []string{`(?i)[a-\x{ffff}]`, `x(?si:[a-\x{1e900}])`, "(?i)[a-\U0001e900]"} {
		if _, err := Expression(text, 10_000); !errors.Is(err, errFolded) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"(?i)[a-z]", `[a-\x{ffff}]`, "(?s:é)"} {
		if _, err := Expression(text, 10_000); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzExpression compares the count with what the compiler makes of the text.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{"(?i)a{3,7}[b-d]*|^x$", "(a|bc|){0,5}?", `(?:\pL+x{2,}){9}`, "((a*)*|(b+)?)+", `\Qab\E.{1,}(?s:.)`, "a{0}b{0,}", "(|){3}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := Expression(text, 1000)
		if err != nil {
			return
		}
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		// A part becomes two instructions at most, as the end of a group does, and the whole has two of its own.
		if got := len(program.Inst); got > 2*size+2 {
			t.Errorf("%q becomes %d instructions, not %d", text, got, size)
		}
	})
}

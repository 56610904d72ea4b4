package cli

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"
)

var hostile = "a\x1b[31mred\u009b2J\u202egnp\x7f\x00\u2028 b\tc\nd \U000e0041 e\xff"

func TestCleanLeavesNothingThatATerminalObeys(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":   {"Deployment ns/x – naïve 日本", "Deployment ns/x – naïve 日本"},
		"escape":  {"a\x1b[31m", `a\u001b[31m`},
		"c1":      {"a\u009b2J", `a\u009b2J`},
		"bidi":    {"a\u202eb", `a\u202eb`},
		"newline": {"a\r\nb\tc", "a  b c"},
		"astral":  {"\U000e0041", `\udb40\udc41`},
	} {
		if got := Clean(c.in); got != c.want {
			t.Errorf("%s: Clean(%q) = %q, want %q", name, c.in, got, c.want)
		}
	}
	if got := CleanLines("a\x1b\nb"); got != "a\\u001b\nb" {
		t.Errorf("CleanLines keeps lines: %q", got)
	}
}

func TestPrintJSONKeepsTheValueAndEscapesIt(t *testing.T) {
	var out bytes.Buffer
	if err := printJSON(&out, map[string]string{hostile: hostile}); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%U is printed raw in %q", r, out.String())
		}
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	valid := string([]rune(hostile))
	if back[valid] != valid {
		t.Errorf("read back %q, want %q", back, valid)
	}
}

func FuzzClean(f *testing.F) {
	f.Add(hostile)
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Clean(s) {
			if !unicode.IsPrint(r) {
				t.Errorf("Clean(%q) holds %U", s, r)
			}
		}
	})
}

func TestCut(t *testing.T) {
	if got := cut("日本語", 2); got != "日…" {
		t.Errorf("cut = %q", got)
	}
	if got := cut("日本", 2); got != "日本" {
		t.Errorf("cut = %q", got)
	}
}

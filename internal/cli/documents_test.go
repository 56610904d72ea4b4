package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSplitDocuments(t *testing.T) {
	for name, c := range map[string]struct {
		in    string
		lines []int
	}{
		"empty":             {"", nil},
		"comments alone":    {"# a\n---\n\n# b\n", nil},
		"one":               {"a: 1\n", []int{1}},
		"two":               {"a: 1\n---\nb: 2\n", []int{1, 2}},
		"leading mark":      {"---\na: 1\n---\nb: 2", []int{1, 3}},
		"CRLF":              {"a: 1\r\n---\r\nb: 2\r\n", []int{1, 2}},
		"mark with comment": {"a: 1\n--- # next\nb: 2\n", []int{1, 2}},
		"mark with content": {"--- {a: 1}\n--- {b: 2}\n", []int{1, 2}},
		"no mark":           {"a: |\n  ---\n  b\n---c: 1\n", []int{1}},
		"end mark":          {"a: 1\n...\nb: 2\n", []int{1, 3}},
		"BOM":               {"\ufeff---\na: 1\n", []int{1}},
	} {
		docs, err := splitDocuments(c.in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var lines []int
		for _, d := range docs {
			lines = append(lines, d.line)
		}
		if !slices.Equal(lines, c.lines) {
			t.Errorf("%s: documents at lines %v, want %v", name, lines, c.lines)
		}
	}
}

func TestDecodeDocuments(t *testing.T) {
	for name, c := range map[string]struct{ in, err string }{
		"nothing":       {"# only a comment", "there is no object"},
		"no YAML":       {"a: 1\n---\nb: [", "line 2: "},
		"duplicate key": {"kind: A\nkind: B\n", `key "kind" already set`},
		"scalar":        {"hello", "not an object with apiVersion and kind"},
		"too many":      {strings.Repeat("---\na: 1\n", maxDocuments+1), "split the file"},
		"long list":     {"apiVersion: v1\nkind: List\nitems:\n" + strings.Repeat("- {a: 1}\n", maxDocuments+1), "split the file"},
		"odd list":      {"apiVersion: v1\nkind: List\nitems: [1]", "items[0] is not an object"},
	} {
		if _, err := decodeDocuments(c.in); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q", name, err, c.err)
		}
	}
	all, err := decodeDocuments("apiVersion: v1\nkind: List\nitems: [{kind: A}, {kind: B, size: 3}]\n---\n{\"kind\": \"C\"}")
	if err != nil || len(all) != 3 || all[1].GetKind() != "B" || all[1].Object["size"] != int64(3) {
		t.Errorf("decoded %v, %v", all, err)
	}
}

func TestReadInputIsLimited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(path, make([]byte, maxInput+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readInput(path, nil); err == nil || !strings.Contains(err.Error(), "more than 4 MiB") {
		t.Errorf("error %v", err)
	}
	if _, err := readInput(filepath.Join(t.TempDir(), "absent"), nil); err == nil {
		t.Error("an absent file is no error")
	}
	if text, err := readInput("-", strings.NewReader("a: 1")); err != nil || text != "a: 1" {
		t.Errorf("read %q, %v", text, err)
	}
}

func FuzzSplitDocuments(f *testing.F) {
	for _, seed := range []string{"a: 1\n---\nb: 2\n", "--- x\n...\r\n---\t#\n", "\ufeff%YAML 1.2\n---\n", "&a [*a, *a]", "---"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		docs, err := splitDocuments(text)
		if err != nil {
			return
		}
		before, size := 0, 0
		for _, d := range docs {
			if d.line <= before || d.line > strings.Count(text, "\n")+1 {
				t.Errorf("document at line %d after line %d of %q", d.line, before, text)
			}
			if !hasContent(d.text) || !strings.Contains(text, strings.Trim(d.text, "\n")) {
				t.Errorf("document %q is not part of %q", d.text, text)
			}
			before, size = d.line, size+len(d.text)
		}
		if size > len(text) {
			t.Errorf("%d bytes became %d", len(text), size)
		}
		if len(text) < 1<<12 {
			_, _ = decodeDocuments(text)
		}
	})
}

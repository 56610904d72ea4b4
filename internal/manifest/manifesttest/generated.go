package manifesttest

import (
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Grammar has what each mark of a text, such as <list>, may become. What comes first of them has no mark itself.
type Grammar map[string][]string

var mark = regexp.MustCompile(`<[a-z]+>`)

// Text replaces the marks of a text, and those of what they become to a depth.
func (g Grammar) Text(t *rapid.T, text string, depth int) string {
	return mark.ReplaceAllStringFunc(text, func(m string) string {
		if depth == 0 {
			return g[m][0]
		}
		return g.Text(t, rapid.SampledFrom(g[m]).Draw(t, m), depth-1)
	})
}

// PeakMemory begins to measure, and returns what this process has taken at most since, beyond what it took then, in MiB.
func PeakMemory(t testing.TB) func() int {
	t.Helper()
	debug.FreeOSMemory()
	// This makes the peak what the process takes now (proc(5)).
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := memory(t, "VmRSS")
	return func() int { return memory(t, "VmHWM") - before }
}

// memory is a line of /proc/self/status, in MiB.
func memory(t testing.TB, line string) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var kib int
	_, after, _ := strings.Cut(string(raw), line+":")
	if _, err := fmt.Sscan(after, &kib); err != nil {
		t.Fatalf("/proc/self/status has no %s: %v", line, err)
	}
	return kib >> 10
}

package manifesttest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"mlkeeper.dev/internal/limit"
	"mlkeeper.dev/internal/manifest/worker"
	"mlkeeper.dev/internal/parallel"
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

// RenderGenerated renders what is made up in the processes of production, several at a time as for several namespaces. Render says whether
// input i was refused with a reason; anything else is an error. None may take more of this process than its worker counts for.
func RenderGenerated(t *testing.T, count int, render func(ctx context.Context, i int, namespace string, workers *worker.Pool) (refused bool, err error)) {
	t.Helper()
	const atOnce = 4
	workers := &worker.Pool{Memory: limit.New(atOnce*worker.Share, worker.Share)}
	peak := peakMemory(t)
	var good, bad atomic.Int64
	failures := parallel.Each(t.Context(), atOnce, make([]struct{}, count), func(ctx context.Context, i int, _ struct{}) error {
		refused, err := render(ctx, i, fmt.Sprint("ns", i%atOnce), workers)
		switch {
		case err != nil:
			return fmt.Errorf("input %d: %w", i, err)
		case refused:
			bad.Add(1)
		default:
			good.Add(1)
		}
		return nil
	})
	if err := errors.Join(failures...); err != nil {
		t.Error(err)
	}
	t.Logf("%d were rendered, %d refused; this process took %d MiB more", good.Load(), bad.Load(), peak())
	if most := atOnce * worker.Share >> 20; peak() > most || good.Load() == 0 || bad.Load() == 0 {
		t.Errorf("there are none of the one, or it took more than %d MiB", most)
	}
}

// peakMemory begins to measure, and returns what this process has taken at most since, beyond what it took then, in MiB.
func peakMemory(t testing.TB) func() int {
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

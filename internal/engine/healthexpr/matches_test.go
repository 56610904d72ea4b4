package healthexpr

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	keeper "mlkeeper.dev/api/keeper/v1alpha1"
	"mlkeeper.dev/internal/engine/health"
)

// allocated is how much memory something takes, in MiB.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

func compiled(t *testing.T, current string) *Rules {
	t.Helper()
	u := issuer(nil)
	rules, err := Compile([]keeper.HealthCheckExpr{{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Current: current}})
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// TestMatches: in both forms, with constant and other patterns, as in CEL.
func TestMatches(t *testing.T) {
	status := map[string]any{"version": "v1.20.3", "pattern": "^v1[.]"}
	for text, want := range map[string]health.Status{
		`status.version.matches('^v[0-9]+([.][0-9]+){2}$')`:   health.Current,
		`status.version.matches('^v2')`:                       health.InProgress,
		`matches(status.version, '(?i)V1')`:                   health.Current,
		`status.version.matches(status.pattern)`:              health.Current,
		`status.version.matches(status.pattern + '20[.]3$')`:  health.Current,
		`'a'.startsWith('a') && size(status.version) == 7`:    health.Current,
		`has(status.version) && status.all(k, k.size() == 7)`: health.Current,
	} {
		if got, _, _ := compiled(t, text).Of(issuer(status)); got.Status != want || got.Reason == reasonError {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got, _, _ := compiled(t, `status.version.matches(metadata)`).Of(issuer(status)); !strings.Contains(got.Message, "no such overload") {
		t.Errorf("%+v", got)
	}
}

// TestPatternsAreBounded: a repetition makes 500 MiB of a pattern of 3 KiB, and a long text takes a large pattern minutes.
func TestPatternsAreBounded(t *testing.T) {
	const large = "more than 10000 instructions"
	for name, text := range map[string]string{
		"large":         "'a'.matches('(?:" + strings.Repeat("a", 1900) + "){1000}')",
		"a function":    "matches('a', '(?:" + strings.Repeat("a", 1900) + "){1000}')",
		"in a loop":     "[1].all(x, status.version.matches('(?:" + strings.Repeat("a", 20) + "){1000}'))",
		"no expression": "'a'.matches('(')",
	} {
		_, err := Compile([]keeper.HealthCheckExpr{{Current: text}})
		if err == nil || err.Field != "[0].current" || !strings.Contains(err.Message, large) && name != "no expression" {
			t.Errorf("%s: %v", name, err)
		}
	}
	loop := "[1,2,3,4,5,6,7,8,9,10].all(x, [1,2,3,4,5,6,7,8,9,10].all(y, %s))"
	for name, c := range map[string]struct{ text, want string }{
		"at run time":   {"'a'.matches('(?:' + status.long + '){1000}')", large},
		"a text":        {"'a'.matches(status.longest)", "cost limit"},
		"a long text":   {"status.longest.matches('(?:[ab]?a){900}$')", "cost limit"},
		"many":          {fmt.Sprintf(loop, "!'a'.matches('(?:aaaaaa){1000}' + string(x + y))"), "cost limit"},
		"many that err": {fmt.Sprintf(loop, "'a'.matches(status.long + status.long + '(') || true") + " && " + fmt.Sprintf(loop, "true"), "cost limit"},
	} {
		rules := compiled(t, c.text)
		u := issuer(map[string]any{"long": strings.Repeat("a", 3300), "longest": strings.Repeat("a", 1<<20)})
		var got health.Result
		took := allocated(func() { got, _, _ = rules.Of(u) })
		if got.Reason != reasonError || !strings.Contains(got.Message, c.want) || took > 64 {
			t.Errorf("%s: %+v, %d MiB", name, got, took)
		}
	}
}

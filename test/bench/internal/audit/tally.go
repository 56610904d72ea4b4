package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Tally counts requests by class and by kind. Those that failed count too: the API server had the work.
type Tally struct {
	Class  map[Class]int  `json:"class"`
	Kind   map[string]int `json:"kind"`
	Failed map[string]int `json:"failed,omitempty"`
}

// Count counts requests.
func Count(entries []Entry) Tally {
	t := Tally{Class: map[Class]int{}, Kind: map[string]int{}, Failed: map[string]int{}}
	for _, e := range entries {
		t.Class[e.Class()]++
		t.Kind[e.Kind()]++
		if !e.OK() {
			t.Failed[fmt.Sprintf("%s: %d", e.Kind(), e.Code)]++
		}
	}
	return t
}

// String prints the kinds that were counted, the most frequent first, but for those of leader election and of the
// metrics port, and how many of them failed with which code.
func (t Tally) String() string {
	s := describe(t.Kind)
	if failed := describe(t.Failed); failed != "" {
		s += "; of these failed: " + failed
	}
	return s
}

func describe(counts map[string]int) string {
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	var out []string
	for _, kind := range kinds {
		if !strings.Contains(kind, " leases") && !strings.Contains(kind, "reviews.auth") {
			out = append(out, fmt.Sprintf("%d %s", counts[kind], kind))
		}
	}
	return strings.Join(out, ", ")
}

// Select returns the entries that match.
func Select(entries []Entry, match func(Entry) bool) []Entry {
	var out []Entry
	for _, e := range entries {
		if match(e) {
			out = append(out, e)
		}
	}
	return out
}

// Writes returns the writes, failed ones included, without events, leases and reviews.
func Writes(entries []Entry) []Entry {
	return Select(entries, func(e Entry) bool { return e.Class() == Write })
}

package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Table is, as Markdown, what the operators did per minute while causes stood: the most of each kind and cause. Attempts are
// writes that were refused, changes those that changed an object.
func (s *Suite) Table() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := map[string]activity{}
	for _, a := range s.activities {
		key := a.kind + " | " + string(a.cause)
		m := most[key]
		most[key] = activity{
			kind: a.kind, cause: a.cause, window: a.window, reconciles: max(a.reconciles, m.reconciles), attempts: max(a.attempts, m.attempts),
			changes: max(a.changes, m.changes), statuses: max(a.statuses+a.records, m.statuses), reads: max(a.reads, m.reads),
		}
	}
	var rows []string
	for key, a := range most {
		per := func(n int) string {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)*float64(time.Minute)/float64(a.window)), ".0")
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n",
			key, per(a.reconciles), per(a.attempts), per(a.changes), per(a.statuses), per(a.reads)))
	}
	slices.Sort(rows)
	return "| kind | cause | reconciles | attempted writes | changing writes | status writes | live reads |\n|---|---|---|---|---|---|---|\n" +
		strings.Join(rows, "")
}

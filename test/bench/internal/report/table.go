package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"mlkeeper.dev/test/bench/internal/stat"
)

// Number prints a value with its unit, with as many digits as mean something.
func Number(v float64, unit string) string {
	switch {
	case unit == "s" && math.Abs(v) < 1:
		return strconv.FormatFloat(v*1000, 'f', 1, 64) + " ms"
	case unit == "s":
		return strconv.FormatFloat(v, 'f', 2, 64) + " s"
	case unit == "B" && math.Abs(v) >= 1<<20:
		return strconv.FormatFloat(v/(1<<20), 'f', 2, 64) + " MiB"
	case unit == "B" && math.Abs(v) >= 1<<10:
		return strconv.FormatFloat(v/(1<<10), 'f', 2, 64) + " KiB"
	case v == math.Trunc(v) && math.Abs(v) < 1e9:
		return strings.TrimSpace(strconv.FormatFloat(v, 'f', 0, 64) + " " + unit)
	}
	return strings.TrimSpace(strconv.FormatFloat(v, 'f', 3, 64) + " " + unit)
}

// Measured prints the value.
func (m Measure) Measured() string {
	if m.Missing {
		return "not measured"
	}
	return Number(m.Value, m.Unit)
}

// Spread prints the least and the most of the samples.
func (m Measure) Spread() string {
	if len(m.Samples) < 2 {
		return ""
	}
	s := stat.Summarize(m.Samples)
	return Number(s.Min, m.Unit) + " to " + Number(s.Max, m.Unit)
}

// WriteTable prints the rows.
func (r *Result) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
	if r.Quick {
		p("QUICK: sizes too small for a result; this only shows that the bench works.\n")
	}
	p("%s, %s, took %s\n%s\n", r.Version, r.Started.Format(time.RFC3339), r.Took, r.Machine)
	for _, l := range r.Load {
		p("load before %s: %.2f (1 min), %.2f (5 min)\n", l.Before, l.One, l.Five)
	}
	p("\n\tmeasured\tlimit\tverdict\tspread\tstatistic\n")
	for _, row := range r.Rows {
		p("%s\t%s\t%s\t%s\t%s\t%s\n", row.What, row.Measured(), row.Threshold, row.Verdict, row.Spread(), row.Statistic)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	r.writePeer(out)
	for _, row := range r.Rows {
		if row.Detail != "" {
			_, _ = fmt.Fprintf(out, "\n%s: %s\n", row.What, row.Detail)
		}
	}
	for _, n := range r.Notes {
		_, _ = fmt.Fprintf(out, "\nNote: %s\n", n)
	}
	for _, f := range r.Failures {
		_, _ = fmt.Fprintf(out, "\nFAILED: %s\n", f)
	}
	return nil
}

// PeerRows are the lines of the comparison: a name and one cell for each side.
func (r *Result) PeerRows() [][]string {
	if len(r.Sides) == 0 {
		return nil
	}
	rows := [][]string{{""}}
	line := func(name string, cell func(Side) string) {
		row := []string{name}
		for _, s := range r.Sides {
			row = append(row, cell(s))
		}
		rows = append(rows, row)
	}
	for _, s := range r.Sides {
		rows[0] = append(rows[0], s.Name)
	}
	line("services that became ready", func(s Side) string { return fmt.Sprintf("%d of %d", s.Ready, s.Services) })
	line("time to ready, median", func(s Side) string { return Number(s.Seconds["p50"], "s") })
	line("time to ready, p99", func(s Side) string { return Number(s.Seconds["p99"], "s") })
	line("time until all are ready", func(s Side) string { return Number(s.All, "s") })
	for _, class := range []string{"write", "get", "list", "watch", "event"} {
		line(class+" requests per service", func(s Side) string { return Number(s.PerCR[class], "") })
	}
	line("requests while idle for "+r.Sides[0].IdleFor, func(s Side) string {
		total := 0
		var parts []string
		for _, class := range []string{"write", "get", "list", "event"} {
			total += s.Idle[class]
			parts = append(parts, fmt.Sprintf("%d %s", s.Idle[class], class))
		}
		return fmt.Sprintf("%d (%s)", total, strings.Join(parts, ", "))
	})
	line("memory (RssAnon)", func(s Side) string { return Number(s.RssAnon, "B") })
	return rows
}

func (r *Result) writePeer(out io.Writer) {
	rows := r.PeerRows()
	if len(rows) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w)
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
}

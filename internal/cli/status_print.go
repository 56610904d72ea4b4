package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// messageWidth is how much of a message the table shows; wide shows all of it.
const messageWidth = 80

// printStatus prints the table: a line for each custom resource, and one below it for each of its objects.
func printStatus(out, stderr io.Writer, report *StatusReport, wide bool, where string, now time.Time) error {
	if err := printWarnings(stderr, report.Warnings); err != nil {
		return err
	}
	if len(report.Stacks) == 0 {
		return printLines(stderr, Clean("MLKeeper manages nothing "+where))
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(cells ...string) {
		for i := range cells {
			cells[i] = Clean(cells[i])
		}
		// The writer keeps the error for Flush.
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	message := func(s string) string {
		if wide {
			return s
		}
		return cut(Clean(s), messageWidth)
	}
	header := []string{"NAMESPACE", "OBJECT", "READY", "REASON", "MESSAGE"}
	if wide {
		header = []string{"NAMESPACE", "OBJECT", "APIVERSION", "AGE", "READY", "REASON", "MESSAGE"}
	}
	row(header...)
	for i := range report.Stacks {
		s := &report.Stacks[i]
		cells := []string{dash(s.Namespace), s.Kind + "/" + s.Name}
		if wide {
			cells = append(cells, s.APIVersion, duration.HumanDuration(now.Sub(s.Created)))
		}
		row(append(cells, s.Ready+s.notes(), dash(s.Reason), message(s.Message))...)
		for j, o := range s.Objects {
			branch := "├─ "
			if j == len(s.Objects)-1 {
				branch = "└─ "
			}
			name := o.Kind + "/" + o.Name
			if o.Namespace != "" && o.Namespace != s.Namespace {
				name = o.Kind + "/" + o.Namespace + "/" + o.Name
			}
			cells := []string{"", branch + name}
			if wide {
				cells = append(cells, o.APIVersion, "")
			}
			row(append(cells, o.Health, dash(o.Reason), message(o.Message))...)
		}
	}
	return table.Flush()
}

// notes are what else a reader must know beside Ready.
func (s *StackStatus) notes() string {
	var notes []string
	for _, n := range []struct {
		on   bool
		text string
	}{
		{s.Deleting, "deleting"},
		{s.Suspended, "suspended"},
		{s.Stalled, "stalled"},
		{!s.Observed && s.Ready != "Unknown", "outdated"},
	} {
		if n.on {
			notes = append(notes, n.text)
		}
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, ", ") + ")"
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

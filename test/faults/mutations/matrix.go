package mutations

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"mlkeeper.dev/test/faults"
)

// Row is one bug with what each campaign made of it.
type Row struct {
	Name, Class string
	// Cells hold, by campaign, the oracles that caught the bug, or why none did; and, under columnTests, what the tests made
	// of it.
	Cells map[string]string
	// Caught says that one campaign or test at least caught the bug.
	Caught bool
}

// The cells of a matrix that name no oracle.
const (
	cellNotAsked = "."
	cellMissed   = "MISSED"
	cellBroken   = "BROKEN"
	cellCaught   = "caught"
)

// columnTests is the column of what tests made of a bug.
const columnTests = "tests"

// Catch notes that a campaign caught the bug, by a plan that is green without it.
func (r *Row) Catch(h Hunt, f faults.Failure) {
	slices.Sort(f.Oracles)
	cell := strings.Join(f.Oracles, " ")
	if undisturbed(f) {
		cell += " (no fault)"
	}
	r.Caught = true
	r.set(h.Campaign, cell)
}

// Miss notes that a campaign did not catch the bug, or came to no verdict.
func (r *Row) Miss(h Hunt, err error) {
	r.set(h.Campaign, missed(err))
}

// Tested notes what one test made of the bug: it failed as it should, or not, or it came to no verdict.
func (r *Row) Tested(failed bool, err error) {
	if err == nil && failed {
		r.Caught = true
		r.set(columnTests, cellCaught)
		return
	}
	r.set(columnTests, missed(err))
}

// missed is the cell of what did not catch a bug.
func missed(err error) string {
	if err != nil {
		return cellBroken
	}
	return cellMissed
}

func (r *Row) set(column, cell string) {
	if r.Cells == nil {
		r.Cells = map[string]string{}
	}
	if before := r.Cells[column]; before != "" && before != cell {
		cell = before + " / " + cell
	}
	r.Cells[column] = cell
}

// Print writes the matrix as a table, in Markdown that lines up, and the count below it.
func Print(w io.Writer, rows []Row) {
	columns := append(slices.Clone(Campaigns), columnTests)
	table := [][]string{append([]string{"bug", "class"}, columns...)}
	caught := 0
	for _, r := range rows {
		line := []string{r.Name, r.Class}
		for _, c := range columns {
			cell := r.Cells[c]
			if cell == "" {
				cell = cellNotAsked
			}
			line = append(line, cell)
		}
		table = append(table, line)
		if r.Caught {
			caught++
		}
	}
	widths := make([]int, len(table[0]))
	for _, line := range table {
		for i, cell := range line {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for n, line := range table {
		for i, cell := range line {
			_, _ = fmt.Fprintf(w, "| %-*s ", widths[i], cell)
		}
		_, _ = fmt.Fprintln(w, "|")
		for i := range line {
			if n == 0 {
				_, _ = fmt.Fprintf(w, "|%s", strings.Repeat("-", widths[i]+2))
			}
		}
		if n == 0 {
			_, _ = fmt.Fprintln(w, "|")
		}
	}
	_, _ = fmt.Fprintf(w, "\n%d of %d mutations detected\n", caught, len(rows))
}

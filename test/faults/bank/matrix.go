package bank

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
	// Cells hold, by campaign, the oracles that caught the bug, or why none did.
	Cells map[string]string
	// Caught says that one campaign at least caught the bug.
	Caught bool
}

// The cells of a matrix that name no oracle.
const (
	cellNotAsked = "."
	cellMissed   = "MISSED"
	cellBroken   = "BROKEN"
)

// Catch notes that a campaign caught the bug, by a plan that is green without it.
func (r *Row) Catch(h Hunt, f faults.Failure) {
	slices.Sort(f.Oracles)
	cell := strings.Join(f.Oracles, " ")
	if undisturbed(f) {
		cell += " (no fault)"
	}
	r.Caught = true
	r.set(h, cell)
}

// Miss notes that a campaign did not catch the bug, or came to no verdict.
func (r *Row) Miss(h Hunt, err error) {
	if err != nil {
		r.set(h, cellBroken)
		return
	}
	r.set(h, cellMissed)
}

func (r *Row) set(h Hunt, cell string) {
	if r.Cells == nil {
		r.Cells = map[string]string{}
	}
	if before := r.Cells[h.Campaign]; before != "" && before != cell {
		cell = before + " / " + cell
	}
	r.Cells[h.Campaign] = cell
}

// Print writes the matrix as a table, in Markdown that lines up, and the count below it.
func Print(w io.Writer, rows []Row) {
	table := [][]string{append([]string{"bug", "class"}, Campaigns...)}
	caught := 0
	for _, r := range rows {
		line := []string{r.Name, r.Class}
		for _, c := range Campaigns {
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
	_, _ = fmt.Fprintf(w, "\n%d of %d seeded bugs caught\n", caught, len(rows))
}

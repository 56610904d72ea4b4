package cli

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// around is how many unchanged lines stand around a change.
	around = 3
	// maxTable bounds the table of the comparison; larger objects are shown as replaced.
	maxTable = 4 << 20
)

// unifiedYAML is the unified diff of two objects' YAML; empty where they are the same. Either may be nil.
func unifiedYAML(before, after *unstructured.Unstructured) (string, error) {
	lines := func(u *unstructured.Unstructured) ([]string, error) {
		if u == nil {
			return nil, nil
		}
		raw, err := yaml.Marshal(u.Object)
		if err != nil {
			return nil, err
		}
		return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n"), nil
	}
	a, err := lines(before)
	if err != nil {
		return "", err
	}
	b, err := lines(after)
	if err != nil {
		return "", err
	}
	return unified(a, b), nil
}

// edit is one line of a comparison: kept (' '), taken out ('-') or put in ('+').
type edit struct {
	mark byte
	text string
}

// unified prints the difference of two texts as hunks.
func unified(a, b []string) string {
	edits := compareLines(a, b)
	var out strings.Builder
	for from := 0; from < len(edits); {
		// Find the next change, and where the changes near it end.
		for from < len(edits) && edits[from].mark == ' ' {
			from++
		}
		if from == len(edits) {
			break
		}
		to, kept := from, 0
		for to < len(edits) && kept <= 2*around {
			if edits[to].mark == ' ' {
				kept++
			} else {
				kept = 0
			}
			to++
		}
		start, end := max(0, from-around), to-max(0, kept-around)
		out.WriteString(hunk(edits, start, end))
		from = to
	}
	return out.String()
}

// hunk prints some of the edits with their place in both texts.
func hunk(edits []edit, start, end int) string {
	lineA, lineB := 1, 1
	for _, e := range edits[:start] {
		if e.mark != '+' {
			lineA++
		}
		if e.mark != '-' {
			lineB++
		}
	}
	countA, countB := 0, 0
	var body strings.Builder
	for _, e := range edits[start:end] {
		if e.mark != '+' {
			countA++
		}
		if e.mark != '-' {
			countB++
		}
		body.WriteByte(e.mark)
		body.WriteString(e.text)
		body.WriteByte('\n')
	}
	// A side without lines is counted from the line before, as diff does.
	if countA == 0 {
		lineA--
	}
	if countB == 0 {
		lineB--
	}
	return fmt.Sprintf("@@ -%d,%d +%d,%d @@\n%s", lineA, countA, lineB, countB, body.String())
}

// compareLines finds the shortest edits from one text to another by their longest common subsequence.
func compareLines(a, b []string) []edit {
	var head, tail []edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, edit{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, edit{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	width, table := len(b)+1, commonLines(a, b)
	out, i, j := head, 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case table != nil && i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || table == nil || table[(i+1)*width+j] >= table[i*width+j+1]):
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	for k := len(tail) - 1; k >= 0; k-- {
		out = append(out, tail[k])
	}
	return out
}

// commonLines is the table of what texts have in common: at i*(len(b)+1)+j, how many lines a[i:] and b[j:] share in order.
// It is nil for texts that are too long.
func commonLines(a, b []string) []int32 {
	if len(a)*len(b) > maxTable {
		return nil
	}
	width := len(b) + 1
	table := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				table[i*width+j] = table[(i+1)*width+j+1] + 1
			} else {
				table[i*width+j] = max(table[(i+1)*width+j], table[i*width+j+1])
			}
		}
	}
	return table
}

// printDiff prints every difference, and one line of counts.
func printDiff(out, stderr io.Writer, report *DiffReport, paint palette, summary bool) error {
	if err := printWarnings(stderr, report.Warnings); err != nil {
		return err
	}
	counts, stack := map[string]int{}, ""
	for i := range report.Objects {
		o := &report.Objects[i]
		counts[o.Action]++
		var lines []string
		if o.Stack != stack {
			stack = o.Stack
			lines = append(lines, paint.paint(styleBold, Clean(stack)))
		}
		lines = append(lines, o.line(paint))
		if !summary {
			lines = append(lines, o.lines(paint)...)
		}
		if err := printLines(out, lines...); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("%d created, %d changed, %d deleted, %d unchanged", counts[actionCreated], counts[actionChanged],
		counts[actionDeleted], counts[actionUnchanged])
	for _, action := range []string{actionConflict, actionSkipped} {
		if counts[action] > 0 {
			text += fmt.Sprintf(", %d %s", counts[action], action)
		}
	}
	return printLines(out, text)
}

// line is the headline of one object.
func (d *Difference) line(paint palette) string {
	name := d.Name
	if d.Namespace != "" {
		name = d.Namespace + "/" + name
	}
	style := map[string]string{
		actionCreated: styleGreen, actionChanged: styleYellow, actionDeleted: styleRed, actionConflict: styleRed,
		actionUnchanged: styleDim, actionSkipped: styleDim,
	}[d.Action]
	text := fmt.Sprintf("  %-9s  %s %s", d.Action, d.Kind, name)
	out := paint.paint(style, Clean(text))
	if d.Note != "" {
		out += Clean(": " + d.Note)
	} else if d.Action == actionChanged {
		out += Clean(" (" + d.Reason + ")")
	}
	return out
}

// lines are the hunks, so that other tools can read them.
func (d *Difference) lines(paint palette) []string {
	if d.Diff == "" {
		return nil
	}
	name := strings.ToLower(d.Kind) + "/" + d.Namespace + "/" + d.Name
	was, is := "live/"+name, "declared/"+name
	if d.Action == actionCreated {
		was = "/dev/null"
	}
	if d.Action == actionDeleted {
		is = "/dev/null"
	}
	out := []string{paint.paint(styleBold, Clean("--- "+was)), paint.paint(styleBold, Clean("+++ "+is))}
	for line := range strings.Lines(d.Diff) {
		line = Clean(strings.TrimSuffix(line, "\n"))
		style := ""
		switch line[0] {
		case '@':
			style = styleCyan
		case '-':
			style = styleRed
		case '+':
			style = styleGreen
		}
		out = append(out, paint.paint(style, line))
	}
	return out
}

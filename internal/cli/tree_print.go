package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"mlkeeper.dev/internal/engine/health"
)

// branch is one line of a tree before it is aligned.
type branch struct {
	// lead is the line art, name what stands at its end.
	lead, name string
	// style colours the state.
	style                  string
	state, reason, message string
}

// markOf is a mark of a health for the eye; the word beside it says the same.
func markOf(state string) string {
	switch state {
	case string(health.Current):
		return "✓"
	case string(health.InProgress), healthNotCreated:
		return "…"
	case string(health.Failed), healthMissing:
		return "✗"
	case string(health.Terminating):
		return "↓"
	}
	return "·"
}

// printTree prints the trees with a blank line between them.
func printTree(out io.Writer, report *TreeReport, paint palette, wide bool) error {
	for i := range report.Stacks {
		if i > 0 {
			if err := printLines(out, ""); err != nil {
				return err
			}
		}
		if err := printStack(out, &report.Stacks[i], paint, wide); err != nil {
			return err
		}
	}
	return nil
}

func printStack(out io.Writer, s *StackTree, paint palette, wide bool) error {
	title := s.Kind + "/" + s.Name
	if s.Namespace != "" {
		title += " in " + s.Namespace
	}
	lines := []string{
		paint.paint(styleBold, Clean(title)) + "  " +
			paint.paint(s.styleOfReady(), Clean("Ready: "+s.Ready+s.notes())) + "  " + Clean(dash(s.Reason)),
	}
	if s.Message != "" {
		lead := "│  "
		if len(s.Stages) == 0 {
			lead = "   "
		}
		// The most important text of all is shown as a whole.
		for line := range strings.Lines(wrap(Clean(s.Message), messageWidth+20)) {
			lines = append(lines, paint.paint(styleDim, lead)+strings.TrimSuffix(line, "\n"))
		}
	}
	return printLines(out, append(lines, align(branches(s, wide), paint)...)...)
}

// branches are the lines below a custom resource: a stage, and below it its objects.
func branches(s *StackTree, wide bool) []branch {
	var out []branch
	for i := range s.Stages {
		stage := &s.Stages[i]
		lead, below := "├─ ", "│  "
		if i == len(s.Stages)-1 {
			lead, below = "└─ ", "   "
		}
		out = append(out, branch{lead: lead, name: stageTitle(stage)})
		for j := range stage.Objects {
			o := &stage.Objects[j]
			twig := "├─ "
			if j == len(stage.Objects)-1 {
				twig = "└─ "
			}
			name := o.Kind + "/" + o.Name
			if o.Namespace != "" && o.Namespace != s.Namespace {
				name = o.Kind + "/" + o.Namespace + "/" + o.Name
			}
			b := branch{lead: below + twig, name: Clean(name), style: styleOf(o.Health), state: markOf(o.Health) + " " + o.Health}
			// What is well needs no explanation on a screen.
			if o.Health != string(health.Current) || wide {
				b.reason, b.message = dash(o.Reason), shown(o.Message, wide)
			}
			out = append(out, b)
		}
	}
	return out
}

func stageTitle(s *StageTree) string {
	var title string
	switch {
	case s.Stage < 0 && s.Name == "":
		title = "objects"
	case s.Stage < 0:
		title = s.Name
	case s.Name == "":
		title = fmt.Sprintf("stage %d", s.Stage+1)
	default:
		title = "stage " + s.Name
	}
	current, all := s.current()
	return Clean(fmt.Sprintf("%s (%d of %d ready)", title, current, all))
}

func shown(message string, wide bool) string {
	if wide {
		return Clean(message)
	}
	return cut(Clean(message), messageWidth)
}

// align puts states and reasons of all branches below each other.
func align(all []branch, paint palette) []string {
	var name, state, reason int
	for _, b := range all {
		if b.state == "" {
			continue
		}
		name = max(name, utf8.RuneCountInString(b.lead+b.name))
		state = max(state, utf8.RuneCountInString(b.state))
		reason = max(reason, utf8.RuneCountInString(Clean(b.reason)))
	}
	out := make([]string, 0, len(all))
	for _, b := range all {
		line := paint.paint(styleDim, b.lead)
		if b.state == "" {
			out = append(out, line+paint.paint(styleCyan, b.name))
			continue
		}
		line += b.name + pad(b.lead+b.name, name) + "  " + paint.paint(b.style, b.state)
		if b.reason != "" {
			line += pad(b.state, state) + "  " + Clean(b.reason) + pad(Clean(b.reason), reason) + "  " + b.message
		}
		out = append(out, strings.TrimRight(line, " "))
	}
	return out
}

// pad is what is missing of a text to a width.
func pad(text string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// printWarnings prints what could not be read.
func printWarnings(w io.Writer, warnings []string) error {
	for _, warning := range warnings {
		if err := printLines(w, "warning: "+Clean(warning)); err != nil {
			return err
		}
	}
	return nil
}

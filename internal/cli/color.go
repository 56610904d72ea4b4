package cli

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"mlkeeper.dev/internal/engine/health"
)

// Terminal is how all commands print.
type Terminal struct{ color colorMode }

// Bind adds the flags.
func (t *Terminal) Bind(flags *pflag.FlagSet) {
	t.color = colorAuto
	flags.Var(&t.color, "color", "auto, always or never; auto uses colour on a terminal unless NO_COLOR is set")
}

// palette is that for a writer.
func (t *Terminal) palette(out io.Writer) palette {
	if t == nil {
		return newPalette(colorAuto, out)
	}
	return newPalette(t.color, out)
}

// colorMode is a value of --color.
type colorMode string

const (
	colorAuto   colorMode = "auto"
	colorAlways colorMode = "always"
	colorNever  colorMode = "never"
)

// Set implements pflag.Value.
func (m *colorMode) Set(text string) error {
	switch mode := colorMode(text); mode {
	case colorAuto, colorAlways, colorNever:
		*m = mode
		return nil
	}
	return errors.New("use auto, always or never")
}

// String implements pflag.Value.
func (m *colorMode) String() string { return string(*m) }

// Type implements pflag.Value.
func (*colorMode) Type() string { return "string" }

// palette colours text for a terminal, or leaves it as it is.
type palette struct{ on bool }

// newPalette decides whether text for a writer is coloured. What somebody asks for on the command line comes before
// NO_COLOR (https://no-color.org), which comes before what the terminal can do.
func newPalette(mode colorMode, out io.Writer) palette {
	if mode != colorAuto {
		return palette{mode == colorAlways}
	}
	file, ok := out.(*os.File)
	return palette{ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))}
}

// The colours that every terminal has; none says anything that the words do not say too.
const (
	styleBold   = "1"
	styleDim    = "2"
	styleRed    = "31"
	styleGreen  = "32"
	styleYellow = "33"
	styleCyan   = "36"
)

func (p palette) paint(style, text string) string {
	if !p.on || text == "" || style == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// styleOf is the colour of a health.
func styleOf(status string) string {
	switch status {
	case string(health.Current):
		return styleGreen
	case string(health.InProgress), string(health.Terminating), healthNotCreated:
		return styleYellow
	case string(health.Failed), healthMissing:
		return styleRed
	}
	return styleDim
}

// styleOfReady is the colour of a condition Ready.
func (s *StackStatus) styleOfReady() string {
	switch {
	case s.Ready == "True":
		return styleGreen
	case s.Stalled || s.Ready == "Unknown":
		return styleRed
	}
	return styleYellow
}

// Package chart draws plots as SVG, by hand, so that a report is one file that needs nothing from anywhere. It is pure.
package chart

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Kind is how a chart is drawn.
type Kind string

// The kinds.
const (
	Line Kind = "line"
	Bar  Kind = "bar"
)

// Series is one line, or the bars of one colour.
type Series struct {
	Name string    `json:"name"`
	X    []float64 `json:"x,omitempty"`
	Y    []float64 `json:"y"`
}

// Mark is a vertical line with a text at a place of the x axis.
type Mark struct {
	X    float64 `json:"x"`
	Text string  `json:"text"`
}

// Chart is one plot.
type Chart struct {
	Title      string   `json:"title"`
	Kind       Kind     `json:"kind"`
	XLabel     string   `json:"xLabel"`
	YLabel     string   `json:"yLabel"`
	Categories []string `json:"categories,omitempty"`
	Series     []Series `json:"series"`
	Marks      []Mark   `json:"marks,omitempty"`
	// Limit is drawn as a dashed line where it is not zero.
	Limit float64 `json:"limit,omitempty"`
}

// CDF turns samples into the series of their cumulative distribution, in percent.
func CDF(name string, samples []float64) Series {
	sorted := slices.Sorted(slices.Values(samples))
	s := Series{Name: name, X: []float64{}, Y: []float64{}}
	// A few hundred points are as many as can be seen.
	step := max(1, len(sorted)/400)
	for i := 0; i < len(sorted); i += step {
		s.X, s.Y = append(s.X, sorted[i]), append(s.Y, 100*float64(i+1)/float64(len(sorted)))
	}
	if n := len(sorted); n > 0 && s.X[len(s.X)-1] != sorted[n-1] {
		s.X, s.Y = append(s.X, sorted[n-1]), append(s.Y, 100)
	}
	return s
}

const (
	width, height            = 720.0, 320.0
	left, right, top, bottom = 64.0, 16.0, 40.0, 72.0
)

// palette has colours that people with any colour vision tell apart (Okabe and Ito).
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

func colour(i int) string { return palette[i%len(palette)] }

// frame maps values to the drawing area.
type frame struct{ x0, x1, y0, y1 float64 }

func (f frame) x(v float64) float64 { return left + (v-f.x0)/(f.x1-f.x0)*(width-left-right) }
func (f frame) y(v float64) float64 {
	return height - bottom - (v-f.y0)/(f.y1-f.y0)*(height-top-bottom)
}

// SVG draws the chart.
func (c Chart) SVG() string {
	var b strings.Builder
	f := c.frame()
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s" xmlns="http://www.w3.org/2000/svg">`, width, height, html.EscapeString(c.Title))
	text(&b, width/2, 20, "middle", "title", c.Title)
	for _, v := range ticks(f.y0, f.y1, 5) {
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`, left, width-right, f.y(v), f.y(v))
		text(&b, left-6, f.y(v)+4, "end", "tick", label(v))
	}
	if c.Kind == Bar {
		c.bars(&b, f)
	} else {
		c.lines(&b, f)
	}
	if c.Limit != 0 {
		fmt.Fprintf(&b, `<line class="limit" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`, left, width-right, f.y(c.Limit), f.y(c.Limit))
		text(&b, width-right, f.y(c.Limit)-4, "end", "tick", "limit "+label(c.Limit))
	}
	fmt.Fprintf(&b, `<path class="axis" fill="none" d="M%g %gV%gH%g"/>`, left, top, height-bottom, width-right)
	text(&b, (left+width-right)/2, height-bottom+34, "middle", "tick", c.XLabel)
	fmt.Fprintf(&b, `<text class="tick" text-anchor="middle" transform="translate(14 %g) rotate(-90)">%s</text>`,
		(top+height-bottom)/2, html.EscapeString(c.YLabel))
	c.legend(&b)
	b.WriteString(`</svg>`)
	return b.String()
}

func (c Chart) lines(b *strings.Builder, f frame) {
	for _, v := range ticks(f.x0, f.x1, 8) {
		text(b, f.x(v), height-bottom+16, "middle", "tick", label(v))
	}
	for i, m := range c.Marks {
		fmt.Fprintf(b, `<line class="mark" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/>`, f.x(m.X), f.x(m.X), top, height-bottom)
		// Neighbours are written at different heights, since they may be close.
		text(b, f.x(m.X)+3, top+10+float64(i%4)*12, "start", "tick", m.Text)
	}
	for i, s := range c.Series {
		var d strings.Builder
		for j := range min(len(s.X), len(s.Y)) {
			op := "L"
			if j == 0 {
				op = "M"
			}
			fmt.Fprintf(&d, "%s%.1f %.1f", op, f.x(s.X[j]), f.y(s.Y[j]))
		}
		fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="2" d="%s"/>`, colour(i), d.String())
	}
}

func (c Chart) bars(b *strings.Builder, f frame) {
	slot := (width - left - right) / float64(max(1, len(c.Categories)))
	each := slot * 0.8 / float64(max(1, len(c.Series)))
	for k, name := range c.Categories {
		text(b, left+slot*(float64(k)+0.5), height-bottom+16, "middle", "tick", name)
		for i, s := range c.Series {
			if k >= len(s.Y) {
				continue
			}
			x := left + slot*(float64(k)+0.1) + each*float64(i)
			fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s, %s: %s</title></rect>`,
				x, f.y(s.Y[k]), each*0.95, height-bottom-f.y(s.Y[k]), colour(i), html.EscapeString(s.Name), html.EscapeString(name), label(s.Y[k]))
		}
	}
}

func (c Chart) legend(b *strings.Builder) {
	x := left
	for i, s := range c.Series {
		fmt.Fprintf(b, `<rect x="%.1f" y="%g" width="12" height="12" fill="%s"/>`, x, height-22, colour(i))
		text(b, x+16, height-12, "start", "tick", s.Name)
		x += 32 + 7*float64(len(s.Name))
	}
}

// frame returns the ranges of the values. The y axis begins at zero, so that lengths can be compared.
func (c Chart) frame() frame {
	f := frame{x0: math.Inf(1), x1: math.Inf(-1), y1: c.Limit}
	for _, s := range c.Series {
		for _, v := range s.X {
			f.x0, f.x1 = min(f.x0, v), max(f.x1, v)
		}
		for _, v := range s.Y {
			f.y1 = max(f.y1, v)
		}
	}
	if !(f.x1 > f.x0) {
		f.x0, f.x1 = 0, 1
	}
	if f.y1 <= 0 {
		f.y1 = 1
	}
	f.y1 *= 1.05
	return f
}

// ticks returns about n round values of a range.
func ticks(from, to float64, n int) []float64 {
	raw := (to - from) / float64(n)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	step := unit
	for _, m := range []float64{1, 2, 5, 10} {
		if step = m * unit; step >= raw {
			break
		}
	}
	var out []float64
	for v := math.Ceil(from/step) * step; v <= to+step*1e-9; v += step {
		out = append(out, v)
	}
	return out
}

func label(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return fmt.Sprintf("%gM", math.Round(v/1e4)/100)
	case a >= 1e4:
		return fmt.Sprintf("%gk", math.Round(v/100)/10)
	}
	return fmt.Sprintf("%g", math.Round(v*1000)/1000)
}

func text(b *strings.Builder, x, y float64, anchor, class, s string) {
	fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, class, x, y, anchor, html.EscapeString(s))
}

package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// wellFormed fails where a browser would not draw the picture.
func wellFormed(t *testing.T, svg string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Fatalf("a coordinate is no number:\n%s", svg)
	}
}

func TestSVGIsWellFormed(t *testing.T) {
	for name, c := range map[string]Chart{
		"line":    {Kind: Line, Title: "a < b & c", Series: []Series{{Name: "<x>", X: []float64{0, 1, 2}, Y: []float64{3, 1, 2}}}, Limit: 2.5, Marks: []Mark{{1, "m"}}},
		"bar":     {Kind: Bar, Categories: []string{"a", "b"}, Series: []Series{{Name: "s", Y: []float64{1, 2}}, {Name: "short", Y: []float64{1}}}},
		"nothing": {Kind: Line},
		"point":   {Kind: Line, Series: []Series{{X: []float64{5}, Y: []float64{0}}}},
	} {
		t.Run(name, func(t *testing.T) { wellFormed(t, c.SVG()) })
	}
}

func TestALineStaysInsideTheFrame(t *testing.T) {
	c := Chart{Kind: Line, Series: []Series{{X: []float64{10, 20}, Y: []float64{5, 50}}}}
	f := c.frame()
	for _, x := range []float64{f.x(10), f.x(20)} {
		if x < left || x > width-right {
			t.Errorf("x is %g", x)
		}
	}
	for _, y := range []float64{f.y(0), f.y(50)} {
		if y < top || y > height-bottom {
			t.Errorf("y is %g", y)
		}
	}
}

func TestCDF(t *testing.T) {
	s := CDF("x", []float64{3, 1, 2, 4})
	if len(s.X) != 4 || s.X[0] != 1 || s.Y[0] != 25 || s.X[3] != 4 || s.Y[3] != 100 {
		t.Fatalf("%+v", s)
	}
	many := make([]float64, 10000)
	for i := range many {
		many[i] = float64(i)
	}
	if s := CDF("x", many); len(s.X) > 500 || s.Y[len(s.Y)-1] != 100 {
		t.Fatalf("%d points, the last at %g", len(s.X), s.Y[len(s.Y)-1])
	}
	if s := CDF("x", nil); len(s.X) != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestTicksAreRound(t *testing.T) {
	got := ticks(0, 10, 5)
	if len(got) != 6 || math.Abs(got[1]-2) > 1e-9 {
		t.Fatalf("%v", got)
	}
}

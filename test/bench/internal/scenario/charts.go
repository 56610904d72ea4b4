package scenario

import (
	"maps"
	"slices"

	"mlkeeper.dev/test/bench/internal/audit"
	"mlkeeper.dev/test/bench/internal/chart"
)

// counted are the classes of requests that a chart shows.
var counted = []audit.Class{audit.Write, audit.Get, audit.List, audit.Event}

// requestChart compares requests per custom resource.
func requestChart(title string, services float64, tallies map[string]audit.Tally) chart.Chart {
	c := chart.Chart{Title: title, Kind: chart.Bar, XLabel: "class of request", YLabel: "requests per custom resource"}
	for _, class := range counted {
		c.Categories = append(c.Categories, string(class))
	}
	for _, name := range slices.Sorted(maps.Keys(tallies)) {
		s := chart.Series{Name: name}
		for _, class := range counted {
			s.Y = append(s.Y, float64(tallies[name].Class[class])/services)
		}
		c.Series = append(c.Series, s)
	}
	return c
}

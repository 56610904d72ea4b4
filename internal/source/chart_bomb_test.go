package source

import (
	"strings"
	"testing"
)

// TestAnIndexEndsNothing has an index that fits into the memory as it is sent, but not decoded. An index of a chart is read after it as before.
func TestAnIndexEndsNothing(t *testing.T) {
	index := "entries: {chart: [{version: 1.0.0, urls: ['chart.tgz'], x: [" + strings.Repeat("[],", (16<<20)/4) + "]}]}"
	server := serve(t, false, static([]byte(index)))
	s := open(t, nil)
	_, err := s.FetchChart(t.Context(), ChartRequest{Repository: server.URL, Name: "chart", Version: "1.0.0"})
	wantError(t, err, Terminal, ReasonTooLarge)
	link, _, err := s.find(t.Context(), []byte("entries: {chart: [{version: 1.0.0, urls: ['chart.tgz']}]}"), ChartRequest{Name: "chart", Version: "v1.0.0"})
	if err != nil || link != "chart.tgz" {
		t.Errorf("%q, %v", link, err)
	}
	_, _, err = s.find(t.Context(), []byte("entries: {}"), ChartRequest{Name: "chart", Version: "v1.0.0"})
	wantError(t, err, Terminal, ReasonNotFound)
}

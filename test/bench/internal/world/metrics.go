package world

import (
	"strconv"
	"strings"
)

// Metrics are samples of the text format of Prometheus, by name and labels as they were printed.
type Metrics map[string]float64

// ParseMetrics reads the text format; a line that is no sample is passed over.
func ParseMetrics(text string) Metrics {
	out := Metrics{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		// A label may hold spaces, the value has none.
		i := strings.LastIndexByte(line, ' ')
		if i < 0 {
			continue
		}
		if value, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
			out[line[:i]] = value
		}
	}
	return out
}

// Has says whether there is a metric of a name.
func (m Metrics) Has(name string) bool {
	for key := range m {
		if named(key, name) {
			return true
		}
	}
	return false
}

// Sum adds up all samples of a name that have all the labels, each as label="value".
func (m Metrics) Sum(name string, labels ...string) float64 {
	sum := 0.0
samples:
	for key, value := range m {
		if !named(key, name) {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(key, label) {
				continue samples
			}
		}
		sum += value
	}
	return sum
}

// Since returns what the counters of a name grew by after an earlier reading.
func (m Metrics) Since(earlier Metrics, name string) map[string]float64 {
	out := map[string]float64{}
	for key, value := range m {
		if named(key, name) && value > earlier[key] {
			out[key] = value - earlier[key]
		}
	}
	return out
}

func named(key, name string) bool { return key == name || strings.HasPrefix(key, name+"{") }

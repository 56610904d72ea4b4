package tfserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// counts are the metrics of requests by REST. That of latency has those that succeeded.
type counts struct {
	mu       sync.Mutex
	requests map[[2]string]int64
	latency  map[[2]string]*histogram
}

// histogram has the buckets of TensorFlow Serving: 33 of them, each 1.8 times the one before, from 10 microseconds.
type histogram struct {
	buckets [33]int64
	sum     float64
}

func (c *counts) request(model, code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests == nil {
		c.requests = map[[2]string]int64{}
	}
	c.requests[[2]string{model, code}]++
}

// took counts a request that succeeded; the method of one that is no inference is empty.
func (c *counts) took(model, method string, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latency == nil {
		c.latency = map[[2]string]*histogram{}
	}
	key := [2]string{model, method}
	if c.latency[key] == nil {
		c.latency[key] = &histogram{}
	}
	h, micros, limit := c.latency[key], float64(d.Microseconds()), 10.0
	h.sum += micros
	at := 0
	for ; at < len(h.buckets)-1 && micros >= limit; at++ {
		limit *= 1.8
	}
	h.buckets[at]++
}

func order(a, b [2]string) int { return strings.Compare(a[0]+"\x00"+a[1], b[0]+"\x00"+b[1]) }

var labelValue = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// page prints the metrics as util/prometheus_exporter.cc does.
func (c *counts) page() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	const requests, latency = ":tensorflow:serving:request_count", ":tensorflow:serving:request_latency"
	lines = append(lines, "# TYPE "+requests+" counter")
	for _, key := range slices.SortedFunc(maps.Keys(c.requests), order) {
		lines = append(lines, fmt.Sprintf(`%s{model_name="%s",status="%s"} %d`, requests, labelValue.Replace(key[0]), key[1], c.requests[key]))
	}
	lines = append(lines, "# TYPE "+latency+" histogram")
	for _, key := range slices.SortedFunc(maps.Keys(c.latency), order) {
		h := c.latency[key]
		labels := fmt.Sprintf(`model_name="%s",API="%s",entrypoint="REST"`, labelValue.Replace(key[0]), key[1])
		total, limit := int64(0), 10.0
		for i, n := range h.buckets {
			total += n
			le := fmt.Sprintf("%g", limit)
			if i == len(h.buckets)-1 {
				le = "+Inf"
			}
			lines = append(lines, fmt.Sprintf(`%s_bucket{%s,le="%s"} %d`, latency, labels, le, total))
			limit *= 1.8
		}
		lines = append(lines, fmt.Sprintf(`%s_sum{%s} %g`, latency, labels, h.sum), fmt.Sprintf(`%s_count{%s} %d`, latency, labels, total))
	}
	return strings.Join(lines, "\n") + "\n"
}

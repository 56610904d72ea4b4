// Package scrape says how often Prometheus may be told to ask on behalf of the owner of a custom resource.
package scrape

import (
	"fmt"
	"time"

	"github.com/prometheus/common/model"
)

// MinInterval is the shortest interval: all namespaces share one Prometheus, and one that asks every millisecond ends it.
// The schemas of the custom resources say so too.
const MinInterval = time.Second

// Interval checks a scrape interval, a Prometheus duration.
func Interval(text string) error {
	d, err := model.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("is no duration such as 15s")
	case time.Duration(d) < MinInterval:
		return fmt.Errorf("is shorter than %s", MinInterval)
	}
	return nil
}

// Timeout checks a scrape timeout against the interval, which Prometheus wants to be no shorter.
func Timeout(text, interval string) error {
	d, err := model.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("is no duration such as 3s")
	}
	if i, err := model.ParseDuration(interval); err == nil && d > i {
		return fmt.Errorf("is longer than the interval, %s", interval)
	}
	return nil
}

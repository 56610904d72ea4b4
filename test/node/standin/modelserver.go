package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"mlkeeper.dev/test/tfserver"
)

// serverName is the file name under which the binary stands in for TensorFlow
// Serving: the operator gives the command, and the image has it at that path.
const serverName = "tensorflow_model_server"

// loading is how long a model loads.
const loading = 2 * time.Second

// buckets is Google Cloud Storage, of which the node has none, beside the file
// system: each base path there has every version that is asked for by its number,
// and lists version 1. Each is the toy y = 2x + 1.
type buckets struct{ tfserver.Disk }

func inBucket(path string) bool { return strings.HasPrefix(path, "gs://") }

// Exists implements tfserver.Store.
func (b buckets) Exists(path string) error {
	if inBucket(path) {
		return nil
	}
	return b.Disk.Exists(path)
}

// Children implements tfserver.Store.
func (b buckets) Children(path string) ([]string, error) {
	if inBucket(path) {
		return []string{"1"}, nil
	}
	return b.Disk.Children(path)
}

// Load implements tfserver.Store.
func (b buckets) Load(folder string) (tfserver.Model, error) {
	time.Sleep(loading)
	if inBucket(folder) {
		return tfserver.Model{Bias: 1}, nil
	}
	return b.Disk.Load(folder)
}

// load posts the same body count times, one every interval, each on a connection
// of its own so that the Service chooses anew, and prints how many failed.
func load(ctx context.Context, url, body string, count int, interval time.Duration) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	failures := 0
	var first error
	for range count {
		code, answer, err := send(ctx, client, http.MethodPost, url, body)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d: %s", code, answer)
		}
		if err != nil {
			failures++
			first = errors.Join(first, err)
			if failures > 3 {
				break
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	if failures > 0 {
		return fmt.Errorf("%d requests failed: %w", failures, first)
	}
	fmt.Printf("%d requests, none failed\n", count)
	return nil
}

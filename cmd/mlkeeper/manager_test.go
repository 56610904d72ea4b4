package main

import "testing"

// TestTheProfilerIsServedToThisMachineAlone: a heap holds Secrets, and the profiler asks nobody who they are.
func TestTheProfilerIsServedToThisMachineAlone(t *testing.T) {
	for address, allowed := range map[string]bool{
		"": true, "0": true, "127.0.0.1:6060": true, "localhost:6060": true, "[::1]:6060": true,
		":6060": false, "0.0.0.0:6060": false, "[::]:6060": false, "10.0.0.1:6060": false, "6060": false, "example.com:6060": false,
	} {
		if err := checkProfiler(address); (err == nil) != allowed {
			t.Errorf("%q: %v", address, err)
		}
	}
}

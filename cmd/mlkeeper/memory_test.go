package main

import "testing"

func TestGarbageIsCollectedEarlyOnlyAtRest(t *testing.T) {
	percent, busy := startPercent, 0
	for i, second := range []struct {
		ready bool
		bytes uint64
		times int
		want  int
	}{
		{false, 100 << 20, 5, startPercent}, // The caches are being filled.
		{false, 0, 20, startPercent},        // A watch is late.
		{true, 100 << 20, 1, busyPercent},
		{true, 1 << 10, 14, busyPercent}, // Not calm for long enough.
		{true, 1 << 10, 1, restPercent},
		{true, 1 << 10, 100, restPercent},
		{true, busyBytes, 1, busyPercent},
		{false, 1 << 10, 15, restPercent}, // A watch that begins later is no start.
	} {
		for range second.times {
			busy = decay(busy, second.bytes)
			percent = choose(second.ready, busy, percent)
		}
		if percent != second.want {
			t.Fatalf("step %d: %d, want %d", i, percent, second.want)
		}
	}
	if before := allocated(); before == 0 {
		t.Error("nothing was allocated so far")
	}
}

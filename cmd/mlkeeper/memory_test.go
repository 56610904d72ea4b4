package main

import "testing"

func TestGarbageIsCollectedEarlyOnlyAtRest(t *testing.T) {
	percent, w := startPercent, work{}
	for i, second := range []struct {
		ready bool
		bytes uint64
		live  uint64
		times int
		want  int
	}{
		{false, 100 << 20, fullBytes, 5, startPercent}, // The caches are being filled.
		{false, 0, 0, 20, startPercent},                // A watch is late.
		{true, 100 << 20, 1 << 20, 1, busyPercent},
		{true, 1 << 10, 1 << 20, 14, busyPercent}, // Not calm for long enough.
		{true, 1 << 10, 1 << 20, 1, restPercent},
		{true, 1 << 10, fullBytes, 100, restPercent},
		{true, busyBytes, 1 << 20, 1, busyPercent},
		{true, busyBytes, fullBytes, 1, fullPercent}, // The caches have grown large.
		{false, 1 << 10, fullBytes, 15, restPercent}, // A watch that begins later is no start.
	} {
		for range second.times {
			w = w.after(second.bytes)
			percent = w.choose(second.ready, percent, second.live)
		}
		if percent != second.want {
			t.Fatalf("step %d: %d, want %d", i, percent, second.want)
		}
	}
	// What renders makes its garbage before a second is over, and is applied thereafter.
	w.rendering = calmSeconds
	for i := range calmSeconds {
		if percent = w.choose(true, percent, fullBytes); percent != renderPercent {
			t.Fatalf("%d s after a rendering: %d", i, percent)
		}
		w = w.after(busyBytes)
	}
	if percent = w.choose(true, percent, fullBytes); percent != fullPercent {
		t.Errorf("when a rendering is over: %d", percent)
	}
	if allocated, live := heap(); allocated < live || live == 0 {
		t.Errorf("%d bytes were allocated so far, and %d live", allocated, live)
	}
}

package scrape

import "testing"

func TestInterval(t *testing.T) {
	for text, ok := range map[string]bool{
		"1s": true, "15s": true, "1m30s": true, "1h": true, "1d": true, "1000ms": true,
		"0": false, "0s": false, "1ms": false, "999ms": false, "": false, "15": false, "-1s": false, "s": false, "1s1m": false,
	} {
		if err := Interval(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTimeout(t *testing.T) {
	for _, tc := range []struct {
		timeout, interval string
		ok                bool
	}{
		{"3s", "4s", true}, {"4s", "4s", true}, {"500ms", "1s", true}, {"5s", "4s", false}, {"0s", "4s", false}, {"x", "4s", false},
	} {
		if err := Timeout(tc.timeout, tc.interval); (err == nil) != tc.ok {
			t.Errorf("%s within %s: %v", tc.timeout, tc.interval, err)
		}
	}
}

package scrape

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

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

// TestWhatTheSchemasTakeIsAnInterval: a duration of more than 292 years is none for Prometheus, so each schema bounds the digits of every unit.
func TestWhatTheSchemasTakeIsAnInterval(t *testing.T) {
	const longest = "99y999w9999d99999h999999m9999999s999999999ms"
	if err := Interval(longest); err != nil {
		t.Errorf("%s %v", longest, err)
	}
	files, err := filepath.Glob("../../config/crd/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	line, found := regexp.MustCompile(`(?m)^ *pattern: (\^\(0\|.*y\).*ms\).*)$`), 0
	for _, file := range files {
		schema, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range line.FindAllSubmatch(schema, -1) {
			found++
			pattern := regexp.MustCompile(string(match[1]))
			if !pattern.MatchString(longest) || !pattern.MatchString("1m30s") {
				t.Errorf("%s: %s refuses what is an interval", file, pattern)
			}
			for _, digits := range regexp.MustCompile(`9+`).FindAllStringIndex(longest, -1) {
				if longer := longest[:digits[0]] + "9" + longest[digits[0]:]; pattern.MatchString(longer) {
					t.Errorf("%s: %s takes %s", file, pattern, longer)
				}
			}
		}
	}
	if found < 2 {
		t.Errorf("%d schemas have an interval", found)
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

package bounded

import (
	"encoding/json"
	"testing"
)

func TestValues(t *testing.T) {
	for text, want := range map[string]int{`1`: 1, `{}`: 1, `[]`: 1, `{"a": null}`: 2, `{"a": [1, {"b": "c"}], "d": 2}`: 6} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if got := Values(value); got != want {
			t.Errorf("%s has %d values, not %d", text, got, want)
		}
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc…", "abü": "ab…"} {
		if got := Text(text, 3); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
	}
}

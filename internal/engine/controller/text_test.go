package controller

import (
	"testing"
	"unicode/utf8"
)

func TestCut(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""}, {"1234567890", "1234567890"}, {"12345678901", "1234567..."}, {"123456äöü", "123456..."},
	} {
		if got := Cut(c.text, 10); got != c.want || !utf8.ValidString(got) {
			t.Errorf("%q becomes %q, not %q", c.text, got, c.want)
		}
	}
}

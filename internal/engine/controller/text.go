package controller

import "strings"

// Cut shortens a text to a number of bytes, which is never more characters, and keeps it valid UTF-8. What was cut ends in
// three dots.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-3], "") + "..."
}

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// Clean makes one line of text that may be printed to a terminal: whitespace becomes a space, and what a terminal would
// obey or hide (control, format and private characters) is escaped.
func Clean(s string) string {
	var out strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			out.WriteByte(' ')
		case unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			out.WriteString(escape(r))
		}
	}
	return out.String()
}

// CleanLines is Clean for text of several lines.
func CleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// escape writes a rune as JSON would.
func escape(r rune) string {
	if r > 0xffff {
		r -= 0x10000
		return fmt.Sprintf(`\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// cut shortens text to a number of runes.
func cut(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-1]) + "…"
}

// printJSON prints a value as indented JSON in which what a terminal would obey is escaped; the value stays the same.
func printJSON(w io.Writer, value any) error {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	var out strings.Builder
	for _, r := range raw.String() {
		if r == '\n' || unicode.IsPrint(r) {
			out.WriteRune(r)
		} else {
			// Outside of strings JSON has only printable characters, so this is inside one.
			out.WriteString(escape(r))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// printLines prints lines of text as they are.
func printLines(w io.Writer, lines ...string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

package faults

import (
	"math"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// longText bounds the texts that are tried.
const longText = 4096

// values are those that a field is given, of its type and not, sensible and not.
func (c *changes) values(s apiextensionsv1.JSONSchemaProps, name string) []any {
	var out []any
	for _, e := range s.Enum {
		out = append(out, literal(e))
	}
	switch {
	case s.XIntOrString:
		return append(out, int64(1), int64(0), "2", "-1", "250m", "100Gi", "1.5.2", alien, "50%", "200%")
	case len(s.Enum) > 0:
		return append(out, alien, "")
	case s.Type == "boolean":
		return append(out, true, false, alien)
	case s.Type == "integer" || s.Type == "number":
		return append(out, numbers(s)...)
	case s.Type == "array":
		return append(out, []any{}, alien)
	case s.Type == "string":
		out = append(out, "", "a")
		out = append(out, sensible(name)...)
		return append(out, lengths(s)...)
	}
	return append(out, map[string]any{}, alien)
}

// numbers are those about the limits of a field.
func numbers(s apiextensionsv1.JSONSchemaProps) []any {
	out := []any{int64(0), int64(1), int64(2), int64(-1), alien}
	if s.Minimum != nil {
		out = append(out, int64(*s.Minimum), int64(*s.Minimum)-1)
	}
	switch {
	case s.Maximum != nil:
		out = append(out, int64(*s.Maximum), int64(*s.Maximum)+1)
	case s.Format == "int64":
		out = append(out, int64(math.MaxInt64))
	default:
		out = append(out, int64(math.MaxInt32), int64(math.MaxInt32)+1)
	}
	return out
}

// lengths are texts that are as long as they may be, and longer.
func lengths(s apiextensionsv1.JSONSchemaProps) []any {
	if s.MaxLength == nil || *s.MaxLength > longText {
		return []any{strings.Repeat("a", 300)}
	}
	return []any{strings.Repeat("a", int(*s.MaxLength)), strings.Repeat("a", int(*s.MaxLength)+1)}
}

// sensible are values that fields of such a name often have, the first of them a good one, and values that look like them.
func sensible(name string) []any {
	lower := strings.ToLower(name)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(lower, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("image"):
		return []any{"example.com/other:v2", "UPPER CASE::bad", "example.com/other@sha256:short", " leading"}
	case has("schedule", "interval", "timeout", "duration", "period"):
		return []any{"10s", "0s", "-5s", "5 minutes", "1h30m", "99999999999h"}
	case has("size", "quantity", "limit", "request"):
		return []any{"2Gi", "1Gi", "0", "-1Gi", "1.5.2", "1e40"}
	case has("uri", "url", "repository", "endpoint"):
		return []any{"https://example.invalid/x.tar.gz", "::not-a-url", "http://", "ftp://example.invalid/x", "configmap:" + alien + "/x.tgz"}
	case has("path", "folder", "location", "dir"):
		return []any{"/other", "relative/path", "/a/../b", "/", "/with space"}
	case has("time", "received"):
		return []any{"2026-01-01T00:00:00.000000Z", "yesterday", "9999-12-31T23:59:59.000000Z"}
	case has("version"):
		return []any{"1.0.0", "0.0.0", "not a version", ">=1"}
	case has("digest"):
		return []any{"sha256:" + strings.Repeat("0", 64), "sha256:short", "md5:x"}
	case has("name", "secret", "configmap", "claim", "key", "class", "pv", "account"):
		return []any{alien, "Not_A_Name!", "a.b", "-a", "UPPER"}
	}
	return []any{alien, "with space", "line\nbreak", "{{ template }}", "$(VARIABLE)"}
}

// literal decodes a value of a schema.
func literal(v apiextensionsv1.JSON) any {
	var out any
	if utiljson.Unmarshal(v.Raw, &out) != nil {
		return nil
	}
	return out
}

package health

import "math"

// object is the content of an observed object. Its readers never panic and take a value of the wrong type for absent.
type object map[string]any

// value returns what is at a path; null is absent.
func (o object) value(path ...string) (any, bool) {
	var v any = map[string]any(o)
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		v = m[p]
	}
	return v, v != nil
}

// text returns the string at a path, or an empty one.
func (o object) text(path ...string) string {
	v, _ := o.value(path...)
	s, _ := v.(string)
	return s
}

// truth returns the boolean at a path, or false.
func (o object) truth(path ...string) bool {
	v, _ := o.value(path...)
	b, _ := v.(bool)
	return b
}

// number returns the integer at a path. Decoders other than that of the API machinery turn integers into floats, so
// these count when they are integral.
func (o object) number(path ...string) (int64, bool) {
	v, _ := o.value(path...)
	switch n := v.(type) {
	case int64:
		return n, true
	case int:
		return int64(n), true
	case int32:
		return int64(n), true
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return int64(n), true
		}
	}
	return 0, false
}

// count returns the integer at a path, or the given one when there is none.
func (o object) count(absent int64, path ...string) int64 {
	if n, ok := o.number(path...); ok {
		return n
	}
	return absent
}

// list returns the maps in the list at a path.
func (o object) list(path ...string) []object {
	v, _ := o.value(path...)
	items, _ := v.([]any)
	var out []object
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}
